package storage

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock/algorithm"
)

// ticketMeters are one of each kind, and one more window.
func ticketMeters(t testing.TB) map[string]*algorithm.Meter {
	meters := map[string]*algorithm.Meter{}
	for name, l := range map[string]algorithm.Limit{
		"minute": {Algorithm: algorithm.FixedWindow, Count: 3, Window: time.Minute},
		"hour":   {Algorithm: algorithm.FixedWindow, Count: 5, Window: time.Hour},
		"denied": {Algorithm: algorithm.FixedWindow, Count: 3, Window: time.Minute, CountDenied: true, Ordinal: 1},
		"leaky":  {Algorithm: algorithm.LeakyBucket, Count: 4, Window: time.Minute, Queue: 6},
		"leases": {Algorithm: algorithm.Concurrency, Count: 2, Window: time.Minute},
	} {
		meters[name] = compile(t, l)
	}
	return meters
}

func TestTicketValidate(t *testing.T) {
	m := ticketMeters(t)
	one := func(c ...algorithm.Charge) []Group { return []Group{{Charges: c}} }
	minute := algorithm.Charge{Meter: m["minute"], Cost: 1}
	many := func(n int) (groups []Group) {
		for i := range n {
			groups = append(groups, Group{Subject: Subject{byte(i)}, Charges: []algorithm.Charge{minute}})
		}
		return groups
	}
	charges := func(n int) (c []algorithm.Charge) {
		for i := range n {
			c = append(c, algorithm.Charge{Meter: compile(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: time.Minute, Ordinal: uint8(i)}), Cost: 1})
		}
		return c
	}
	twice := Group{Charges: []algorithm.Charge{minute}}
	alone := Group{Charges: []algorithm.Charge{minute}, Alone: true}
	other := Group{Subject: Subject{1}, Charges: []algorithm.Charge{minute}}
	all := algorithm.Charge{Meter: compile(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: time.Minute, CountAll: true}), Cost: 1}

	for _, test := range []struct {
		name   string
		ticket Ticket
		want   string // in the error; "" is valid
	}{
		{"one charge", Ticket{Groups: one(minute)}, ""},
		{"the last instant", Ticket{Now: algorithm.MaxInstant, Groups: one(minute)}, ""},
		{"after the last instant", Ticket{Now: algorithm.MaxInstant + 1, Groups: one(minute)}, "now 4503599627370496"},
		{"before the epoch", Ticket{Now: -1, Groups: one(minute)}, "now -1"},
		{"any delay", Ticket{MaxDelay: algorithm.AnyDelay, Groups: one(minute)}, ""},
		{"a negative delay", Ticket{MaxDelay: -1, Groups: one(minute)}, "max delay -1ns"},
		{"no groups", Ticket{}, "0 groups"},
		{"as many groups as go", Ticket{Groups: many(MaxGroups)}, ""},
		{"too many groups", Ticket{Groups: many(MaxGroups + 1)}, "65 groups"},
		{"no charges", Ticket{Groups: []Group{{}}}, "group 0 has 0 charges"},
		{"as many charges as go", Ticket{Groups: one(charges(MaxCharges)...)}, ""},
		{"too many charges", Ticket{Groups: one(charges(MaxCharges + 1)...)}, "group 0 has 17 charges"},
		{"no meter", Ticket{Groups: one(minute, algorithm.Charge{Meter: nil, Cost: 1})}, "group 0 charge 1 has no meter"},
		{"a peek", Ticket{Groups: one(algorithm.Charge{Meter: m["minute"], Cost: 0})}, ""},
		{"the highest cost", Ticket{Groups: one(algorithm.Charge{Meter: m["minute"], Cost: algorithm.MaxCount})}, ""},
		{"a higher cost", Ticket{Groups: one(algorithm.Charge{Meter: m["minute"], Cost: algorithm.MaxCount + 1})}, "cost 1000000000001"},
		{"a negative cost", Ticket{Groups: one(algorithm.Charge{Meter: m["minute"], Cost: -1})}, "cost -1"},
		{"the lowest cost", Ticket{Groups: one(algorithm.Charge{Meter: m["minute"], Cost: math.MinInt64})}, "cost -9223372036854775808"},
		{"a lease without a nonce", Ticket{Groups: one(algorithm.Charge{Meter: m["leases"], Cost: 1})}, "no nonce"},
		{"a lease", Ticket{Nonce: 1, Groups: one(algorithm.Charge{Meter: m["leases"], Cost: 1})}, ""},
		{"a peek at leases", Ticket{Groups: one(algorithm.Charge{Meter: m["leases"], Cost: 0})}, ""},
		{"the same twice in a group", Ticket{Groups: one(minute, minute)}, `"fixed_window 3/1m" twice`},
		{"the same twice in a group alone", Ticket{Groups: []Group{{Alone: true, Charges: []algorithm.Charge{minute, minute}}}}, "twice"},
		{"two windows in a group", Ticket{Groups: one(minute, algorithm.Charge{Meter: m["hour"], Cost: 1})}, ""},
		{"the same subject in two groups", Ticket{Groups: []Group{twice, other, twice}}, "groups 0 and 2"},
		{"of other subjects", Ticket{Groups: []Group{twice, other}}, ""},
		{"the second is alone", Ticket{Groups: []Group{twice, alone}}, ""},
		{"the first is alone", Ticket{Groups: []Group{alone, twice}}, ""},
		{"all are counted, alone", Ticket{Groups: []Group{{Alone: true, Charges: []algorithm.Charge{all}}}}, ""},
		{"all are counted beside others", Ticket{Groups: one(all)}, "must be alone"},
		{"both are alone", Ticket{Groups: []Group{alone, alone}}, ""},
	} {
		err := test.ticket.Validate()
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.want != "" && (!errors.Is(err, algorithm.ErrInvalid) || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: error %v, want one that is ErrInvalid and says %q", test.name, err, test.want)
		}
	}
}

// FuzzTicket: no ticket panics, and none that is accepted has two charges of one state, two guards
// of one subject, or something to name and no nonce.
func FuzzTicket(f *testing.F) {
	f.Add(int64(0), int64(0), uint64(1), []byte{0, 1, 1, 0, 2, 1, 0x10, 1, 1})
	f.Add(int64(-1), int64(-1), uint64(0), []byte{0xff, 0xff, 0xff})
	f.Add(int64(5), int64(5), uint64(0), []byte{})
	f.Add(int64(5), int64(5), uint64(7), []byte{0x10, 0x21, 1, 0x91, 0x82, 1, 0x12, 0x41, 1})
	f.Fuzz(func(t *testing.T, now, delay int64, nonce uint64, script []byte) {
		meters := []*algorithm.Meter{nil}
		for _, name := range []string{"minute", "hour", "denied", "leaky", "leases"} {
			meters = append(meters, ticketMeters(t)[name])
		}
		ticket := Ticket{Now: algorithm.Instant(now), MaxDelay: time.Duration(delay), Nonce: nonce}
		for ; len(script) >= 3; script = script[3:] { // subject and flags, meter, cost
			if len(ticket.Groups) == 0 || script[0]&0x10 != 0 {
				ticket.Groups = append(ticket.Groups, Group{Subject: Subject{script[0] & 3}, Alone: script[0]&0x20 != 0})
				guard(t, &ticket.Groups[len(ticket.Groups)-1], script[1]>>5)
			}
			g := &ticket.Groups[len(ticket.Groups)-1]
			if script[0]&0x40 == 0 {
				g.Charges = append(g.Charges, algorithm.Charge{Meter: meters[int(script[1])%len(meters)], Cost: int64(int8(script[2])) << (script[1] >> 3), Overdraw: script[0]&0x80 != 0})
			}
		}
		if err := ticket.Validate(); err != nil {
			if !errors.Is(err, algorithm.ErrInvalid) {
				t.Errorf("%v is not ErrInvalid", err)
			}
			return
		}
		type state struct {
			subject     Subject
			fingerprint uint64
		}
		charged := map[state]bool{}
		guarded := map[Subject]bool{}
		for _, g := range ticket.Groups {
			if g.Guarded() && guarded[g.Subject] {
				t.Errorf("%v is guarded twice", g.Subject)
			}
			guarded[g.Subject] = guarded[g.Subject] || g.Guarded()
			if g.Names() && nonce == 0 {
				t.Errorf("%+v is taken without a nonce", g)
			}
			if g.Alone {
				continue
			}
			for _, c := range g.Charges {
				s := state{g.Subject, c.Meter.Fingerprint}
				if charged[s] {
					t.Errorf("%v of %v is charged twice", c.Meter, g.Subject)
				}
				charged[s] = true
			}
		}
	})
}

func guard(t *testing.T, g *Group, how byte) {
	if how&1 != 0 {
		g.Penalty = penalty(t, threeStrikes)
	}
	if how&2 != 0 {
		g.Dedup = dedup(t, onceAMinute)
	}
	if how&4 != 0 {
		g.Reserve = time.Minute
	}
}

func TestTogether(t *testing.T) {
	m := ticketMeters(t)
	ticket := Ticket{Groups: []Group{
		{Charges: []algorithm.Charge{{Meter: m["minute"], Cost: 1}, {Meter: m["hour"], Cost: 1}}},
		{Charges: []algorithm.Charge{{Meter: m["minute"], Cost: 1}}, Alone: true},
		{Charges: []algorithm.Charge{{Meter: m["leaky"], Cost: 1}}},
	}}
	for verdicts, want := range map[string]bool{"1111": true, "1101": true, "0111": false, "1011": false, "1110": false, "1100": false} {
		found := make([]ChargeResult, 4)
		for i, v := range verdicts {
			found[i].Passes = v == '1'
		}
		if got := ticket.Together(found, nil); got != want {
			t.Errorf("charges %s: together %v, want %v", verdicts, got, want)
		}
	}
}

func TestSettle(t *testing.T) {
	m := ticketMeters(t)
	now := epoch
	minute, hour, denied, leases := m["minute"], m["hour"], m["denied"], m["leases"]
	full := algorithm.State{At: epoch, Used: 3}
	receipt := func(m *algorithm.Meter) algorithm.Receipt {
		return algorithm.Receipt{Fingerprint: m.Fingerprint, Cost: 1, At: epoch}
	}
	pass := func(m *algorithm.Meter, used int64, reset time.Duration, taken bool) algorithm.Decision {
		d := algorithm.Decision{Allowed: true, Limit: m.Capacity, Used: used, Remaining: m.Capacity - used, ResetAfter: reset}
		if taken {
			d.Receipt = receipt(m)
		}
		return d
	}
	deny := func(m *algorithm.Meter, retry, reset time.Duration) algorithm.Decision {
		return algorithm.Decision{Limit: m.Capacity, Used: m.Capacity, RetryAfter: retry, ResetAfter: reset}
	}
	leased := algorithm.State{At: epoch.Add(time.Minute), Used: 2, FreeAt: epoch.Add(time.Second)}

	for _, test := range []struct {
		name   string
		groups []Group
		found  []ChargeResult
		want   Outcome
	}{
		{"all pass", []Group{{Charges: []algorithm.Charge{{Meter: minute, Cost: 1}, {Meter: hour, Cost: 1}}}},
			[]ChargeResult{{State: algorithm.State{At: epoch, Used: 1}, Passes: true}, {State: algorithm.State{At: epoch, Used: 1}, Passes: true}},
			Outcome{Now: now, Allowed: true, Groups: []GroupOutcome{{Allowed: true, Taken: true}},
				Decisions: []algorithm.Decision{pass(minute, 1, time.Minute, true), pass(hour, 1, time.Hour, true)}}},
		{"the minute passes, the hour denies: nothing is taken", []Group{{Charges: []algorithm.Charge{{Meter: minute, Cost: 1}, {Meter: hour, Cost: 1}}}},
			[]ChargeResult{{State: algorithm.State{}, Passes: true}, {State: algorithm.State{At: epoch, Used: 5}, Passes: false}},
			Outcome{Now: now, Allowed: false, Groups: []GroupOutcome{{FirmUntil: epoch.Add(time.Hour)}},
				Decisions: []algorithm.Decision{pass(minute, 0, 0, false), deny(hour, time.Hour, time.Hour)}}},
		{"another group denies", []Group{{Charges: []algorithm.Charge{{Meter: minute, Cost: 1}}}, {Subject: Subject{1}, Charges: []algorithm.Charge{{Meter: minute, Cost: 1}}}},
			[]ChargeResult{{State: algorithm.State{}, Passes: true}, {State: full, Passes: false}},
			Outcome{Now: now, Allowed: false, Groups: []GroupOutcome{{Allowed: true}, {FirmUntil: epoch.Add(time.Minute)}},
				Decisions: []algorithm.Decision{pass(minute, 0, 0, false), deny(minute, time.Minute, time.Minute)}}},
		{"a group alone denies only itself", []Group{{Charges: []algorithm.Charge{{Meter: minute, Cost: 1}}}, {Charges: []algorithm.Charge{{Meter: hour, Cost: 1}}, Alone: true}},
			[]ChargeResult{{State: algorithm.State{At: epoch, Used: 1}, Passes: true}, {State: algorithm.State{At: epoch, Used: 5}, Passes: false}},
			Outcome{Now: now, Allowed: true, Groups: []GroupOutcome{{Allowed: true, Taken: true}, {FirmUntil: epoch.Add(time.Hour)}},
				Decisions: []algorithm.Decision{pass(minute, 1, time.Minute, true), deny(hour, time.Hour, time.Hour)}}},
		{"a group alone is taken though the others are denied", []Group{{Charges: []algorithm.Charge{{Meter: minute, Cost: 1}}}, {Charges: []algorithm.Charge{{Meter: hour, Cost: 1}}, Alone: true}},
			[]ChargeResult{{State: full, Passes: false}, {State: algorithm.State{At: epoch, Used: 1}, Passes: true}},
			Outcome{Now: now, Allowed: false, Groups: []GroupOutcome{{FirmUntil: epoch.Add(time.Minute)}, {Allowed: true, Taken: true}},
				Decisions: []algorithm.Decision{deny(minute, time.Minute, time.Minute), pass(hour, 1, time.Hour, true)}}},
		{"firm as long as the longest denial", []Group{{Charges: []algorithm.Charge{{Meter: hour, Cost: 1}, {Meter: minute, Cost: 1}}}},
			[]ChargeResult{{State: algorithm.State{At: epoch, Used: 5}, Passes: false}, {State: full, Passes: false}},
			Outcome{Now: now, Allowed: false, Groups: []GroupOutcome{{FirmUntil: epoch.Add(time.Hour)}},
				Decisions: []algorithm.Decision{deny(hour, time.Hour, time.Hour), deny(minute, time.Minute, time.Minute)}}},
		{"not firm where others may give back", []Group{{Charges: []algorithm.Charge{{Meter: hour, Cost: 1}}, Returnable: true}},
			[]ChargeResult{{State: algorithm.State{At: epoch, Used: 5}, Passes: false}},
			Outcome{Now: now, Allowed: false, Groups: []GroupOutcome{{}}, Decisions: []algorithm.Decision{deny(hour, time.Hour, time.Hour)}}},
		{"never is firm for good", []Group{{Charges: []algorithm.Charge{{Meter: minute, Cost: 4}}}},
			[]ChargeResult{{State: algorithm.State{}, Passes: false}},
			Outcome{Now: now, Allowed: false, Groups: []GroupOutcome{{FirmUntil: algorithm.MaxInstant}}, Decisions: []algorithm.Decision{{Limit: 3, Remaining: 3, RetryAfter: algorithm.Never}}}},
		{"a lease may be released", []Group{{Charges: []algorithm.Charge{{Meter: leases, Cost: 1}}}},
			[]ChargeResult{{State: leased, Passes: false}},
			Outcome{Now: now, Allowed: false, Groups: []GroupOutcome{{}}, Decisions: []algorithm.Decision{deny(leases, time.Second, time.Minute)}}},
		{"counted denials move the end", []Group{{Charges: []algorithm.Charge{{Meter: denied, Cost: 1}}}},
			[]ChargeResult{{State: full, Passes: false}},
			Outcome{Now: now, Allowed: false, Groups: []GroupOutcome{{}}, Decisions: []algorithm.Decision{deny(denied, time.Minute, time.Minute)}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ticket := Ticket{Nonce: 1, Groups: test.groups}
			got := Outcome{Groups: make([]GroupOutcome, 3), Decisions: make([]algorithm.Decision, 1)} // left from another ticket
			got.Settle(&ticket, now, test.found, nil)
			test.want.States = statesOf(test.found)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("outcome (-want +got)\n%s", diff)
			}
		})
	}
}

func statesOf(found []ChargeResult) (states []algorithm.State) {
	for _, f := range found {
		states = append(states, f.State)
	}
	return states
}

func TestSettleDoesNotAllocate(t *testing.T) {
	m := ticketMeters(t)
	ticket := Ticket{Groups: []Group{{Charges: []algorithm.Charge{{Meter: m["minute"], Cost: 1}, {Meter: m["hour"], Cost: 1}}}}}
	found := []ChargeResult{{State: algorithm.State{At: epoch, Used: 1}, Passes: true}, {State: algorithm.State{At: epoch, Used: 5}, Passes: false}}
	var out Outcome
	if n := testing.AllocsPerRun(100, func() {
		if err := ticket.Validate(); err != nil {
			t.Fatal(err)
		}
		out.Settle(&ticket, epoch, found, nil)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// A store that contradicts itself by denying on an empty state gets a nonsensical result, but no panic.
func TestSettleOfNonsense(t *testing.T) {
	meters := ticketMeters(t)
	meters["counter"] = compile(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: 3, Window: time.Minute})
	meters["interval"] = compile(t, algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 3, Window: time.Minute, Refill: algorithm.Interval})
	meters["log"] = compile(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 3, Window: time.Minute})
	for _, m := range meters {
		ticket := Ticket{Nonce: 1, Groups: []Group{{Charges: []algorithm.Charge{{Meter: m, Cost: 1}}}}}
		var out Outcome
		for _, s := range []algorithm.State{{}, {At: algorithm.MaxInstant}, {At: epoch, Used: algorithm.MaxCount, Previous: algorithm.MaxCount, FreeAt: algorithm.MaxInstant}} {
			if out.Settle(&ticket, epoch, []ChargeResult{{State: s}}, nil); out.Allowed || len(out.Decisions) != 1 {
				t.Errorf("%v: a denial became %+v", m, out)
			}
		}
	}
}
