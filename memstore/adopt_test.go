package memstore

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
)

var adoptable = map[string]algorithm.Limit{
	"window":   {Algorithm: algorithm.FixedWindow, Count: 50, Window: time.Minute},
	"calendar": {Algorithm: algorithm.FixedWindow, Count: 50, Period: algorithm.Day},
	"counter":  {Algorithm: algorithm.SlidingWindowCounter, Count: 50, Window: time.Minute},
	"wide":     {Algorithm: algorithm.SlidingWindowCounter, Count: 1 << 33, Window: time.Minute},
	"bucket":   {Algorithm: algorithm.TokenBucket, Count: 50, Burst: 70, Window: time.Minute},
	"interval": {Algorithm: algorithm.TokenBucket, Refill: algorithm.Interval, Count: 20, Burst: 70, Window: 10 * time.Second},
	"leaky":    {Algorithm: algorithm.LeakyBucket, Count: 50, Queue: 30, Window: time.Minute},
}

const adoptedAt = algorithm.Instant(1_800_000_000_000_000 + 17_000_000)

// at decides a charge at an instant.
func at(t *testing.T, s *Store, m *algorithm.Meter, now algorithm.Instant, cost int64) storage.Outcome {
	t.Helper()
	var out storage.Outcome
	ticket := storage.Ticket{Now: now, MaxDelay: algorithm.AnyDelay, Groups: []storage.Group{{Charges: []algorithm.Charge{{Meter: m, Cost: cost}}}}}
	if err := s.Take(t.Context(), &ticket, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// A follower ends with the newest answer, in whatever order answers arrive.
func TestAdoptOutOfOrder(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	for name, limit := range adoptable {
		t.Run(name, func(t *testing.T) {
			m := limit.MustCompile()
			for seed := range uint64(200) {
				random := rand.New(rand.NewPCG(seed, 1))
				shared, follower := open(t, Options{MaxBytes: MinBytes}), open(t, Options{MaxBytes: MinBytes})
				var told []storage.StateReport
				now := adoptedAt
				for range 2 + random.IntN(30) {
					now += algorithm.Instant(random.Int64N(3) * random.Int64N(100_000)) // often the same instant
					out := at(t, shared, m, now, 1+random.Int64N(4))
					told = append(told, storage.StateReport{Meter: m, State: out.States[0], Now: now})
				}
				random.Shuffle(len(told), func(i, j int) { told[i], told[j] = told[j], told[i] })
				for i := range told {
					follower.Adopt(&told[i])
				}
				now += algorithm.Instant(random.Int64N(90_000_000))
				want, got := at(t, shared, m, now, 0).Decisions[0], at(t, follower, m, now, 0).Decisions[0]
				if want != got {
					t.Fatalf("seed %d, at %d: the follower says %+v, the store %+v", seed, now, got, want)
				}
			}
		})
	}
}

// What a follower admits itself counts until an answer replaces it. An older answer does not replace it.
func TestAdoptAfterOwnAdmissions(t *testing.T) {
	for name, limit := range adoptable {
		t.Run(name, func(t *testing.T) {
			m := limit.MustCompile()
			s := open(t, Options{MaxBytes: 1 << 20})
			adopt := func(now algorithm.Instant, used int64) {
				fresh, _, _ := m.Weigh(algorithm.State{}, now, 0, 0)
				s.Adopt(&storage.StateReport{Meter: m, State: m.Charge(fresh, used), Now: now})
			}
			expect := func(what string, want int64) {
				t.Helper()
				if got := at(t, s, m, adoptedAt+200, 0).Decisions[0].Used; got != want {
					t.Errorf("%s: %d used, want %d", what, got, want)
				}
			}
			adopt(adoptedAt+100, 10)
			expect("adopted", 10)
			at(t, s, m, adoptedAt+101, 5)
			expect("admitted five more", 15)
			adopt(adoptedAt+90, 8)
			expect("heard an older answer", 15)
			adopt(adoptedAt+90, 20) // impossible, unless the store has lost something since
			expect("heard an older answer that is stricter", 20)
			adopt(adoptedAt+150, 11)
			expect("heard a newer answer", 11)
			adopt(adoptedAt+160, 0)
			expect("heard that it is empty", 0)
			adopt(adoptedAt+170, 3)
			adopt(adoptedAt-latest, 2)
			if got := at(t, s, m, adoptedAt-latest, 0).Decisions[0].Used; got != 2 {
				t.Errorf("the other store's clock has stepped back: %d used, want 2", got)
			}
		})
	}
}

// A log that has denied keeps denying until the announced retry, and not longer.
func TestAdoptDenialByLog(t *testing.T) {
	const second = algorithm.Instant(1_000_000)
	m := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 10, Window: time.Minute}.MustCompile()
	shared := open(t, Options{MaxBytes: 1 << 20})
	for i := range algorithm.Instant(10) {
		at(t, shared, m, adoptedAt+i*second, 1)
	}
	for cost := int64(1); cost <= 10; cost++ {
		for own := range algorithm.Instant(4) {
			t.Run(fmt.Sprintf("cost %d, %d own", cost, own), func(t *testing.T) {
				now := adoptedAt + 20*second
				out := at(t, shared, m, now, cost)
				retry := now.Add(out.Decisions[0].RetryAfter)
				s := open(t, Options{MaxBytes: 1 << 20})
				for i := range own { // the shared log has some of them too
					at(t, s, m, adoptedAt+3*i*second, 1)
				}
				for range 2 { // the second time adds nothing new
					s.Adopt(&storage.StateReport{Meter: m, State: out.States[0], Cost: cost, Now: now})
				}
				for _, c := range []int64{cost, 10} {
					if at(t, s, m, retry-1, c).Allowed {
						t.Errorf("cost %d passes before the retry", c)
					}
				}
				if cost > 1 && own == 0 && !at(t, s, m, now, cost-1).Allowed {
					t.Error("a smaller cost was denied, which the answer does not prove")
				} else if cost == 1 && !at(t, s, m, retry, 1).Allowed {
					t.Error("denied after the retry")
				}
			})
		}
	}
}

// An answer from before a reset is forgotten; one from after it is not.
func TestForget(t *testing.T) {
	limits := map[string]algorithm.Limit{"log": {Algorithm: algorithm.SlidingWindowLog, Count: 50, Window: time.Minute}}
	for name, limit := range adoptable {
		limits[name] = limit
	}
	for name, limit := range limits {
		t.Run(name, func(t *testing.T) {
			m := limit.MustCompile()
			s := open(t, Options{MaxBytes: 1 << 20})
			group := storage.Group{Charges: []algorithm.Charge{{Meter: m}}}
			adopt := func(now algorithm.Instant, used int64) {
				if m.Kind == algorithm.KindLog {
					at(t, s, m, now, used)
					return
				}
				fresh, _, _ := m.Weigh(algorithm.State{}, now, 0, 0)
				s.Adopt(&storage.StateReport{Meter: m, State: m.Charge(fresh, used), Now: now})
			}
			expect := func(want int64) {
				t.Helper()
				if got := at(t, s, m, adoptedAt+200, 0).Decisions[0].Used; got != want {
					t.Errorf("%d used, want %d", got, want)
				}
			}
			s.Forget(&group, adoptedAt) // nothing is known
			adopt(adoptedAt+100, 7)
			s.Forget(&group, adoptedAt+100)
			expect(7)
			s.Forget(&group, adoptedAt+101)
			expect(0)
			adopt(adoptedAt+100, 7)
			adopt(adoptedAt+110, 3)
			s.Forget(&group, adoptedAt+105)
			expect(3)
			s.Forget(&group, adoptedAt+111)
			expect(0)
		})
	}
}

func TestForgetBan(t *testing.T) {
	s := open(t, Options{MaxBytes: 1 << 20})
	penalty, err := algorithm.PenaltyTerms{After: 1, Within: time.Minute, Bans: []time.Duration{time.Hour}, ForgiveAfter: time.Hour}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	m := adoptable["window"].MustCompile()
	group := storage.Group{Penalty: penalty, Charges: []algorithm.Charge{{Meter: m}}}
	banned := func() bool {
		var out storage.Outcome
		if err := s.Take(t.Context(), &storage.Ticket{Now: adoptedAt + 200, Groups: []storage.Group{group}}, &out); err != nil {
			t.Fatal(err)
		}
		return out.Groups[0].BannedUntil == adoptedAt+1000
	}
	hear := func(now, until algorithm.Instant) {
		s.Adopt(&storage.StateReport{Penalty: penalty, Now: now, BannedUntil: until})
	}
	for i, step := range []struct {
		do   func()
		want bool
	}{
		{func() { hear(adoptedAt, 0) }, false},
		{func() { hear(adoptedAt+10, adoptedAt+1000) }, true},
		{func() { hear(adoptedAt+9, 0) }, true}, // out of order
		{func() { s.Forget(&group, adoptedAt+10) }, true},
		{func() { s.Forget(&group, adoptedAt+11) }, false},
		{func() { hear(adoptedAt+20, adoptedAt+1000) }, true},
		{func() { hear(adoptedAt+21, 0) }, false},
		{func() { hear(adoptedAt+19, adoptedAt+1000) }, false},
	} {
		if step.do(); banned() != step.want {
			t.Errorf("step %d: banned %v", i, !step.want)
		}
	}
}

// A follower uses the other store's clock, whatever this machine's says, and follows its steps.
func TestFollowsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{MaxBytes: 1 << 20})
		defer s.Close()
		m := adoptable["window"].MustCompile()
		now := s.clock.now
		hear := func(now algorithm.Instant) { s.Adopt(&storage.StateReport{Meter: m, Now: now}) }
		if got := now(); got != realNow() {
			t.Errorf("the clock is %d before anything was heard, not this machine's, %d", got, realNow())
		}
		base := realNow() + 3_600_000_000
		const ms = 1000
		for _, step := range []struct {
			sleep time.Duration
			heard algorithm.Instant // after base; -1: nothing
			want  algorithm.Instant
		}{
			{0, 0, 0},
			{10 * time.Millisecond, -1, 10 * ms},
			{0, 8 * ms, 10 * ms},         // this answer was in transit for 2 ms
			{0, 11 * ms, 11 * ms},        // the one before for 1 ms
			{time.Second, -1, 1011 * ms}, //
			{0, 1009 * ms, 1011 * ms},    // 2 ms in transit
			{time.Second, -1, 2011 * ms}, //
			{0, 2010 * ms, 2010 * ms},    // this machine's clock may be fast
			{0, 9_000 * ms, 9_000 * ms},  // it stepped
			{2 * time.Second, 0, 0},      // and back
			{30 * time.Minute, -1, 1_800_000 * ms},
		} {
			time.Sleep(step.sleep)
			if step.heard >= 0 {
				hear(base + step.heard)
			}
			if got := now() - base; got != step.want {
				t.Errorf("after %+v: %d µs", step, got)
			}
		}
		// An instant that a ticket brings says nothing about the clock.
		s.Adopt(&storage.StateReport{Meter: m, Now: 5, Given: true})
		if got := now() - base; got != 1_800_000*ms {
			t.Errorf("after a given instant: %d µs", got)
		}
	})
}

// A counter of another store may be above the limit, if the limit was lowered, and by more than a slot holds.
func TestAdoptCountAboveTheLimit(t *testing.T) {
	m := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: 1_000_000_000, Window: time.Hour})
	start := adoptedAt - adoptedAt%algorithm.Instant(m.Window)
	for _, st := range []algorithm.State{{At: start, Used: 1<<32 + 1}, {At: start, Previous: 1<<34 + 1}} {
		s := open(t, Options{MaxBytes: MinBytes})
		s.Adopt(&storage.StateReport{Now: adoptedAt, Given: true, Meter: m, State: st})
		if d := at(t, s, m, adoptedAt, 1).Decisions[0]; d.Allowed {
			t.Errorf("%+v: %+v", st, d)
		}
	}
}
