package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/engine/breaker"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// While the store answers, a breaker around it passes the store's test suite.
func TestContract(t *testing.T) {
	suite := storetest.Suite{Open: func(t testing.TB, nodes int) []penstock.Store {
		memory, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { memory.Close() })
		stores := make([]penstock.Store, nodes)
		for i := range stores {
			b, err := breaker.New(breaker.Options{Store: memory, Probe: func(context.Context, int) error { return nil }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(b.Close)
			stores[i] = b
		}
		return stores
	}}
	suite.Scenarios(t)
}

// A store that is down is not asked again until a probe succeeds, and then at once.
func TestOpensProbesAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n news
		var probed []time.Duration
		f, start := newFaulty(t), time.Now()
		b := newBreaker(t, f, breaker.Options{OnChange: n.told, Probe: func(ctx context.Context, zone int) error {
			probed = append(probed, time.Since(start))
			return f.Probe(ctx, zone)
		}})
		f.failWith(errDown)
		if err := call(b, t.Context()); err != errDown {
			t.Errorf("the call that finds out got %v", err)
		}
		for range 1000 {
			if err := call(b, t.Context()); !errors.Is(err, penstock.ErrUnavailable) || !errors.Is(err, errDown) {
				t.Fatalf("refused with %v, which must say why", err)
			}
		}
		var s storage.SettleOutcome
		if err := b.Settle(t.Context(), &storage.Settlement{}, &s); !errors.Is(err, errDown) {
			t.Errorf("a settlement got %v", err)
		}
		if asked := f.asked.Load(); asked != 1 {
			t.Errorf("the store was asked %d times", asked)
		}
		if got := b.Stats(); got.State != breaker.Open || got.Opened != 1 || got.Refused != 1001 || got.Cause != errDown {
			t.Errorf("stats %+v", got)
		}
		if err := b.Reset(t.Context(), &newTicket().Groups[0]); err != nil {
			t.Errorf("an operator is kept out: %v", err)
		}
		time.Sleep(999 * time.Millisecond)
		f.failWith(nil)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if err := call(b, t.Context()); err != nil {
			t.Errorf("it serves again, and the call got %v", err)
		}
		want := []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond, time.Second}
		if diff := cmp.Diff(want, probed); diff != "" {
			t.Error("probes (-want +got):\n" + diff)
		}
		if diff := cmp.Diff([]string{"open: " + errDown.Error(), "closed: <nil>"}, n.so()); diff != "" {
			t.Error("told (-want +got):\n" + diff)
		}
		if got := b.Stats(); got.State != breaker.Closed || got.Cause != nil || !got.Since.Equal(start.Add(time.Second)) {
			t.Errorf("stats %+v", got)
		}
	})
}

// A store that is not available yet is probed at once, and each probe has a timeout.
func TestStartsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, start := newFaulty(t), time.Now()
		probes := 0
		b := newBreaker(t, f, breaker.Options{Down: errors.New("not tried yet"), Probe: func(ctx context.Context, zone int) error {
			if probes++; probes > 1 {
				return nil
			}
			<-ctx.Done() // as a server that is silent
			return ctx.Err()
		}})
		if err := call(b, t.Context()); !errors.Is(err, penstock.ErrUnavailable) || !strings.Contains(err.Error(), "not tried yet") {
			t.Errorf("got %v", err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := b.Stats(); got.State != breaker.Closed || !got.Since.Equal(start.Add(1250*time.Millisecond)) {
			t.Errorf("stats %+v", got)
		}
		if err := call(b, t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// When a breaker reports that it has closed, operations get through.
func TestReportsClosed(t *testing.T) {
	f, got := newFaulty(t), make(chan error, 1)
	var b *breaker.Breaker
	ready := make(chan struct{})
	b = newBreaker(t, f, breaker.Options{Down: errors.New("not tried yet"), OnChange: func(now breaker.State, _ error) {
		if now == breaker.Closed {
			<-ready
			got <- call(b, t.Context())
		}
	}})
	close(ready)
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// An operation that ends in another phase than it began in is not counted: it says nothing about the store
// now.
func TestLateFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(t)
		f.held = make(chan struct{})
		b := newBreaker(t, f, breaker.Options{Probe: func(context.Context, int) error { return nil }})
		f.failWith(errDown)
		var late sync.WaitGroup
		for range 50 {
			late.Go(func() { _ = call(b, t.Context()) })
		}
		synctest.Wait()
		f.held <- struct{}{} // the first opens it
		time.Sleep(time.Second)
		close(f.held) // the others come back after it was closed
		late.Wait()
		if got := b.Stats(); got.State != breaker.Closed || got.Opened != 1 {
			t.Errorf("stats %+v", got)
		}
	})
}

// An error that is not the store's fault, or is about one subject, does not open the breaker.
func TestInnocent(t *testing.T) {
	f := newFaulty(t)
	b := newBreaker(t, f, breaker.Options{})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		ctx context.Context
		err error
	}{
		{t.Context(), fmt.Errorf("%w ticket", penstock.ErrInvalid)},
		{t.Context(), penstock.ErrNoReservation},
		{t.Context(), storage.ErrFull},
		{t.Context(), fmt.Errorf("redis: %w", storage.ErrCorrupt)},
		{gone, errTimeout},
		{gone, errDown},
	} {
		f.failWith(test.err)
		for range 200 {
			if err := call(b, test.ctx); err != test.err {
				t.Fatalf("%v became %v", test.err, err)
			}
		}
	}
	f.failWith(errTimeout) // and those do
	for range 20 {
		_ = call(b, t.Context())
	}
	if got := b.Stats(); got.State != breaker.Open || got.Opened != 1 {
		t.Errorf("stats %+v", got)
	}
}

func TestAllocatesNothing(t *testing.T) {
	f := newFaulty(t)
	b := newBreaker(t, f, breaker.Options{Interval: time.Hour})
	ctx, ticket := t.Context(), newTicket()
	var out storage.Outcome
	take := func() { _ = b.Take(ctx, ticket, &out) }
	take()
	if n := testing.AllocsPerRun(100, take); n != 0 {
		t.Errorf("closed: %v allocations", n)
	}
	f.failWith(errDown)
	take()
	if n := testing.AllocsPerRun(100, take); n != 0 || b.Stats().State != breaker.Open {
		t.Errorf("%v: %v allocations", b.Stats().State, n)
	}
}

// However requests, failures and probes interleave, changes are reported in turn, and a store that works is
// used in the end.
func TestChangesInTurn(t *testing.T) {
	var n news
	f := newFaulty(t)
	b := newBreaker(t, f, breaker.Options{OnChange: n.told, Interval: time.Microsecond})
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for k := range 3000 {
				_ = call(b, t.Context())
				if i == 0 && k%100 == 0 {
					f.failWith([]error{nil, errTimeout, errDown}[k/100%3])
				}
			}
		})
	}
	callers.Wait()
	f.failWith(nil)
	closed := func() bool { return call(b, t.Context()) == nil && len(n.so())%2 == 0 }
	for end := time.Now().Add(30 * time.Second); !closed(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not close")
		}
	}
	told := n.so()
	if len(told)%2 != 0 || int64(len(told)) != 2*b.Stats().Opened || len(told) == 0 {
		t.Fatalf("opened %d times and told %d changes", b.Stats().Opened, len(told))
	}
	for i, change := range told {
		if want := []string{"open", "closed"}[i%2]; !strings.HasPrefix(change, want) {
			t.Fatalf("change %d is %q", i, change)
		}
	}
}

func TestOptions(t *testing.T) {
	_, err := breaker.New(breaker.Options{InARow: -1, Interval: -time.Second})
	if !errors.Is(err, penstock.ErrInvalid) || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("got %v, want two mistakes", err)
	}
}

func BenchmarkTake(b *testing.B) {
	for _, fault := range []error{nil, errDown} {
		f := newFaulty(b)
		br := newBreaker(b, f, breaker.Options{Interval: time.Hour})
		f.failWith(fault)
		_ = call(br, b.Context())
		b.Run(br.Stats().State.String(), func(b *testing.B) {
			ticket := newTicket()
			var out storage.Outcome
			b.ReportAllocs()
			for b.Loop() {
				_ = br.Take(b.Context(), ticket, &out)
			}
		})
	}
}

// Late charges open the breaker like requests, and are refused while it is open.
func TestChargeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(t)
		b := newBreaker(t, f, breaker.Options{})
		m := penstock.Limit{Algorithm: penstock.FixedWindow, Count: 10, Window: time.Hour}.MustCompile()
		charge := func() error {
			st, _, _ := m.Weigh(algorithm.State{}, penstock.InstantOf(time.Now()), 0, 0)
			return b.ChargeLate(t.Context(), &storage.LateCharge{Nonce: 1, Amounts: []storage.LateAmount{{Meter: m, State: m.Charge(st, 1)}}})
		}
		if err := charge(); err != nil {
			t.Fatal(err)
		}
		f.failWith(errDown)
		if err := charge(); err != errDown {
			t.Errorf("the charge that finds out got %v", err)
		}
		asked := f.asked.Load()
		if err := charge(); !errors.Is(err, storage.ErrNotTaken) || f.asked.Load() != asked {
			t.Errorf("while it is open: %v, asked %d times more", err, f.asked.Load()-asked)
		}
		f.failWith(nil)
		time.Sleep(time.Second)
		if err := charge(); err != nil {
			t.Errorf("after it has closed: %v", err)
		}
		b.Close()
	})
}
