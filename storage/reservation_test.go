package storage

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

func TestSettlementValidate(t *testing.T) {
	m := ticketMeters(t)
	minute := algorithm.Charge{Meter: m["minute"], Cost: 1}
	log := func(count int64) algorithm.Charge {
		return algorithm.Charge{Meter: compile(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: count, Window: time.Minute}), Cost: 1}
	}
	many := func(n int) (c []algorithm.Charge) {
		for i := range n {
			c = append(c, algorithm.Charge{Meter: compile(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: time.Minute, Ordinal: uint8(i)})})
		}
		return c
	}
	for _, test := range []struct {
		name   string
		change func(s *Settlement)
		want   string // the error; "" is valid
	}{
		{"sound", func(s *Settlement) {}, ""},
		{"release", func(s *Settlement) { s.Verb = Release }, ""},
		{"renew", func(s *Settlement) { s.Verb, s.TTL = Renew, algorithm.MinWindow }, ""},
		{"renew for longest", func(s *Settlement) { s.Verb, s.TTL = Renew, MaxReserve }, ""},
		{"renew for nothing", func(s *Settlement) { s.Verb = Renew }, "invalid renew: ttl 0s is not from 1ms to 24h0m0s"},
		{"renew for less", func(s *Settlement) { s.Verb, s.TTL = Renew, algorithm.MinWindow-1 }, "invalid renew: ttl 999.999µs is not from 1ms to 24h0m0s"},
		{"renew for longer", func(s *Settlement) { s.Verb, s.TTL = Renew, MaxReserve+1 }, "invalid renew: ttl 24h0m0.000000001s is not from 1ms to 24h0m0s"},
		{"another verb", func(s *Settlement) { s.Verb = 4 }, "invalid Verb(4): must be one of [settle release renew refund]"},
		{"debt", func(s *Settlement) { s.Overage = algorithm.OverageDebt }, ""},
		{"another overage", func(s *Settlement) { s.Overage = 3 }, "invalid settle: overage Overage(3) must be one of [deny allow debt]"},
		{"the last instant", func(s *Settlement) { s.Now = algorithm.MaxInstant }, ""},
		{"after it", func(s *Settlement) { s.Now = algorithm.MaxInstant + 1 }, "invalid settle: now 4503599627370496 is not from 0 to 4503599627370495 µs"},
		{"before the first", func(s *Settlement) { s.Now = -1 }, "invalid settle: now -1 is not from 0 to 4503599627370495 µs"},
		{"no nonce", func(s *Settlement) { s.Nonce = 0 }, "invalid settle: no nonce to name what is meant"},
		{"no charges", func(s *Settlement) { s.Charges = nil }, "invalid settle: 0 charges, must be from 1 to 16"},
		{"as many as go", func(s *Settlement) { s.Charges = many(MaxCharges) }, ""},
		{"one more", func(s *Settlement) { s.Charges = many(MaxCharges + 1) }, "invalid settle: 17 charges, must be from 1 to 16"},
		{"no meter", func(s *Settlement) { s.Charges = []algorithm.Charge{minute, {}} }, "invalid settle: charge 1 has no meter"},
		{"the highest cost", func(s *Settlement) { s.Charges[0].Cost = algorithm.MaxCount }, ""},
		{"a higher one", func(s *Settlement) { s.Charges[0].Cost = algorithm.MaxCount + 1 }, "invalid settle: charge 0: cost 1000000000001 is not from 0 to 1000000000000"},
		{"a negative one", func(s *Settlement) { s.Charges[0].Cost = math.MinInt64 }, "invalid settle: charge 0: cost -9223372036854775808 is not from 0 to 1000000000000"},
		{"the same twice", func(s *Settlement) { s.Charges = []algorithm.Charge{minute, minute} }, `invalid settle: charges "fixed_window 3/1m" twice`},
		{"leases", func(s *Settlement) { s.Charges = []algorithm.Charge{minute, {Meter: m["leases"]}} }, ""},
		{"a queue", func(s *Settlement) { s.Charges = []algorithm.Charge{{Meter: m["leaky"]}} },
			`invalid settle: charge 0: "leaky_bucket 4/1m queue 6" cannot be reserved: a released place in the queue of a leaky bucket stays unused; use a token_bucket`},
		{"a log", func(s *Settlement) { s.Charges = []algorithm.Charge{log(algorithm.MaxReservedLog)} }, ""},
		{"a longer log", func(s *Settlement) { s.Charges = []algorithm.Charge{log(algorithm.MaxReservedLog + 1)} },
			`invalid settle: charge 0: "sliding_window_log 10001/1m" cannot be reserved: a release rewrites the log, so at most 10000; use a sliding_window_counter`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := Settlement{Nonce: 1, Charges: []algorithm.Charge{minute}}
			test.change(&s)
			expect(t, s.Validate(), test.want)
		})
	}
}

func TestReservationLives(t *testing.T) {
	for _, test := range []struct {
		until time.Duration // from now
		want  bool
	}{
		{-time.Hour, false}, {0, false}, {time.Microsecond, true}, {time.Hour, true},
		{2 * MaxReserve, true}, {2*MaxReserve + time.Microsecond, false}, {1000 * time.Hour, false},
	} {
		if r := (Reservation{Until: epoch.Add(test.until)}); r.Live(epoch) != test.want {
			t.Errorf("%v before its end it lives: %v", test.until, !test.want)
		}
	}
}

// The same settlement is recognised by its costs; the cost of a permit is ignored.
func TestSettlementRepeats(t *testing.T) {
	m := ticketMeters(t)
	minute, hour, leases := m["minute"], m["hour"], m["leases"]
	charges := func(costs ...int64) []algorithm.Charge {
		return []algorithm.Charge{{Meter: minute, Cost: costs[0]}, {Meter: hour, Cost: costs[1]}, {Meter: leases, Cost: costs[2]}}
	}
	settled := &Reservation{Closed: true, Receipts: []algorithm.Receipt{{Fingerprint: minute.Fingerprint, Cost: 2}, {Fingerprint: hour.Fingerprint, Cost: 3}}}
	released := &Reservation{Closed: true}
	for _, test := range []struct {
		name string
		r    *Reservation
		s    Settlement
		want bool
	}{
		{"the same", settled, Settlement{Charges: charges(2, 3, 9)}, true},
		{"one more", settled, Settlement{Charges: charges(2, 4, 9)}, false},
		{"one less", settled, Settlement{Charges: charges(1, 3, 9)}, false},
		{"for nothing", settled, Settlement{Charges: charges(0, 0, 0)}, false},
		{"a release", settled, Settlement{Verb: Release, Charges: charges(2, 3, 9)}, false},
		{"to renew", settled, Settlement{Verb: Renew, Charges: charges(2, 3, 9)}, false},
		{"a release again", released, Settlement{Verb: Release, Charges: charges(2, 3, 9)}, true},
		{"settled with nothing, which is the same", released, Settlement{Charges: charges(0, 0, 9)}, true},
		{"settled after all", released, Settlement{Charges: charges(2, 0, 9)}, false},
	} {
		if got := test.s.Repeats(test.r); got != test.want {
			t.Errorf("%s: repeats %v", test.name, got)
		}
	}
	if got, want := settled.Receipt(hour), (algorithm.Receipt{Fingerprint: hour.Fingerprint, Cost: 3}); got != want {
		t.Errorf("of the hour: %+v, want %+v", got, want)
	}
	if got, want := settled.Receipt(leases), (algorithm.Receipt{Fingerprint: leases.Fingerprint}); got != want {
		t.Errorf("of what was not taken: %+v, want %+v", got, want)
	}
	if s := (Settlement{Charges: charges(2, 3, 9)}); s.Cost(1) != 3 || s.OnlyLeases() {
		t.Errorf("cost %d, only leases %v", s.Cost(1), s.OnlyLeases())
	}
	if s := (Settlement{Verb: Release, Charges: charges(2, 3, 9)[2:]}); s.Cost(0) != 0 || !s.OnlyLeases() {
		t.Errorf("a release costs %d, only leases %v", s.Cost(0), s.OnlyLeases())
	}
}

func TestLeasesAreGivenBack(t *testing.T) {
	m := compile(t, algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 3, Window: 30 * time.Second})
	var leases []algorithm.Entry
	for i := range uint64(3) {
		leases = m.TakeLease(leases, epoch.Add(time.Duration(i)*time.Second), i+1)
	}
	at30 := epoch.Add(30 * time.Second) // the first has just ended
	for nonce, want := range map[uint64]bool{1: false, 2: true, 3: true, 4: false, 0: false} {
		if got := m.HoldsLease(leases, at30, nonce); got != want {
			t.Errorf("nonce %d holds a lease: %v", nonce, got)
		}
		left, held := m.DropLease(slices.Clone(leases), at30, nonce)
		if held != want || m.HoldsLease(left, at30, nonce) {
			t.Errorf("nonce %d gives back: %v, and holds one: %v", nonce, held, !held)
		}
		live := int64(2)
		if want {
			live = 1
		}
		if s := m.LeaseState(left, at30, 0, true); s.Used != live || m.ReportSettled(s, at30, 0, true).Used != live {
			t.Errorf("after nonce %d gave back %d live, want %d", nonce, s.Used, live)
		}
		if again, held := m.DropLease(left, at30, nonce); held || len(again) != len(left) {
			t.Errorf("nonce %d gives back twice", nonce)
		}
	}
}
