package lease

import (
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// What leases must not decide reaches the store, request by request, even while there are leases.
func TestStaysExact(t *testing.T) {
	limit := func(l penstock.Limit) []*algorithm.Meter {
		if l.Count == 0 {
			l.Count = 10_000
		}
		if l.Window == 0 && l.Period == penstock.NoPeriod {
			l.Window = time.Second
		}
		return []*algorithm.Meter{l.MustCompile()}
	}
	window := limit(penstock.Limit{Algorithm: penstock.FixedWindow})
	var five []*algorithm.Meter
	for i := range uint8(5) {
		five = append(five, limit(penstock.Limit{Algorithm: penstock.FixedWindow, Ordinal: i})...)
	}
	dedup, err := algorithm.DedupTerms{TTL: time.Minute, MaxReplays: 1, Budget: 1, Beside: penstock.Limit{Algorithm: penstock.FixedWindow, Window: time.Minute}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		meters []*algorithm.Meter
		change func(*storage.Group)
	}{
		{"not marked", window, func(g *storage.Group) { g.Leased = false }},
		{"a penalty", window, func(g *storage.Group) { g.Penalty = penalty(t) }},
		{"a reservation", window, func(g *storage.Group) { g.Reserve = time.Minute }},
		{"a call with an id", window, func(g *storage.Group) { g.Dedup, g.Call = dedup, storage.CallID{1} }},
		{"a peek", window, func(g *storage.Group) { g.Charges[0].Cost = 0 }},
		{"an overdraft", window, func(g *storage.Group) { g.Charges[0].Overdraw = true }},
		{"different costs", append(limit(penstock.Limit{Algorithm: penstock.TokenBucket}), window...), func(g *storage.Group) { g.Charges[1].Cost = 2 }},
		{"five limits", five, nil},
		{"a short window", limit(penstock.Limit{Algorithm: penstock.FixedWindow, Window: 499 * time.Millisecond}), nil},
		{"denied calls count", limit(penstock.Limit{Algorithm: penstock.FixedWindow, CountDenied: true}), nil},
		{"a log", limit(penstock.Limit{Algorithm: penstock.SlidingWindowLog}), nil},
		{"a leaky bucket", limit(penstock.Limit{Algorithm: penstock.LeakyBucket, Queue: 5000}), nil},
		{"an interval bucket", limit(penstock.Limit{Algorithm: penstock.TokenBucket, Refill: penstock.Interval}), nil},
		{"concurrency", limit(penstock.Limit{Algorithm: penstock.Concurrency}), nil},
		{"near the limit", limit(penstock.Limit{Algorithm: penstock.FixedWindow, Count: share*fewCalls + fewCalls}), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := leased(stranger(), 1, test.meters...)
			shared := &register{Store: memory(t, little), subject: g.Subject, charged: map[penstock.Instant]int64{}}
			s := around(t, shared)
			if test.change != nil {
				heat(t, s, monday, leased(g.Subject, 1, window...)) // there is leased quota of the same subject
				test.change(&g)
			}
			calls, stats := shared.calls, s.Stats()
			const n = 100
			for i := range uint64(n) {
				var out storage.Outcome
				ticket := storage.Ticket{Now: monday, Nonce: i + 1, MaxDelay: penstock.AnyDelay, Groups: []storage.Group{g}}
				if err := s.Take(t.Context(), &ticket, &out); err != nil {
					t.Fatal(err)
				}
			}
			if got := shared.calls - calls; got != n {
				t.Errorf("%d calls of %d reached the store", got, n)
			}
			if now := s.Stats(); now.Leased != stats.Leased || now.Permits != stats.Permits {
				t.Errorf("permits were used: %+v, before it %+v", now, stats)
			}
		})
	}
}

func penalty(t *testing.T) *algorithm.Penalty {
	t.Helper()
	p, err := algorithm.PenaltyTerms{After: 3, Within: time.Minute, Bans: []time.Duration{time.Minute}, ForgiveAfter: time.Hour}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The store decides a ticket that was denied elsewhere, whatever it holds.
func TestDeniedElsewhere(t *testing.T) {
	s, g := around(t, memory(t, little)), leased(stranger(), 1, perSecond(10_000))
	heat(t, s, monday, g)
	held := s.held()
	var out storage.Outcome
	if err := s.Take(t.Context(), &storage.Ticket{Now: monday, Denied: true, Groups: []storage.Group{g}}, &out); err != nil {
		t.Fatal(err)
	}
	if out.Allowed || out.Groups[0].Taken || s.held() != held {
		t.Errorf("%+v; %d permits are held, before it were %d", out, s.held(), held)
	}
}

// Denials come from the store: leases never exceed what the store allows by more than their own quota.
func TestUpToTheLimit(t *testing.T) {
	inner := memory(t, little)
	s, g := around(t, inner), leased(stranger(), 1, perSecond(1000))
	var passed int
	for i := range penstock.Instant(3000) {
		if take(t, s, monday+i*300, g).Allowed {
			passed++
		}
	}
	if expired := s.Stats().Expired; int64(passed) != 1000-expired-s.held() {
		t.Errorf("%d passed of 1000, %d expired and %d are held", passed, expired, s.held())
	}
	out := take(t, s, monday+second-1, g)
	if d := out.Decisions[0]; out.Allowed || d.RetryAfter != time.Microsecond || d.Remaining != 0 {
		t.Errorf("at the end of the window: %+v", d)
	}
}

// A few requests do not make a key hot, however much they cost.
func TestFewHeavyCalls(t *testing.T) {
	s, subject, limit := around(t, memory(t, little)), stranger(), perSecond(100_000)
	for range 5 {
		take(t, s, monday, leased(subject, 1000, limit))
		take(t, s, monday, leased(subject, 1, limit))
	}
	if s.Stats().Permits != 0 {
		t.Errorf("permits were taken: %+v", s.Stats())
	}
}

// Requests that another rule denies do not make a key hot, or keep it so.
func TestDeniedCallsDoNotHeat(t *testing.T) {
	s, g, never := around(t, memory(t, little)), leased(stranger(), 1, perSecond(100_000)), leased(stranger(), 2, perSecond(1))
	deny := func() {
		for range 500 {
			if take(t, s, monday, g, never).Allowed {
				t.Fatal("allowed")
			}
		}
	}
	deny()
	if s.Stats().Permits != 0 {
		t.Errorf("permits were taken for nobody: %+v", s.Stats())
	}
	heat(t, s, monday, g)
	permits := s.Stats().Permits
	deny()
	take(t, s, monday+8*ms, g) // when more would be taken if needed
	if got := s.Stats().Permits; got != permits {
		t.Errorf("%d permits were taken for nobody", got-permits)
	}
}

// A clock that steps back finds no quota of its future.
func TestClockStepsBack(t *testing.T) {
	s, g := around(t, memory(t, little)), leased(stranger(), 1, perSecond(10_000))
	heat(t, s, monday+ms, g)
	before := s.Stats()
	take(t, s, monday, g)
	if after := s.Stats(); after.Leased != before.Leased || after.Exact != before.Exact+1 {
		t.Errorf("%+v, before it %+v", after, before)
	}
}

// Instants of tickets and this node's clock are unrelated.
func TestOtherClock(t *testing.T) {
	s, g := around(t, memory(t, little)), leased(stranger(), 1, perSecond(10_000))
	heat(t, s, 1, g) // about when this node's clock began
	before := s.Stats()
	take(t, s, 0, g)
	if after := s.Stats(); after.Leased != before.Leased || after.Expired != after.Permits-before.Leased {
		t.Errorf("%+v, before it %+v", after, before)
	}
}
