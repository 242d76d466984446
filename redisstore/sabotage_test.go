package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storetest"
)

// A trace is a sequence of tickets for subjects of its own, with the outcomes they must have.
type trace struct {
	tickets []penstock.Ticket
	want    []penstock.Outcome
}

// recorder is a store that remembers what it was asked and what it answered.
type recorder struct {
	*storetest.Model
	mu    sync.Mutex
	whole trace
}

func (r *recorder) Take(ctx context.Context, t *penstock.Ticket, out *penstock.Outcome) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.Model.Take(ctx, t, out)
	r.whole.tickets = append(r.whole.tickets, *t)
	r.whole.want = append(r.whole.want, penstock.Outcome{
		Now: out.Now, Allowed: out.Allowed, Groups: slices.Clone(out.Groups), Decisions: slices.Clone(out.Decisions),
	})
	return err
}

// twinTraces returns the traces of the contract's twin test: it is played against the model itself.
func twinTraces(t *testing.T, steps int, seed int) []trace {
	t.Setenv("PENSTOCK_TWIN_STEPS", strconv.Itoa(steps))
	t.Setenv("PENSTOCK_SEED", strconv.Itoa(seed))
	r := &recorder{Model: storetest.NewModel()}
	t.Run("record", storetest.Suite{Open: func(_ testing.TB, n int) []penstock.Store {
		return slices.Repeat([]penstock.Store{r}, n)
	}}.Twin)
	return r.whole.split()
}

// split separates tickets that have no subject in common, directly or through others.
func (tr *trace) split() []trace {
	group := map[penstock.Subject]*int{} // subjects of one trace share the pointer's target
	var find func(p *int) *int
	parent := map[*int]*int{}
	find = func(p *int) *int {
		for parent[p] != nil {
			p = parent[p]
		}
		return p
	}
	for i := range tr.tickets {
		var first *int
		for _, g := range tr.tickets[i].Groups {
			if group[g.Subject] == nil {
				group[g.Subject] = new(int)
			}
			root := find(group[g.Subject])
			if first == nil {
				first = root
			} else if root != first {
				parent[root] = first
			}
		}
	}
	index := map[*int]int{}
	var traces []trace
	for i := range tr.tickets {
		root := find(group[tr.tickets[i].Groups[0].Subject])
		at, ok := index[root]
		if !ok {
			at = len(traces)
			index[root] = at
			traces = append(traces, trace{})
		}
		traces[at].tickets = append(traces[at].tickets, tr.tickets[i])
		traces[at].want = append(traces[at].want, tr.want[i])
	}
	return traces
}

// play plays traces beside each other, so that their calls share runs, and returns the first
// answer that is not the one expected.
func play(store penstock.Store, traces []trace) error {
	var next atomic.Int64
	var wrong atomic.Pointer[error]
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for wrong.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(traces) {
					return
				}
				if err := traces[i].play(store, &wrong); err != nil {
					wrong.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	if err := wrong.Load(); err != nil {
		return *err
	}
	return nil
}

func (tr *trace) play(store penstock.Store, stop *atomic.Pointer[error]) error {
	for i := range tr.tickets {
		if stop.Load() != nil {
			return nil
		}
		var got penstock.Outcome
		if err := store.Take(context.Background(), &tr.tickets[i], &got); err != nil {
			return err
		}
		want := &tr.want[i]
		if got.Now != want.Now || got.Allowed != want.Allowed || !slices.Equal(got.Groups, want.Groups) || !slices.Equal(got.Decisions, want.Decisions) {
			return fmt.Errorf("step %d: got %+v, want %+v", i, got, *want)
		}
	}
	return nil
}

// checkEnds makes calls on the server's clock and at given instants and looks at the keys' ends.
func checkEnds(store *redisstore.Store, addr string) error {
	for _, now := range clocks {
		for _, window := range []time.Duration{oddWindow, time.Hour} {
			who := stranger()
			ticket := one(now, who)
			meters := eachKind(window)
			for _, m := range meters {
				ticket.Groups[0].Charges = append(ticket.Groups[0].Charges, charge(m, 1))
			}
			for range 4 {
				var out penstock.Outcome
				if err := store.Take(context.Background(), ticket, &out); err != nil {
					return err
				}
				ticket.Nonce++
				if err := ends(addr, who, out, meters, now != 0); err != nil {
					return err
				}
			}
			for _, m := range slices.Repeat(meters, 3) { // in company the longest-lived hides the others' ends
				var out penstock.Outcome
				who := stranger()
				if err := store.Take(context.Background(), one(now, who, charge(m, 3)), &out); err != nil {
					return err
				}
				if err := ends(addr, who, out, []*penstock.Meter{m}, now != 0); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkForeign lets sound and damaged subjects share runs.
func checkForeign(store *redisstore.Store, addr string) error {
	var errs []error
	var mu sync.Mutex
	meters := eachKind(time.Hour)
	var tickets []*penstock.Ticket
	var damaged []string // the key, or nothing for a sound one
	var before []string
	for _, m := range meters {
		kinds := foreigners(m.Kind)
		for _, f := range []foreign{kinds[0], kinds[3], kinds[len(kinds)-1], kinds[len(kinds)-2]} {
			who := stranger()
			args := slices.Clone(f.make)
			args[1] = keyOf(who, m)
			if _, err := redistest.Command(addr, args...); err != nil {
				return err
			}
			dump, err := redistest.Command(addr, "DUMP", args[1])
			if err != nil {
				return err
			}
			tickets = append(tickets, one(monday, who, charge(m, 1)), one(monday, stranger(), charge(m, 1)))
			damaged, before = append(damaged, args[1], ""), append(before, dump, "")
		}
	}
	ask := func(i int) {
		var out penstock.Outcome
		err := store.Take(context.Background(), tickets[i], &out)
		if damaged[i] == "" {
			if err == nil && !out.Allowed {
				err = errors.New("one of the first two calls was denied")
			}
		} else if errors.Is(err, penstock.ErrCorrupt) {
			err = nil
		} else {
			err = fmt.Errorf("%s holds something else: allowed %v, error %v", damaged[i], out.Allowed, err)
		}
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}
	atOnce(len(tickets), ask)
	for i := range tickets { // a lone call reads in another way
		ask(i)
	}
	for i, key := range damaged {
		if key == "" {
			continue
		}
		if after, err := redistest.Command(addr, "DUMP", key); err != nil || after != before[i] {
			errs = append(errs, fmt.Errorf("%s was changed (%v)", key, err))
		}
	}
	return errors.Join(errs...)
}
