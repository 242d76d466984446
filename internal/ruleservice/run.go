package ruleservice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstock-io/penstock/internal/poll"
	"github.com/penstock-io/penstock/rules/live"
)

// Run configures Service.Run.
type Run struct {
	Interval time.Duration // default 5 s

	// Changed receives nil when the database's rules are published, and the reason when they cannot be, once for each
	// change. It may be nil.
	Changed func(error)
}

// Run publishes the database's rules until ctx ends, and then returns. It publishes at the start, when the database
// reports a new version, and at every interval. So versions that another process saved, that failed to publish, or
// that Redis lost are published too. It does not publish rules that do not compile, because nodes would have no
// other source of good rules.
func (s *Service) Run(ctx context.Context, run Run) {
	wake := poll.NewWaker()
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { s.Database.Watch(ctx, wake.Wake, func(error) {}) }) // reading reports the error, too

	last := "never"
	publish := func() {
		err := s.publishCurrent(ctx)
		if now := fmt.Sprint(err); ctx.Err() == nil && now != last && run.Changed != nil {
			run.Changed(err)
			last = now
		}
	}
	publish()
	poll.Every(ctx, cmp.Or(max(run.Interval, 0), 5*time.Second), wake, publish)
}

// publishCurrent publishes the current rules of the database.
func (s *Service) publishCurrent(ctx context.Context) error {
	text, err := s.Database.Read(ctx)
	if errors.Is(err, live.ErrNoRules) {
		return nil // there is nothing to publish
	}
	if err != nil {
		return err
	}
	if _, _, err := text.Compile(ctx, s.Compile); err != nil {
		return fmt.Errorf("publish version %d of the rules: it does not compile: %w", text.Version, err)
	}
	return s.publish(ctx, text)
}
