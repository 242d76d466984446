package storage

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock/algorithm"
)

func TestGroupSays(t *testing.T) {
	m := ticketMeters(t)
	p, d := penalty(t, threeStrikes), dedup(t, onceAMinute)
	call := NewHasher("").Call("x")
	charge := func(name string, cost int64) algorithm.Charge { return algorithm.Charge{Meter: m[name], Cost: cost} }
	charges := func(c ...algorithm.Charge) []algorithm.Charge { return c }
	for _, test := range []struct {
		name  string
		group Group
		want  string // of guarded, spends, remembers, names
	}{
		{"charges alone", Group{Charges: charges(charge("minute", 1))}, "spends"},
		{"a peek", Group{Charges: charges(charge("minute", 0), charge("hour", 0))}, ""},
		{"a peek and a cost", Group{Charges: charges(charge("minute", 0), charge("hour", 1))}, "spends"},
		{"a penalty", Group{Penalty: p, Charges: charges(charge("minute", 1))}, "guarded spends"},
		{"an id without dedup", Group{Call: call, Charges: charges(charge("minute", 1))}, "spends"},
		{"dedup without an id", Group{Dedup: d, Charges: charges(charge("minute", 1))}, "guarded spends"},
		{"dedup", Group{Dedup: d, Call: call, Charges: charges(charge("minute", 0), charge("hour", 1))}, "guarded spends remembers"},
		{"a peek with an id", Group{Dedup: d, Call: call, Charges: charges(charge("minute", 0))}, "guarded"},
		{"a reservation", Group{Reserve: time.Minute, Charges: charges(charge("minute", 1))}, "guarded spends names"},
		{"a peek at what is reserved", Group{Reserve: time.Minute, Charges: charges(charge("minute", 0))}, "guarded"},
		{"a lease", Group{Charges: charges(charge("minute", 0), charge("leases", 1))}, "spends names"},
		{"a peek at leases", Group{Charges: charges(charge("minute", 1), charge("leases", 0))}, "spends"},
		{"all of it", Group{Penalty: p, Dedup: d, Call: call, Reserve: time.Minute, Charges: charges(charge("minute", 1))}, "guarded spends remembers names"},
	} {
		var got []string
		for _, say := range []struct {
			what string
			ask  func() bool
		}{{"guarded", test.group.Guarded}, {"spends", test.group.Spends}, {"remembers", test.group.Remembers}, {"names", test.group.Names}} {
			if say.ask() {
				got = append(got, say.what)
			}
		}
		if got := strings.Join(got, " "); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestIsStrike(t *testing.T) {
	m := ticketMeters(t)
	p := penalty(t, threeStrikes)
	zero := compile(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 0, Window: time.Minute, Ordinal: 2})
	minute, hour := algorithm.Charge{Meter: m["minute"], Cost: 1}, algorithm.Charge{Meter: m["hour"], Cost: 1}
	for _, test := range []struct {
		name     string
		penalty  *algorithm.Penalty
		charges  []algorithm.Charge
		verdicts string // 1 for a charge that passes
		want     bool
	}{
		{"denied", p, []algorithm.Charge{minute}, "0", true},
		{"passes", p, []algorithm.Charge{minute}, "1", false},
		{"one of two", p, []algorithm.Charge{minute, hour}, "10", true},
		{"the other", p, []algorithm.Charge{minute, hour}, "01", true},
		{"nobody counts", nil, []algorithm.Charge{minute}, "0", false},
		{"a peek", p, []algorithm.Charge{{Meter: m["minute"]}}, "0", false},
		{"a peek beside what passes", p, []algorithm.Charge{{Meter: m["minute"]}, hour}, "01", false},
		{"never", p, []algorithm.Charge{{Meter: m["minute"], Cost: 4}}, "0", false},
		{"never, and another denies", p, []algorithm.Charge{hour, {Meter: m["minute"], Cost: 4}}, "00", false},
		{"another denies, and never", p, []algorithm.Charge{{Meter: m["minute"], Cost: 4}, hour}, "00", false},
		{"overdrawn", p, []algorithm.Charge{{Meter: m["minute"], Cost: 4, Overdraw: true}}, "0", true},
		{"a limit of zero lets nobody pass", p, []algorithm.Charge{{Meter: zero, Cost: 4, Overdraw: true}}, "0", false},
		{"no lease", p, []algorithm.Charge{{Meter: m["leases"], Cost: 99}}, "0", true},
	} {
		g := Group{Penalty: test.penalty, Charges: test.charges}
		if got := g.IsStrike(verdicts(test.verdicts)); got != test.want {
			t.Errorf("%s: a strike: %v", test.name, got)
		}
	}
}

func verdicts(s string) []ChargeResult {
	found := make([]ChargeResult, len(s))
	for i, v := range s {
		found[i].Passes = v == '1'
	}
	return found
}

func TestGuardsValidate(t *testing.T) {
	m := ticketMeters(t)
	p, d := penalty(t, threeStrikes), dedup(t, onceAMinute)
	minute, hour := []algorithm.Charge{{Meter: m["minute"], Cost: 1}}, []algorithm.Charge{{Meter: m["hour"], Cost: 1}}
	reserve := func(d time.Duration, c ...algorithm.Charge) Ticket {
		return Ticket{Nonce: 1, Groups: []Group{{Reserve: d, Charges: c}}}
	}
	two := func(a, b Group) Ticket {
		return Ticket{Nonce: 1, Groups: []Group{{Subject: Subject{9}, Charges: minute}, a, b}}
	}
	long := compile(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: algorithm.MaxReservedLog + 1, Window: time.Minute})
	overdraw := func(name string) Ticket {
		return Ticket{Nonce: 1, Groups: []Group{{Charges: []algorithm.Charge{{Meter: m[name], Cost: 1, Overdraw: true}}}}}
	}
	for _, test := range []struct {
		name   string
		ticket Ticket
		want   string
	}{
		{"reserved", reserve(time.Minute, minute[0]), ""},
		{"shortest", reserve(algorithm.MinWindow, minute[0]), ""},
		{"shorter", reserve(algorithm.MinWindow-1, minute[0]), "invalid ticket: group 0: reserved for 999.999µs, must be from 1ms to 24h0m0s"},
		{"negative", reserve(-1, minute[0]), "invalid ticket: group 0: reserved for -1ns, must be from 1ms to 24h0m0s"},
		{"longest", reserve(MaxReserve, minute[0]), ""},
		{"longer", reserve(MaxReserve+1, minute[0]), "invalid ticket: group 0: reserved for 24h0m0.000000001s, must be from 1ms to 24h0m0s"},
		{"no nonce", Ticket{Groups: []Group{{Reserve: time.Minute, Charges: minute}}}, "invalid ticket: group 0 is a reservation and the ticket has no nonce to name it"},
		{"a queue is not reserved", reserve(time.Minute, minute[0], algorithm.Charge{Meter: m["leaky"], Cost: 1}),
			`invalid ticket: group 0 charge 1: "leaky_bucket 4/1m queue 6" cannot be reserved: a released place in the queue of a leaky bucket stays unused; use a token_bucket`},
		{"nor a long log", reserve(time.Minute, algorithm.Charge{Meter: long, Cost: 1}),
			`invalid ticket: group 0 charge 0: "sliding_window_log 10001/1m" cannot be reserved: a release rewrites the log, so at most 10000; use a sliding_window_counter`},
		{"nor one that forgets", reserve(time.Minute, algorithm.Charge{Meter: algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 3, Window: time.Minute, CountDenied: true}.MustCompile(), Cost: 1}),
			`invalid ticket: group 0 charge 0: "sliding_window_log 3/1m count_denied" cannot be reserved: a log that counts denied requests drops earlier ones, which a release could not restore; use a sliding_window_counter`},
		{"a long log that is not reserved", Ticket{Groups: []Group{{Charges: []algorithm.Charge{{Meter: long, Cost: 1}}}}}, ""},
		{"overdrawn", overdraw("minute"), ""},
		{"an overdrawn queue", overdraw("leaky"), `invalid ticket: group 0 charge 0: "leaky_bucket 4/1m queue 6" cannot be overdrawn`},
		{"overdrawn leases", overdraw("leases"), `invalid ticket: group 0 charge 0: "concurrency 2/1m" cannot be overdrawn`},
		{"guards of two subjects", two(Group{Penalty: p, Charges: minute}, Group{Subject: Subject{1}, Penalty: p, Charges: hour}), ""},
		{"one guards, one does not", two(Group{Penalty: p, Charges: minute}, Group{Charges: hour}), ""},
		{"one does not, one guards", two(Group{Charges: hour}, Group{Penalty: p, Charges: minute}), ""},
		{"two penalties", two(Group{Penalty: p, Charges: minute}, Group{Penalty: p, Charges: hour}), "invalid ticket: groups 1 and 2 guard the same subject"},
		{"two kinds of guards", two(Group{Dedup: d, Charges: minute}, Group{Reserve: time.Minute, Charges: hour}), "invalid ticket: groups 1 and 2 guard the same subject"},
		{"even if one is alone", two(Group{Dedup: d, Charges: minute, Alone: true}, Group{Penalty: p, Charges: hour}), "invalid ticket: groups 1 and 2 guard the same subject"},
	} {
		t.Run(test.name, func(t *testing.T) { expect(t, test.ticket.Validate(), test.want) })
	}
}

func TestTogetherWithGuards(t *testing.T) {
	m := ticketMeters(t)
	one := []algorithm.Charge{{Meter: m["minute"], Cost: 1}}
	ticket := Ticket{Groups: []Group{{Charges: one}, {Subject: Subject{1}, Charges: one, Alone: true}, {Subject: Subject{2}, Charges: one}}}
	for _, test := range []struct {
		verdicts string
		guards   string // b banned, r a duplicate
		want     bool
	}{
		{"111", "---", true}, {"011", "---", false}, {"101", "---", true},
		{"111", "b--", false}, {"111", "--b", false}, {"111", "-b-", true},
		{"011", "r--", true}, {"010", "r-r", true}, {"010", "r--", false}, {"111", "r-b", false},
	} {
		sights := make([]GuardResult, 3)
		for i, g := range test.guards {
			sights[i].Banned, sights[i].Replay = g == 'b', g == 'r'
		}
		if got := ticket.Together(verdicts(test.verdicts), sights); got != test.want {
			t.Errorf("charges %s, guards %s: together %v", test.verdicts, test.guards, got)
		}
	}
}

func TestSettleWithGuards(t *testing.T) {
	m := ticketMeters(t)
	p, d := penalty(t, threeStrikes), dedup(t, onceAMinute)
	minute, hour, leaky, leases := m["minute"], m["hour"], m["leaky"], m["leases"]
	debt := compile(t, algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 1, Window: time.Second, Burst: 2, Overdraft: 5})
	charges := func(meters ...*algorithm.Meter) (c []algorithm.Charge) {
		for _, m := range meters {
			c = append(c, algorithm.Charge{Meter: m, Cost: 1})
		}
		return c
	}
	peek := []algorithm.Charge{{Meter: minute}}
	late := []algorithm.Charge{{Meter: debt, Cost: 9, Overdraw: true}}
	at := func(after time.Duration, used int64) algorithm.State {
		return algorithm.State{At: epoch.Add(after), Used: used}
	}
	ban := p.Ban(algorithm.PenaltyState{Bans: 2}, epoch, (2 * time.Minute).Microseconds())
	until := epoch.Add(2 * time.Minute)
	isBanned := GuardResult{Penalty: ban, Banned: true}
	struck := p.Strike(p.Strike(algorithm.PenaltyState{}, epoch), epoch)
	first := algorithm.Record{First: epoch.Add(-time.Second), Departs: epoch.Add(20 * time.Second), Nonce: 77}
	repeat := GuardResult{Replay: true, First: first}
	other := Group{Subject: Subject{1}, Charges: charges(minute)}
	full, denied := ChargeResult{State: at(0, 3)}, algorithm.Decision{Limit: 3, Used: 3, RetryAfter: time.Minute, ResetAfter: time.Minute}
	took := func(m *algorithm.Meter, used int64, reset time.Duration) algorithm.Decision {
		return algorithm.Decision{Allowed: true, Limit: m.Capacity, Used: used, Remaining: m.Capacity - used, ResetAfter: reset, Receipt: algorithm.Receipt{Fingerprint: m.Fingerprint, Cost: 1, At: epoch}}
	}

	for _, test := range []struct {
		name   string
		groups []Group
		found  []ChargeResult
		sights []GuardResult
		want   Outcome // without Now
	}{
		{"banned: everything is denied until the ban's end at least", []Group{{Penalty: p, Charges: append(charges(minute, hour), algorithm.Charge{Meter: leaky, Cost: 99})}},
			[]ChargeResult{{Passes: true}, {State: at(0, 5)}, {}}, []GuardResult{isBanned},
			Outcome{Groups: []GroupOutcome{{FirmUntil: until, BannedUntil: until, Bans: 2}}, Decisions: []algorithm.Decision{
				{Limit: 3, Remaining: 3, RetryAfter: 2 * time.Minute},
				{Limit: 5, Used: 5, RetryAfter: time.Hour, ResetAfter: time.Hour},
				{Limit: 7, Remaining: 7, RetryAfter: algorithm.Never}}}},
		{"a peek sees the ban", []Group{{Penalty: p, Charges: peek}}, []ChargeResult{{Passes: true}}, []GuardResult{isBanned},
			Outcome{Groups: []GroupOutcome{{FirmUntil: until, BannedUntil: until, Bans: 2}},
				Decisions: []algorithm.Decision{{Limit: 3, Remaining: 3, RetryAfter: 2 * time.Minute}}}},
		{"the call that brings the ban on is told", []Group{{Penalty: p, Charges: charges(minute)}}, []ChargeResult{full}, []GuardResult{{Penalty: ban}},
			Outcome{Groups: []GroupOutcome{{FirmUntil: until, BannedUntil: until, Bans: 2}},
				Decisions: []algorithm.Decision{{Limit: 3, Used: 3, RetryAfter: 2 * time.Minute, ResetAfter: time.Minute}}}},
		{"what passes by itself has nothing to wait for", []Group{{Penalty: p, Charges: charges(minute, hour)}}, []ChargeResult{full, {Passes: true}}, []GuardResult{{Penalty: ban}},
			Outcome{Groups: []GroupOutcome{{FirmUntil: until, BannedUntil: until, Bans: 2}}, Decisions: []algorithm.Decision{
				{Limit: 3, Used: 3, RetryAfter: 2 * time.Minute, ResetAfter: time.Minute}, {Allowed: true, Limit: 5, Remaining: 5}}}},
		{"strikes of a series that is over do not count", []Group{{Penalty: p, Charges: peek}}, []ChargeResult{{Passes: true}},
			[]GuardResult{{Penalty: algorithm.PenaltyState{At: epoch.Add(-time.Second), Length: (59 * time.Second).Microseconds(), Strikes: 2, Bans: 1}}},
			Outcome{Allowed: true, Groups: []GroupOutcome{{Allowed: true, Taken: true, Bans: 1}}, Decisions: []algorithm.Decision{{Allowed: true, Limit: 3, Remaining: 3}}}},
		{"a strike: the next may move the end", []Group{{Penalty: p, Charges: charges(minute)}}, []ChargeResult{full}, []GuardResult{{Penalty: struck}},
			Outcome{Groups: []GroupOutcome{{Strikes: 2}}, Decisions: []algorithm.Decision{denied}}},
		{"a ban that ends now is over", []Group{{Penalty: p, Charges: charges(minute)}}, []ChargeResult{{State: at(0, 1), Passes: true}},
			[]GuardResult{{Penalty: algorithm.PenaltyState{At: epoch, Length: ban.Length, Bans: ban.Bans, Banned: true}}},
			Outcome{Allowed: true, Groups: []GroupOutcome{{Allowed: true, Taken: true, Bans: 2}}, Decisions: []algorithm.Decision{took(minute, 1, time.Minute)}}},
		{"banned alone", []Group{{Penalty: p, Charges: charges(minute), Alone: true}, other}, []ChargeResult{{Passes: true}, {State: at(0, 1), Passes: true}}, []GuardResult{isBanned, {}},
			Outcome{Allowed: true, Groups: []GroupOutcome{{FirmUntil: until, BannedUntil: until, Bans: 2}, {Allowed: true, Taken: true}},
				Decisions: []algorithm.Decision{{Limit: 3, Remaining: 3, RetryAfter: 2 * time.Minute}, took(minute, 1, time.Minute)}}},
		{"banned: the others take nothing", []Group{{Penalty: p, Charges: charges(minute)}, other}, []ChargeResult{{Passes: true}, {Passes: true}}, []GuardResult{isBanned, {}},
			Outcome{Groups: []GroupOutcome{{FirmUntil: until, BannedUntil: until, Bans: 2}, {Allowed: true}},
				Decisions: []algorithm.Decision{{Limit: 3, Remaining: 3, RetryAfter: 2 * time.Minute}, {Allowed: true, Limit: 3, Remaining: 3}}}},

		{"a duplicate shows the numbers, the original's departure and its nonce", []Group{{Dedup: d, Charges: charges(minute, leaky)}},
			[]ChargeResult{full, {State: algorithm.State{At: epoch, Used: 2 * leaky.Ticks}}}, []GuardResult{repeat},
			Outcome{Allowed: true, Groups: []GroupOutcome{{Allowed: true, Taken: true, Replay: true, Original: 77}}, Decisions: []algorithm.Decision{
				{Allowed: true, Limit: 3, Used: 3, ResetAfter: time.Minute},
				{Allowed: true, Limit: 7, Used: 2, Remaining: 5, ResetAfter: 30 * time.Second, Delay: 20 * time.Second}}}},
		{"a repeat after the departure starts at once", []Group{{Dedup: d, Charges: charges(leaky)}}, []ChargeResult{{}},
			[]GuardResult{{Replay: true, First: algorithm.Record{First: epoch - 9, Departs: epoch - 5}}},
			Outcome{Allowed: true, Groups: []GroupOutcome{{Allowed: true, Taken: true, Replay: true}}, Decisions: []algorithm.Decision{{Allowed: true, Limit: 7, Remaining: 7}}}},
		{"a duplicate of a reservation reserves nothing itself", []Group{{Dedup: d, Reserve: time.Minute, Charges: charges(minute)}}, []ChargeResult{full}, []GuardResult{repeat},
			Outcome{Allowed: true, Groups: []GroupOutcome{{Allowed: true, Taken: true, Replay: true, Original: 77}},
				Decisions: []algorithm.Decision{{Allowed: true, Limit: 3, Used: 3, ResetAfter: time.Minute}}}},
		{"a repeat that another rule denies", []Group{{Dedup: d, Reserve: time.Minute, Charges: charges(minute)}, other}, []ChargeResult{full, full}, []GuardResult{repeat, {}},
			Outcome{Groups: []GroupOutcome{{Allowed: true, Replay: true, Original: 77}, {FirmUntil: epoch.Add(time.Minute)}},
				Decisions: []algorithm.Decision{{Allowed: true, Limit: 3, Used: 3, ResetAfter: time.Minute}, denied}}},
		{"a duplicate takes a permit of its own", []Group{{Dedup: d, Reserve: time.Minute, Charges: charges(minute, leases)}},
			[]ChargeResult{full, {State: at(time.Minute, 2), Passes: true}}, []GuardResult{repeat},
			Outcome{Allowed: true, Groups: []GroupOutcome{{Allowed: true, Taken: true, Replay: true, Nonce: 5, Original: 77}},
				Decisions: []algorithm.Decision{{Allowed: true, Limit: 3, Used: 3, ResetAfter: time.Minute}, took(leases, 2, time.Minute)}}},
		{"or is denied, without a strike", []Group{{Dedup: d, Penalty: p, Charges: charges(minute, leases)}},
			[]ChargeResult{full, {State: algorithm.State{At: epoch.Add(time.Minute), Used: 2, FreeAt: epoch.Add(20 * time.Second)}}}, []GuardResult{{Replay: true, First: first, Penalty: struck}},
			Outcome{Groups: []GroupOutcome{{Replay: true, Original: 77, Strikes: 2}}, Decisions: []algorithm.Decision{
				{Allowed: true, Limit: 3, Used: 3, ResetAfter: time.Minute}, {Limit: 2, Used: 2, RetryAfter: 20 * time.Second, ResetAfter: time.Minute}}}},
		{"and takes none where another rule denies", []Group{{Dedup: d, Charges: charges(leases)}, other}, []ChargeResult{{State: at(time.Minute, 1), Passes: true}, full}, []GuardResult{repeat, {}},
			Outcome{Groups: []GroupOutcome{{Allowed: true, Replay: true, Original: 77}, {FirmUntil: epoch.Add(time.Minute)}},
				Decisions: []algorithm.Decision{{Allowed: true, Limit: 2, Used: 1, Remaining: 1, ResetAfter: time.Minute}, denied}}},
		{"a look at permits denies no duplicate", []Group{{Dedup: d, Charges: append(charges(minute), algorithm.Charge{Meter: leases})}}, []ChargeResult{full, {State: at(time.Minute, 3)}}, []GuardResult{repeat},
			Outcome{Allowed: true, Groups: []GroupOutcome{{Allowed: true, Taken: true, Replay: true, Original: 77}},
				Decisions: []algorithm.Decision{{Allowed: true, Limit: 3, Used: 3, ResetAfter: time.Minute}, {Allowed: true, Limit: 2, Used: 3, ResetAfter: time.Minute}}}},
		{"a repeat tells of strikes", []Group{{Dedup: d, Penalty: p, Charges: charges(minute)}}, []ChargeResult{full}, []GuardResult{{Replay: true, Penalty: struck}},
			Outcome{Allowed: true, Groups: []GroupOutcome{{Allowed: true, Taken: true, Replay: true, Strikes: 2}},
				Decisions: []algorithm.Decision{{Allowed: true, Limit: 3, Used: 3, ResetAfter: time.Minute}}}},
		{"no repeat: it may become one", []Group{{Dedup: d, Charges: charges(minute)}}, []ChargeResult{full}, []GuardResult{{}},
			Outcome{Groups: []GroupOutcome{{}}, Decisions: []algorithm.Decision{denied}}},

		{"reserved", []Group{{Reserve: time.Minute, Charges: charges(minute)}}, []ChargeResult{{State: at(0, 1), Passes: true}}, []GuardResult{{}},
			Outcome{Allowed: true, Groups: []GroupOutcome{{Allowed: true, Taken: true, Nonce: 5}}, Decisions: []algorithm.Decision{took(minute, 1, time.Minute)}}},
		{"not reserved: others may settle", []Group{{Reserve: time.Minute, Charges: charges(minute)}}, []ChargeResult{full}, []GuardResult{{}},
			Outcome{Groups: []GroupOutcome{{}}, Decisions: []algorithm.Decision{denied}}},
		{"a peek reserves nothing", []Group{{Reserve: time.Minute, Charges: peek}}, []ChargeResult{{Passes: true}}, []GuardResult{{}},
			Outcome{Allowed: true, Groups: []GroupOutcome{{Allowed: true, Taken: true}}, Decisions: []algorithm.Decision{{Allowed: true, Limit: 3, Remaining: 3}}}},
		{"a lease has the call's nonce", []Group{{Charges: charges(leases)}}, []ChargeResult{{State: at(time.Minute, 1), Passes: true}}, nil,
			Outcome{Allowed: true, Groups: []GroupOutcome{{Allowed: true, Taken: true, Nonce: 5}}, Decisions: []algorithm.Decision{took(leases, 1, time.Minute)}}},

		{"overdrawn: the receipt says how far", []Group{{Charges: late}}, []ChargeResult{{State: at(0, 7*debt.Ticks), Amount: 6, Passes: true}}, nil,
			Outcome{Allowed: true, Groups: []GroupOutcome{{Allowed: true, Taken: true}},
				Decisions: []algorithm.Decision{{Allowed: true, Limit: 2, Used: 7, ResetAfter: 7 * time.Second, Receipt: algorithm.Receipt{Fingerprint: debt.Fingerprint, Cost: 6, At: epoch}}}}},
		{"overdrawn, but another denies", []Group{{Charges: late}, other}, []ChargeResult{{State: at(0, debt.Ticks), Passes: true}, full}, nil,
			Outcome{Groups: []GroupOutcome{{Allowed: true}, {FirmUntil: epoch.Add(time.Minute)}},
				Decisions: []algorithm.Decision{{Allowed: true, Limit: 2, Used: 1, Remaining: 1, ResetAfter: time.Second}, denied}}},
		{"in debt: until one is left", []Group{{Charges: late}}, []ChargeResult{{State: at(0, 7*debt.Ticks)}}, nil,
			Outcome{Groups: []GroupOutcome{{FirmUntil: epoch.Add(6 * time.Second)}},
				Decisions: []algorithm.Decision{{Limit: 2, Used: 7, RetryAfter: 6 * time.Second, ResetAfter: 7 * time.Second}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ticket := Ticket{Nonce: 5, Groups: test.groups}
			if err := ticket.Validate(); err != nil && !strings.Contains(err.Error(), "cannot be reserved") {
				t.Fatal(err)
			}
			// Left from another ticket.
			got := Outcome{Groups: []GroupOutcome{{true, true, 1, 2, 3, 4, true, 5, true, 6}}, Decisions: make([]algorithm.Decision, 1)}
			got.Settle(&ticket, epoch, test.found, test.sights)
			test.want.Now, test.want.States = epoch, statesOf(test.found)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("outcome (-want +got)\n%s", diff)
			}
		})
	}
}

// A request that is denied elsewhere takes nothing except in groups that are alone; what each rule decides is
// reported as always.
func TestSettleOfADeniedCall(t *testing.T) {
	m := ticketMeters(t)
	one := []algorithm.Charge{{Meter: m["minute"], Cost: 1}}
	ticket := Ticket{Denied: true, Nonce: 5, Groups: []Group{
		{Charges: one, Reserve: time.Minute},
		{Subject: Subject{1}, Charges: one, Alone: true},
		{Subject: Subject{2}, Charges: one, Dedup: dedup(t, onceAMinute)},
	}}
	found := []ChargeResult{{Passes: true}, {State: algorithm.State{At: epoch, Used: 1}, Passes: true}, {}}
	sights := []GuardResult{{}, {}, {Replay: true, First: algorithm.Record{First: epoch, Nonce: 77}}}
	if ticket.Together(found, sights) || ticket.Together(found, nil) {
		t.Error("its groups pass together")
	}
	free := algorithm.Decision{Allowed: true, Limit: 3, Remaining: 3}
	want := Outcome{Now: epoch, Groups: []GroupOutcome{{Allowed: true}, {Allowed: true, Taken: true}, {Allowed: true, Replay: true, Original: 77}}, Decisions: []algorithm.Decision{
		free, {Allowed: true, Limit: 3, Used: 1, Remaining: 2, ResetAfter: time.Minute, Receipt: algorithm.Receipt{Fingerprint: m["minute"].Fingerprint, Cost: 1, At: epoch}}, free}}
	var got Outcome
	got.Settle(&ticket, epoch, found, sights)
	want.States = statesOf(found)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcome (-want +got)\n%s", diff)
	}
}

func TestSettleWithGuardsDoesNotAllocate(t *testing.T) {
	m := ticketMeters(t)
	p := penalty(t, threeStrikes)
	ticket := Ticket{Nonce: 1, Groups: []Group{{Penalty: p, Dedup: dedup(t, onceAMinute), Reserve: time.Minute, Charges: []algorithm.Charge{{Meter: m["minute"], Cost: 1, Overdraw: true}}}}}
	found := []ChargeResult{{State: algorithm.State{At: epoch, Used: 1}, Amount: 1, Passes: true}}
	sights := []GuardResult{{Penalty: p.Strike(algorithm.PenaltyState{}, epoch)}}
	var out Outcome
	if n := testing.AllocsPerRun(100, func() {
		if err := ticket.Validate(); err != nil {
			t.Fatal(err)
		}
		out.Settle(&ticket, epoch, found, sights)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// Nonsense in the guards of a damaged store gives a nonsensical result, but no panic, and a ban never passes.
func TestSettleOfNonsenseGuards(t *testing.T) {
	m := ticketMeters(t)
	p, d := penalty(t, threeStrikes), dedup(t, onceAMinute)
	for _, meter := range m {
		ticket := Ticket{Nonce: 1, Groups: []Group{{Penalty: p, Dedup: d, Charges: []algorithm.Charge{{Meter: meter, Cost: 1}}}}}
		for _, s := range []algorithm.State{{}, {At: algorithm.MaxInstant, Used: algorithm.MaxCount, Previous: -1, FreeAt: -1}, {At: -1, Used: -1, Previous: 1 << 18, FreeAt: 1 << 18}} {
			penal := algorithm.PenaltyStateOf(s.At, s.Used, s.Previous)
			for _, r := range []algorithm.Record{{}, {First: algorithm.MaxInstant, Replays: algorithm.MaxCount, Departs: algorithm.MaxInstant}, {First: -1, Replays: -1, Departs: -1}} {
				for guards := range 4 {
					var out Outcome
					sight := GuardResult{Penalty: penal, Banned: guards&1 != 0, Replay: guards&2 != 0, First: r}
					out.Settle(&ticket, epoch, []ChargeResult{{State: s, Passes: true}}, []GuardResult{sight})
					if out.Allowed == sight.Banned || out.Groups[0].Nonce != 0 && sight.Banned || out.Decisions[0].Delay < 0 && sight.Replay {
						t.Errorf("%v: %+v became %+v", meter, sight, out)
					}
				}
			}
		}
	}
}
