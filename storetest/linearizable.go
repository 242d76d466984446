package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/penstock-io/penstock"
)

// Linearizable records what concurrent callers on several nodes asked and were told, on the real
// clock, and looks for an order of the calls, respecting real time, in which a sequential store
// would have given just those answers, down to every field. If there is none, two calls came
// between each other.
func (s Suite) Linearizable(t *testing.T) {
	nodes := s.Open(t, fleet)
	seeded(t, func(seed uint64) error {
		return trials(size(10, 100, 10_000), 2, func(i int) error {
			several := i%4 == 3 && !s.OneSubject
			if err := linearizable(nodes, random(seed, i), several); err != nil {
				return fmt.Errorf("history %d: %w", i, err)
			}
			return nil
		})
	})
}

const (
	historyKeys    = 3
	historyClients = 8
	historyCalls   = 60 // of each client
)

// linearizable makes one history and checks it, for each subject by itself, or with tickets of
// several subjects as a whole. The order of instants is not used: a store may answer from a clock
// that is a little behind. The step applies the ticket at the instant that the outcome names.
func linearizable(nodes []penstock.Store, r *rand.Rand, several bool) error {
	history, err := recordHistory(nodes, r, several)
	if err != nil {
		return err
	}
	parts := [][]porcupine.Operation{history}
	if !several {
		parts = bySubject(history)
	}
	model := porcupine.Model{
		Init:  func() any { return newLedger() },
		Step:  stepLedger,
		Equal: func(a, b any) bool { return a.(ledger).equal(b.(ledger)) },
	}
	for _, part := range parts {
		if !porcupine.CheckOperations(model, part) {
			return fmt.Errorf("%w: no order of these calls explains their answers:\n%s", errNotLinearizable, describeHistory(part))
		}
	}
	return nil
}

var errNotLinearizable = errors.New("not linearizable")

func stepLedger(state, input, output any) (bool, any) {
	want, got := new(penstock.Outcome), output.(*penstock.Outcome)
	after := state.(ledger).clone()
	after.take(input.(*penstock.Ticket), got.Now, want)
	return sameOutcome(want, got), after
}

func bySubject(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[penstock.Subject][]porcupine.Operation{}
	for _, op := range history {
		who := op.Input.(*penstock.Ticket).Groups[0].Subject
		parts[who] = append(parts[who], op)
	}
	var all [][]porcupine.Operation
	for _, part := range parts {
		all = append(all, part)
	}
	return all
}

// recordHistory lets clients call for a few subjects, with windows so short that what was taken
// comes back meanwhile.
func recordHistory(nodes []penstock.Store, r *rand.Rand, several bool) ([]porcupine.Operation, error) {
	groups := make([]penstock.Group, historyKeys)
	for i, who := range newcomers(historyKeys) {
		groups[i] = penstock.Group{Subject: who, Charges: shortLimits(r)}
	}
	var (
		mu      sync.Mutex
		history []porcupine.Operation
		errs    []error
		wg      sync.WaitGroup
		began   = time.Now()
	)
	for client := range historyClients {
		mine := random(r.Uint64(), client)
		wg.Go(func() {
			for range historyCalls {
				t := shortTicket(mine, groups, several)
				if often(mine, 10) {
					time.Sleep(time.Duration(mine.Int64N(int64(2 * time.Millisecond))))
				}
				out := new(penstock.Outcome)
				called := time.Since(began)
				err := nodes[mine.IntN(len(nodes))].Take(context.Background(), t, out)
				returned := time.Since(began)
				mu.Lock()
				errs = append(errs, err)
				history = append(history, porcupine.Operation{
					ClientId: client, Input: t, Output: out, Call: called.Nanoseconds(), Return: returned.Nanoseconds(),
				})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return history, errors.Join(errs...)
}

// shortTicket charges one of the groups, or several in any order.
func shortTicket(r *rand.Rand, groups []penstock.Group, several bool) *penstock.Ticket {
	t := &penstock.Ticket{MaxDelay: penstock.AnyDelay, Nonce: r.Uint64() | 1}
	n := 1
	if several {
		n += r.IntN(len(groups))
	}
	for _, i := range r.Perm(len(groups))[:n] {
		g := penstock.Group{Subject: groups[i].Subject, Charges: withCosts(r, groups[i].Charges)}
		g.Alone = n > 1 && often(r, 20)
		t.Groups = append(t.Groups, g)
	}
	return t
}

// shortLimits are one to three limits of different kinds.
func shortLimits(r *rand.Rand) []penstock.Charge {
	var charges []penstock.Charge
	for _, k := range r.Perm(len(kinds))[:1+r.IntN(3)] {
		l := penstock.Limit{Count: 2 + r.Int64N(8), Window: pick(r, time.Millisecond, 5*time.Millisecond, 20*time.Millisecond, 50*time.Millisecond)}
		switch kinds[k] {
		case penstock.KindWindow, penstock.KindCalendar:
			l.Algorithm, l.CountDenied = penstock.FixedWindow, often(r, 30)
		case penstock.KindCounter:
			l.Algorithm, l.CountDenied = penstock.SlidingWindowCounter, often(r, 30)
		case penstock.KindBucket:
			l.Algorithm, l.Burst = penstock.TokenBucket, 2*l.Count
		case penstock.KindInterval:
			l.Algorithm, l.Refill = penstock.TokenBucket, penstock.Interval
		case penstock.KindLeaky:
			l.Algorithm, l.Queue = penstock.LeakyBucket, l.Count
		case penstock.KindLog:
			l.Algorithm, l.CountDenied = penstock.SlidingWindowLog, often(r, 30)
		case penstock.KindLeases:
			l.Algorithm = penstock.Concurrency
		}
		l.Ordinal = uint8(k)
		charges = append(charges, penstock.Charge{Meter: l.MustCompile()})
	}
	return charges
}

func withCosts(r *rand.Rand, charges []penstock.Charge) []penstock.Charge {
	out := make([]penstock.Charge, len(charges))
	for i, c := range charges {
		out[i] = penstock.Charge{Meter: c.Meter, Cost: pick[int64](r, 0, 1, 1, 1, 1, 2, 3)}
	}
	return out
}

func describeHistory(history []porcupine.Operation) string {
	var b strings.Builder
	for _, op := range history {
		t, out := op.Input.(*penstock.Ticket), op.Output.(*penstock.Outcome)
		fmt.Fprintf(&b, "  client %d, %d..%d ns, at %d: pass %v", op.ClientId, op.Call, op.Return, out.Now, out.Allowed)
		i := 0
		for _, g := range t.Groups {
			for _, c := range g.Charges {
				d := out.Decisions[i]
				fmt.Fprintf(&b, " [%.4s %v cost %d: %v, used %d]", g.Subject, c.Meter, c.Cost, d.Allowed, d.Used)
				i++
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
