package lease

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

func TestOptions(t *testing.T) {
	if _, err := New(nil, Options{}); !errors.Is(err, penstock.ErrInvalid) {
		t.Errorf("without a store: %v", err)
	}
	for _, pools := range []int{-1, MinPools - 1, MaxPools + 1} {
		if _, err := New(storetest.Full(storetest.NewModel()), Options{Pools: pools}); !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("%d pools: %v", pools, err)
		}
	}
	if _, err := New(storetest.Full(storetest.NewModel()), Options{}); err != nil {
		t.Error(err)
	}
}

// A hot key on three nodes, 400,000 requests a second by a virtual clock: the store sees almost none of them,
// and the limit holds.
func TestStoreCallsOfAHotKey(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	for _, test := range []struct {
		name  string
		limit int64
	}{
		{"far from the limit", 1_000_000},
		{"up to the limit", 100_000},
	} {
		t.Run(test.name, func(t *testing.T) {
			const decisions, perSecond = 300_000, 400_000
			limit := penstock.Limit{Algorithm: penstock.FixedWindow, Count: test.limit, Window: time.Second}.MustCompile()
			shared := &register{Store: memory(t, little), subject: stranger(), charged: map[penstock.Instant]int64{}}
			nodes := []*Store{around(t, shared), around(t, shared), around(t, shared)}
			ticket := storage.Ticket{Groups: []storage.Group{leased(shared.subject, 1, limit)}}
			var out storage.Outcome
			var passed, denied int64
			for i := range penstock.Instant(decisions) {
				ticket.Now = monday + i*second/perSecond
				before := shared.calls
				if err := nodes[i%3].Take(t.Context(), &ticket, &out); err != nil {
					t.Fatal(err)
				}
				if out.Allowed {
					passed++
				} else {
					denied++
					shared.calls = before // caching denials is another package's job
				}
			}
			if passed > test.limit {
				t.Errorf("%d passed of %d", passed, test.limit)
			}
			if passed < min(test.limit, decisions)*98/100 {
				t.Errorf("only %d passed of %d: too much expired", passed, min(test.limit, decisions))
			}
			ratio := float64(shared.calls) / float64(passed)
			t.Logf("%d passed, %d denied; %.5f store calls for each that passed", passed, denied, ratio)
			if ratio >= 0.02 {
				t.Errorf("%.5f store calls for each that passed, want less than 0.02", ratio)
			}
		})
	}
}

// A decision from a lease reports what the store would report: all leased quota is used.
func TestReport(t *testing.T) {
	limit, inner := perSecond(1000), memory(t, little)
	s, g := around(t, inner), leased(stranger(), 1, limit, penstock.Limit{Algorithm: penstock.TokenBucket, Count: 5000, Window: time.Minute}.MustCompile())
	heat(t, s, monday, g)
	for i := range 5 {
		now := monday + penstock.Instant(i)*ms
		before := s.Stats().Leased
		out := take(t, s, now, g)
		if s.Stats().Leased != before+1 {
			t.Fatalf("call %d was not decided by permits", i)
		}
		peek := leased(g.Subject, 0, limit, g.Charges[1].Meter)
		truth := take(t, inner, now, peek)
		if out.Now != now || !out.Groups[0].Taken || len(out.Decisions) != 2 {
			t.Fatalf("the outcome is %+v", out)
		}
		for j, d := range out.Decisions {
			if d.Receipt != (algorithm.Receipt{Fingerprint: g.Charges[j].Meter.Fingerprint, Cost: 1, At: monday}) {
				t.Errorf("limit %d: receipt %+v", j, d.Receipt)
			}
			d.Receipt = algorithm.Receipt{}
			if d != truth.Decisions[j] || out.States[j] != truth.States[j] {
				t.Errorf("limit %d tells %+v of %+v, the store %+v of %+v", j, d, out.States[j], truth.Decisions[j], truth.States[j])
			}
		}
	}
}

// A silentStore decides, and does not return states.
type silentStore struct {
	penstock.Store
	isSilent bool
}

func (s *silentStore) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	err := s.Store.Take(ctx, t, out)
	if s.isSilent {
		out.States = out.States[:0]
	}
	return err
}

// Without states nothing could be reported: nothing is leased, and existing leases are not mixed up.
func TestStoreWithoutStates(t *testing.T) {
	inner := &silentStore{Store: memory(t, little), isSilent: true}
	s, g, exact := around(t, inner), leased(stranger(), 1, perSecond(10_000)), leased(stranger(), 2, perSecond(1000))
	exact.Leased = false
	for range 100 {
		take(t, s, monday, g)
	}
	if s.Stats().Permits != 0 {
		t.Errorf("%+v", s.Stats())
	}
	inner.isSilent = false
	heat(t, s, monday, g)
	inner.isSilent = true
	for range 50 {
		out := take(t, s, monday, exact, g)
		if !out.Allowed || len(out.States) != 2 || out.States[0] != (algorithm.State{}) || out.Decisions[1].Used < 100 {
			t.Fatalf("%+v", out)
		}
	}
}

// A node that dies takes little quota with it.
func TestNoNodeStarvesTheOthers(t *testing.T) {
	limit, inner := perSecond(800), memory(t, little)
	hot, other := around(t, inner), around(t, inner)
	g := leased(stranger(), 1, limit)
	for range 400 {
		take(t, hot, monday, g)
	}
	var passed int
	for take(t, other, monday+20*ms, g).Allowed {
		passed++
	}
	if passed < 400*7/8 {
		t.Errorf("another node could spend only %d of the 400 that nobody had spent", passed)
	}
}

func TestStoreDown(t *testing.T) {
	inner := &failing{Store: memory(t, little)}
	s, g := around(t, inner), leased(stranger(), 1, perSecond(10_000))
	for range 200 {
		take(t, s, monday, g)
	}
	held := s.held()
	if held == 0 {
		t.Fatal("no permits are held")
	}
	inner.down = true
	for range held { // including the request that would have taken more
		if !take(t, s, monday, g).Allowed {
			t.Fatal("denied with a permit")
		}
	}
	var out storage.Outcome
	err := s.Take(t.Context(), &storage.Ticket{Now: monday, Groups: []storage.Group{g}}, &out)
	if !errors.Is(err, penstock.ErrUnavailable) {
		t.Errorf("without permits: %v", err)
	}
}

// If the store could not decide a ticket, nothing of it is spent.
func TestErrorGivesPermitsBack(t *testing.T) {
	inner := &failing{Store: memory(t, little)}
	s, g := around(t, inner), leased(stranger(), 1, perSecond(10_000))
	shadow := leased(stranger(), 1, perSecond(10_000))
	shadow.Alone = true
	heat(t, s, monday, g)
	heat(t, s, monday, shadow)
	before, stats := s.held(), s.Stats()
	inner.down = true
	exact := leased(stranger(), 1, perSecond(5))
	exact.Leased = false
	var out storage.Outcome
	err := s.Take(t.Context(), &storage.Ticket{Now: monday, Groups: []storage.Group{g, shadow, exact}}, &out)
	if !errors.Is(err, penstock.ErrUnavailable) {
		t.Fatal(err)
	}
	if s.held() != before || s.Stats().Leased != stats.Leased {
		t.Errorf("%d permits are held, before it were %d; %+v", s.held(), before, s.Stats())
	}
}

func TestEndedContextAndBadTickets(t *testing.T) {
	s, g := around(t, memory(t, little)), leased(stranger(), 1, perSecond(10_000))
	heat(t, s, monday, g)
	held := s.held()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out storage.Outcome
	if err := s.Take(ctx, &storage.Ticket{Now: monday, Groups: []storage.Group{g}}, &out); !errors.Is(err, penstock.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	bad := g
	bad.Charges = []algorithm.Charge{{Cost: 1}}
	if err := s.Take(t.Context(), &storage.Ticket{Now: monday, Groups: []storage.Group{g, bad}}, &out); !errors.Is(err, penstock.ErrInvalid) {
		t.Errorf("without a meter: %v", err)
	}
	if s.held() != held {
		t.Errorf("%d permits are held, before it were %d", s.held(), held)
	}
}

// A decision from a lease does not allocate.
func TestAllocatesNothing(t *testing.T) {
	if racetest.Enabled {
		t.Skip("with the race detector pools forget at random")
	}
	s, g := around(t, memory(t, little)), leased(stranger(), 1, perSecond(100_000), penstock.Limit{Algorithm: penstock.TokenBucket, Count: 1e6, Window: time.Minute}.MustCompile())
	ticket := storage.Ticket{Now: monday, Groups: []storage.Group{g}}
	var out storage.Outcome
	decide := func() {
		if err := s.Take(context.Background(), &ticket, &out); err != nil || !out.Allowed {
			t.Fatal(out, err)
		}
	}
	for range 2000 {
		decide()
	}
	before := s.Stats()
	if got := testing.AllocsPerRun(1000, decide); got != 0 {
		t.Errorf("%v allocations for a decision", got)
	}
	if after := s.Stats(); after.Leased-before.Leased < 900 {
		t.Errorf("%d of 1001 were decided by permits: something else was measured", after.Leased-before.Leased)
	}
}

func BenchmarkTake(b *testing.B) {
	for _, isLeased := range []bool{false, true} {
		b.Run(map[bool]string{false: "exact", true: "leased"}[isLeased], func(b *testing.B) {
			s, g := around(b, memory(b, little)), leased(stranger(), 1, penstock.Limit{Algorithm: penstock.TokenBucket, Count: 4e9, Window: time.Second}.MustCompile())
			g.Leased = isLeased
			b.RunParallel(func(p *testing.PB) {
				ticket := storage.Ticket{Groups: []storage.Group{g}}
				var out storage.Outcome
				for p.Next() {
					if err := s.Take(context.Background(), &ticket, &out); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
