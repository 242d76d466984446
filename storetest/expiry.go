package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
)

// Expiry checks on the store's own clock that a counter whose limit changes lives as long as the new limit
// needs, once a request has read it: a denied request, a peek, or a request that was denied elsewhere. A
// counter that no request has read may expire when the limit that wrote it no longer needs it.
func (s Suite) Expiry(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	if err := expiry(s.open(t, 1)); err != nil {
		t.Error(err)
	}
}

// expiry plays all cases side by side, and waits once for all of them.
func expiry(nodes []storage.Store) error {
	const tries = 20 // a busy machine may read too late
	cases := lowered()
	for range tries {
		var again []*loweredLimit
		for _, c := range cases {
			seen, err := c.spend(nodes[0])
			if err != nil {
				return err
			}
			if !seen {
				again = append(again, c)
			}
		}
		if len(again) < len(cases) {
			time.Sleep(spentLife + 300*time.Millisecond)
		}
		var errs []error
		for _, c := range cases {
			if c.since != 0 {
				errs = append(errs, c.check(nodes[0]))
			}
		}
		if err := errors.Join(errs...); err != nil || len(again) == 0 {
			return err
		}
		cases = again
	}
	return fmt.Errorf("of %d counters, none could be looked at within %v of being written", len(cases), spentLife)
}

// spentLife is how long the limits that write the counters need them.
const spentLife = time.Second

// A loweredLimit is a counter that one group writes and another group, with a lower limit, reads.
type loweredLimit struct {
	name        string
	spends, now storage.Group
	denied      bool // the ticket that reads was denied elsewhere

	subject storage.Subject
	since   algorithm.Instant // when it was written; 0: not read in time
}

func lowered() (all []*loweredLimit) {
	add := func(name string, denied bool, spends, now storage.Group) {
		all = append(all, &loweredLimit{name: name, denied: denied, spends: spends, now: now})
	}
	for _, l := range []algorithm.Limit{
		{Algorithm: algorithm.TokenBucket, Burst: 1000},
		{Algorithm: algorithm.TokenBucket, Burst: 1000, Refill: algorithm.Interval},
		{Algorithm: algorithm.LeakyBucket, Queue: 999},
	} {
		l.Count, l.Window = 1000, spentLife
		spends := group(l.MustCompile(), 1000)
		l.Count = 1
		m := l.MustCompile()
		name := fmt.Sprint(m)
		add(name+" denies", false, spends, group(m, 1))
		add(name+" is looked at", false, spends, group(m, 0))
		add(name+" is denied elsewhere", true, spends, group(m, 1))
		several := group(m, 1)
		several.Charges = append(several.Charges, algorithm.Charge{Meter: perMinute(5), Cost: 1})
		add(name+" denies beside another", false, spends, several)
	}
	terms := algorithm.PenaltyTerms{After: 2, Within: time.Hour, Bans: []time.Duration{time.Hour}, ForgiveAfter: spentLife}
	log := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 1, Window: time.Minute}.MustCompile()
	spends := group(log, 1)
	spends.Penalty = must(terms.Compile())
	terms.ForgiveAfter = time.Hour
	now := group(log, 0)
	now.Penalty = must(terms.Compile())
	add("a strike is looked at", false, spends, now)
	return all
}

func (c *loweredLimit) ask(node storage.Store, g storage.Group, denied bool) (out storage.Outcome, err error) {
	g.Subject = c.subject
	t := storage.Ticket{Nonce: 1, MaxDelay: algorithm.AnyDelay, Denied: denied, Groups: []storage.Group{g}}
	if err := node.Take(context.Background(), &t, &out); err != nil {
		return out, fmt.Errorf("%s: %w", c.name, err)
	}
	return out, nil
}

// spend writes the counter, reads it with the lowered limit, and reports whether that was in time.
func (c *loweredLimit) spend(node storage.Store) (seen bool, err error) {
	c.subject, c.since = newSubject(), 0
	out, err := c.ask(node, c.spends, false)
	if err != nil {
		return false, err
	}
	written := out.Now
	if c.spends.Penalty != nil { // the second is a strike
		if out, err = c.ask(node, c.spends, false); err != nil {
			return false, err
		}
	}
	if out, err = c.ask(node, c.now, c.denied); err != nil {
		return false, err
	}
	if c.left(&out) == nil {
		c.since = written
	}
	return c.since != 0, nil
}

// left checks that an answer includes what was written.
func (c *loweredLimit) left(out *storage.Outcome) error {
	if c.spends.Penalty != nil {
		if n := out.Groups[0].Strikes; n != 1 {
			return fmt.Errorf("%s: %d strikes after %v, want 1", c.name, n, out.Now.Sub(c.since))
		}
		return nil
	}
	const most = 990 // drains by 1 a second, and is read within a few seconds
	if used := out.Decisions[0].Used; used < most && out.Now.Sub(c.since) < (1000-most)*time.Second || used == 0 {
		return fmt.Errorf("%s: %d are used after %v", c.name, used, out.Now.Sub(c.since))
	}
	return nil
}

// check reads the counter again when the limit that wrote it no longer needs it.
func (c *loweredLimit) check(node storage.Store) error {
	peek := c.now
	peek.Charges = []algorithm.Charge{{Meter: c.now.Charges[0].Meter}}
	out, err := c.ask(node, peek, false)
	if err != nil {
		return err
	}
	return c.left(&out)
}
