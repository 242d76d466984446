package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock"
)

// A step of a trace is one call. Whom it charges is an index into a cast, so that the same trace
// can be played again for subjects that the store has never seen.
type step struct {
	ticket penstock.Ticket // its subjects are filled in by on
	who    []int           // of each group
	node   int
}

// on returns the step's ticket for a cast.
func (s *step) on(cast []penstock.Subject) *penstock.Ticket {
	t := s.ticket
	t.Groups = slices.Clone(t.Groups)
	for i := range t.Groups {
		t.Groups[i].Subject = cast[s.who[i]]
	}
	return &t
}

// one returns a step of a single charge for the first of the cast.
func one(now penstock.Instant, m *penstock.Meter, cost int64, maxDelay time.Duration, nonce uint64) step {
	return step{
		ticket: penstock.Ticket{
			Now: now, MaxDelay: maxDelay, Nonce: nonce,
			Groups: []penstock.Group{{Charges: []penstock.Charge{{Meter: m, Cost: cost}}}},
		},
		who: []int{0},
	}
}

func (s *step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %s (%d)", s.ticket.Now.Time().Format("2006-01-02T15:04:05.000000Z"), s.ticket.Now)
	for i, g := range s.ticket.Groups {
		fmt.Fprintf(&b, ", subject %d", s.who[i])
		if g.Alone {
			b.WriteString(" alone")
		}
		for _, c := range g.Charges {
			fmt.Fprintf(&b, " [%v cost %d]", c.Meter, c.Cost)
		}
	}
	if d := s.ticket.MaxDelay; d == penstock.AnyDelay {
		b.WriteString(", any delay")
	} else if d != 0 {
		fmt.Fprintf(&b, ", delay up to %v", d)
	}
	if s.ticket.Nonce != 0 {
		fmt.Fprintf(&b, ", nonce %d", s.ticket.Nonce)
	}
	return b.String()
}

func describe(steps []step, first int) string {
	var b strings.Builder
	for i := range steps {
		fmt.Fprintf(&b, "  %4d  %v\n", first+i, &steps[i])
	}
	return b.String()
}

// take plays one step.
func take(nodes []penstock.Store, cast []penstock.Subject, s *step) (penstock.Outcome, error) {
	var out penstock.Outcome
	if err := nodes[s.node%len(nodes)].Take(context.Background(), s.on(cast), &out); err != nil {
		return out, fmt.Errorf("%v: the store could not answer: %w", s, err)
	}
	return out, nil
}

// replay plays steps for newcomers and returns who they were and the outcomes.
func replay(nodes []penstock.Store, steps []step) ([]penstock.Subject, []penstock.Outcome, error) {
	cast := newcomers(castOf(steps))
	outs := make([]penstock.Outcome, len(steps))
	for i := range steps {
		out, err := take(nodes, cast, &steps[i])
		if err != nil {
			return nil, nil, err
		}
		outs[i] = out
	}
	return cast, outs, nil
}

func castOf(steps []step) int {
	n := 1
	for i := range steps {
		n = max(n, slices.Max(steps[i].who)+1)
	}
	return n
}

func sameOutcome(a, b *penstock.Outcome) bool {
	return a.Now == b.Now && a.Allowed == b.Allowed && slices.Equal(a.Groups, b.Groups) && slices.Equal(a.Decisions, b.Decisions)
}

// difference says where two outcomes differ, or is empty.
func difference(want, got *penstock.Outcome) string {
	if sameOutcome(want, got) {
		return ""
	}
	return cmp.Diff(*want, *got)
}
