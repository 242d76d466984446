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

// Run says what Service.Run does.
type Run struct {
	Interval time.Duration // default 5 s

	// Changed gets nil when what the database has is published, and the reason when it cannot be: once for each
	// change of it. It may be nil.
	Changed func(error)
}

// Run publishes what the database has until ctx ends, and returns then: when it starts, when the database tells of a
// new version, and every interval, so that what another process saved, what failed, and what Redis forgot gets there.
// What does not compile is not published: nodes have no other place to learn what was good.
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
