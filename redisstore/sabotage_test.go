package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// A trace is a sequence of deeds for its own subjects.
type trace []operationCheck

// An operationCheck is an operation on a store, and the answer it must give.
type operationCheck struct {
	subjects []storage.Subject
	check    func(store keeper) error
}

// A keeper is a store with everything that the contract needs.
type keeper interface {
	storage.Store
	storage.Settler
	storage.Banner
	storage.Resetter
	storage.Inspector
	storage.LateCharger
}

// recorder is a store that records what it was asked and what it answered.
type recorder struct {
	*storetest.Model
	mu    sync.Mutex
	whole trace
}

// record records a deed. ask must ask again each time, and return the whole answer.
func (r *recorder) record(ask func(store keeper) (any, error), subjects ...storage.Subject) {
	want, refused := ask(r.Model)
	r.whole = append(r.whole, operationCheck{subjects, func(store keeper) error {
		got, err := ask(store)
		if kind(err) != kind(refused) {
			return fmt.Errorf("got error %v, want %v", err, refused)
		}
		if refused == nil && !reflect.DeepEqual(got, want) {
			return fmt.Errorf("got %+v, want %+v", got, want)
		}
		return nil
	}})
}

// kind returns which of the errors of the contract it is.
func kind(err error) error {
	for _, k := range []error{storage.ErrNoReservation, storage.ErrClosed, algorithm.ErrInvalid} {
		if errors.Is(err, k) {
			return k
		}
	}
	return err
}

func (r *recorder) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ticket := *t
	var subjects []storage.Subject
	for _, g := range t.Groups {
		subjects = append(subjects, g.Subject)
	}
	var err error
	first := true
	r.record(func(store keeper) (any, error) {
		var o storage.Outcome
		e := store.Take(ctx, &ticket, &o)
		if first {
			*out, err, first = o, e, false
		}
		return o, e
	}, subjects...)
	return err
}

func (r *recorder) Settle(ctx context.Context, s *storage.Settlement, out *storage.SettleOutcome) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	settlement := *s
	var err error
	first := true
	r.record(func(store keeper) (any, error) {
		var o storage.SettleOutcome
		e := store.Settle(ctx, &settlement, &o)
		if first {
			*out, err, first = o, e, false
		}
		return o, e
	}, s.Subject)
	return err
}

func (r *recorder) Ban(ctx context.Context, b *storage.Ban) (until algorithm.Instant, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ban, first := *b, true
	r.record(func(store keeper) (any, error) {
		u, e := store.Ban(ctx, &ban)
		if first {
			until, err, first = u, e, false
		}
		return u, e
	}, b.Subject)
	return until, err
}

func (r *recorder) Reset(ctx context.Context, g *storage.Group) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	group, first := *g, true
	r.record(func(store keeper) (any, error) {
		e := store.Reset(ctx, &group)
		if first {
			err, first = e, false
		}
		return nil, e
	}, g.Subject)
	return err
}

func (r *recorder) ChargeLate(ctx context.Context, c *storage.LateCharge) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	late, first := *c, true
	r.record(func(store keeper) (any, error) {
		e := store.ChargeLate(ctx, &late)
		if first {
			err, first = e, false
		}
		return nil, e
	}, c.Subject)
	return err
}

// twinTraces returns the traces of the contract's twin test, played against the model itself.
func twinTraces(t *testing.T, steps int, seed int) []trace {
	r := &recorder{Model: storetest.NewModel()}
	t.Run("record", storetest.Suite{TwinSteps: steps, Seed: seed, Open: func(_ testing.TB, n int) []storage.Store {
		return slices.Repeat([]storage.Store{r}, n)
	}}.Twin)
	return r.whole.split()
}

// split separates tickets that have no subject in common, directly or through others.
func (tr *trace) split() []trace {
	group := map[storage.Subject]*int{} // subjects of one trace share the pointer's target
	var find func(p *int) *int
	parent := map[*int]*int{}
	find = func(p *int) *int {
		for parent[p] != nil {
			p = parent[p]
		}
		return p
	}
	for _, d := range *tr {
		var first *int
		for _, who := range d.subjects {
			if group[who] == nil {
				group[who] = new(int)
			}
			root := find(group[who])
			if first == nil {
				first = root
			} else if root != first {
				parent[root] = first
			}
		}
	}
	index := map[*int]int{}
	var traces []trace
	for _, d := range *tr {
		root := find(group[d.subjects[0]])
		at, ok := index[root]
		if !ok {
			at = len(traces)
			index[root] = at
			traces = append(traces, nil)
		}
		traces[at] = append(traces[at], d)
	}
	return traces
}

// play plays traces concurrently, so that their requests share runs, and returns the first unexpected
// answer.
func play(store keeper, traces []trace) error {
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

func (tr trace) play(store keeper, stop *atomic.Pointer[error]) error {
	for i := range tr {
		if stop.Load() != nil {
			return nil
		}
		if err := tr[i].check(store); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// checkEnds makes requests on the server's clock and at given instants and checks the expiry of the keys.
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
				var out storage.Outcome
				if err := store.Take(context.Background(), ticket, &out); err != nil {
					return err
				}
				ticket.Nonce++
				if err := ends(addr, who, out, meters, now != 0); err != nil {
					return err
				}
			}
			for _, m := range slices.Repeat(meters, 3) { // in one value the longest-lived hides the others
				var out storage.Outcome
				who := stranger()
				if err := store.Take(context.Background(), one(now, who, charge(m, 3)), &out); err != nil {
					return err
				}
				if err := ends(addr, who, out, []*algorithm.Meter{m}, now != 0); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkForeign lets valid and corrupt subjects share runs.
func checkForeign(store *redisstore.Store, addr string) error {
	var errs []error
	var mu sync.Mutex
	meters := eachKind(time.Hour)
	var tickets []*storage.Ticket
	var damaged []string // the key, or "" for a valid one
	var before []string
	for _, m := range meters {
		kinds := foreigners(m.Kind)
		for _, f := range []foreignValue{kinds[0], kinds[3], kinds[len(kinds)-1], kinds[len(kinds)-2]} {
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
		var out storage.Outcome
		err := store.Take(context.Background(), tickets[i], &out)
		if damaged[i] == "" {
			if err == nil && !out.Allowed {
				err = errors.New("one of the first two calls was denied")
			}
		} else if errors.Is(err, storage.ErrCorrupt) {
			err = nil
		} else {
			err = fmt.Errorf("%s holds something else: allowed %v, error %v", damaged[i], out.Allowed, err)
		}
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}
	atOnce(len(tickets), ask)
	for i := range tickets { // a single request takes another path
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
