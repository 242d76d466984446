package envoyratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/rls"
)

// LimiterOptions say what a limiter decides by.
type LimiterOptions struct {
	Config func() *Config // nil: none, and only what descriptors bring themselves limits them

	Store penstock.Store
	Local penstock.Store // decides while Store does not; nil: nothing does

	// Secret keys the hash of descriptors; see [penstock.NewHasher].
	Secret string

	// Together charges the descriptors of a request together or not at all. Otherwise each is
	// charged by itself, and denied ones too, as by the service whose files these are: a cost that
	// comes with the response is then counted even if it is more than is left.
	Together bool

	// Observe sees what was decided about every descriptor as a call of its own, and why the store
	// did not decide; it must be quick and keep nothing. nil: nobody does.
	Observe func(c *penstock.Call, v *penstock.Verdict, err error)

	Now func() penstock.Instant // replaces the stores' clocks, for tests
}

// A Limiter answers as envoyproxy/ratelimit does. It may be used by any number of goroutines.
type Limiter struct {
	LimiterOptions
	hasher penstock.Hasher
	began  time.Time
	overs  overs
}

var _ rls.Limiter = (*Limiter)(nil)

// NewLimiter returns a limiter.
func NewLimiter(o LimiterOptions) (*Limiter, error) {
	if o.Store == nil {
		return nil, errors.New("limit by descriptors: it needs a store")
	}
	return &Limiter{LimiterOptions: o, hasher: penstock.NewHasher(o.Secret), began: time.Now()}, nil
}

// Limit answers a request.
func (l *Limiter) Limit(ctx context.Context, r *rls.Request) (*rls.Answers, error) {
	matches := l.match(r)
	t := penstock.Ticket{Groups: make([]penstock.Group, 0, len(matches))}
	if l.Now != nil {
		t.Now = l.Now()
	}
	sent := l.clock()
	for i := range matches {
		m := &matches[i]
		if m.limit == nil || m.limit.unlimited {
			continue
		}
		group, err := l.group(r, i, m)
		if err != nil {
			return nil, err
		}
		if group.Alone {
			m.counted = counted{group.Subject, m.limit.window, m.limit.count}
			m.overAt, m.isOver = l.overs.find(&m.counted, sent)
		}
		if !m.isOver {
			t.Groups = append(t.Groups, group)
		}
	}
	l.separate(&t)
	var out penstock.Outcome
	cause, err := l.take(ctx, &t, &out)
	if err != nil {
		return nil, err
	}
	quality := penstock.QualityExact
	if cause != nil {
		quality = penstock.QualityLocal
	} else {
		l.remember(matches, &out, sent)
	}
	a := l.answers(matches, &out, quality)
	l.tell(r, a, cause)
	return a, nil
}

// clock is this node's, of which only differences are used.
func (l *Limiter) clock() penstock.Instant {
	if l.Now != nil {
		return l.Now()
	}
	return penstock.Instant(time.Since(l.began).Microseconds())
}

// remember keeps what the store has found to be over its limit.
func (l *Limiter) remember(matches []match, out *penstock.Outcome, sent penstock.Instant) {
	at := 0
	for i := range matches {
		m := &matches[i]
		if m.limit == nil || m.limit.unlimited || m.isOver {
			continue
		}
		if m.counted.window != 0 && out.Decisions[at].Used > m.limit.count {
			l.overs.note(&m.counted, out.Now, sent, l.clock())
		}
		at++
	}
}

// tell shows what was decided to who wants to see it.
func (l *Limiter) tell(r *rls.Request, a *rls.Answers, cause error) {
	if l.Observe == nil {
		return
	}
	for i := range a.Each {
		d := &r.Descriptors[i]
		l.Observe(&penstock.Call{Domain: r.Domain, Attributes: d.Entries, Cost: d.Cost}, &a.Each[i].Verdict, cause)
	}
}

// match finds the limit of each descriptor, without those that another replaces.
func (l *Limiter) match(r *rls.Request) []match {
	var c *Config
	if l.Config != nil {
		c = l.Config()
	}
	matches := make([]match, len(r.Descriptors))
	var replaced []string
	for i := range r.Descriptors {
		matches[i] = find(c, r.Domain, &r.Descriptors[i])
		if limit := matches[i].limit; limit != nil {
			replaced = append(replaced, limit.replaces...)
		}
	}
	for i := range matches {
		if limit := matches[i].limit; limit != nil && !limit.unlimited && slices.Contains(replaced, limit.name) {
			matches[i].limit = nil
		}
	}
	return matches
}

// find prefers the limit that comes with a descriptor, in a domain that is known.
func find(c *Config, domain string, d *rls.Descriptor) match {
	switch {
	case d.Limit == nil && c == nil:
		return match{}
	case d.Limit == nil:
		return c.find(domain, d.Entries)
	case c != nil && c.domains[domain] == nil:
		return match{}
	}
	return match{limit: &limit{path: "override", count: d.Limit.Count, window: d.Limit.Window}, entries: d.Entries}
}

// group is what one descriptor asks of the store. It counts what the descriptor is, not which
// entry of the files it was found by: those can change and what was counted stays.
func (l *Limiter) group(r *rls.Request, i int, m *match) (penstock.Group, error) {
	together := l.isTogether(m.limit)
	meter, err := meterOf(m.limit, together)
	if err != nil {
		return penstock.Group{}, fmt.Errorf("descriptors[%d].limit: %w", i, err)
	}
	rule := "envoy ratelimit" // no rule of ours can be called so
	if m.shared != 0 {
		rule += " shared " + strconv.FormatUint(m.shared, 2)
	}
	return penstock.Group{
		Subject: l.hasher.Subject(r.Domain, rule, m.entries...),
		Charges: []penstock.Charge{{Meter: meter, Cost: r.Descriptors[i].Cost}},
		Alone:   !together,
	}, nil
}

// isTogether tells limits that can stand in the way of others, and be stood in the way of.
func (l *Limiter) isTogether(limit *limit) bool {
	return l.Together && !limit.shadow && !limit.quota
}

// counters count without an end: what is over the limit is told from the count.
var counters = func() map[time.Duration]*penstock.Meter {
	all := map[time.Duration]*penstock.Meter{}
	for _, window := range windows {
		all[window] = counter(window).MustCompile()
	}
	return all
}()

func counter(window time.Duration) penstock.Limit {
	return penstock.Limit{Algorithm: penstock.FixedWindow, Count: penstock.MaxCount, Window: window}
}

// meterOf is what a limit is counted with. Both kinds share their state.
func meterOf(l *limit, together bool) (*penstock.Meter, error) {
	switch {
	case together && l.meter != nil:
		return l.meter, nil
	case together:
		return penstock.Limit{Algorithm: penstock.FixedWindow, Count: l.count, Window: l.window}.Compile()
	case counters[l.window] != nil:
		return counters[l.window], nil
	}
	return counter(l.window).Compile()
}

// separate leaves alone what is counted a second time in a request: a ticket weighs each state once.
func (l *Limiter) separate(t *penstock.Ticket) {
	for i := range t.Groups {
		for k := range i {
			a, b := &t.Groups[k], &t.Groups[i]
			if !a.Alone && !b.Alone && a.Subject == b.Subject && a.Charges[0].Meter.Fingerprint == b.Charges[0].Meter.Fingerprint {
				b.Alone = true
			}
		}
	}
}

// take asks the store, and the local one if it does not answer; the cause is then why.
func (l *Limiter) take(ctx context.Context, t *penstock.Ticket, out *penstock.Outcome) (cause, err error) {
	if len(t.Groups) == 0 {
		return nil, nil
	}
	cause = l.Store.Take(ctx, t, out)
	if cause == nil || l.Local == nil || errors.Is(cause, penstock.ErrInvalid) {
		return nil, cause
	}
	// The call is to be answered even if its time is up: the local store does not wait.
	if err := l.Local.Take(context.WithoutCancel(ctx), t, out); err != nil {
		return nil, errors.Join(cause, err)
	}
	return cause, nil
}
