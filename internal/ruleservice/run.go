package ruleservice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstock-io/penstock/internal/poll"
	"github.com/penstock-io/penstock/rules"
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
	watching.Go(func() { s.Database.Watch(ctx, wake.Wake, func(error) {}) }) // reading says why, too

	p := &publishing{service: s}
	last := "never"
	publish := func() {
		err := p.once(ctx)
		if now := fmt.Sprint(err); ctx.Err() == nil && now != last && run.Changed != nil {
			run.Changed(err)
			last = now
		}
	}
	publish()
	poll.Every(ctx, cmp.Or(max(run.Interval, 0), 5*time.Second), wake, publish)
}

// publishing remembers whether the text it saw last compiles.
type publishing struct {
	service *Service
	checked *rules.Text
	bad     error
}

func (p *publishing) once(ctx context.Context) error {
	text, err := p.service.Database.Read(ctx)
	if errors.Is(err, rules.ErrNoRules) {
		return nil // there is nothing to publish
	}
	if err != nil {
		return err
	}
	if !text.Same(p.checked) {
		_, err := p.service.check(ctx, text.Files[0].Name, text.Version, text.Files[0].Data)
		if ctx.Err() != nil {
			return ctx.Err() // which says nothing about the rules
		}
		p.checked, p.bad = text, err
	}
	if p.bad != nil {
		return fmt.Errorf("publish version %d of the rules: it does not compile: %w", text.Version, p.bad)
	}
	return p.service.publish(ctx, text)
}
