package penstock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var onceAMinute = DedupTerms{TTL: time.Minute, MaxReplays: 1, Budget: 1, Window: time.Minute}

func TestDedupTerms(t *testing.T) {
	const ttl, replays = "must be from 1ms to 24h0m0s in whole microseconds", "must be from 1 to 255"
	for _, test := range []struct {
		name   string
		change func(d *DedupTerms)
		want   []string // every mistake; none is sound
	}{
		{"sound", func(*DedupTerms) {}, nil},
		{"a calendar period", func(d *DedupTerms) { d.Window, d.Period, d.Location = 0, Day, time.UTC }, nil},
		{"no budget at all", func(d *DedupTerms) { d.Budget = 0 }, nil},
		{"shortest", func(d *DedupTerms) { d.TTL = MinWindow }, nil},
		{"shorter", func(d *DedupTerms) { d.TTL = MinWindow - time.Microsecond }, []string{"ttl 999µs: " + ttl}},
		{"longest", func(d *DedupTerms) { d.TTL = MaxDedupTTL }, nil},
		{"longer", func(d *DedupTerms) { d.TTL = MaxDedupTTL + time.Microsecond }, []string{"ttl 24h0m0.000001s: " + ttl}},
		{"nanoseconds", func(d *DedupTerms) { d.TTL = time.Second + 1 }, []string{"ttl 1.000000001s: " + ttl}},
		{"no replays", func(d *DedupTerms) { d.MaxReplays = 0 }, []string{"max_replays 0: " + replays}},
		{"most replays", func(d *DedupTerms) { d.MaxReplays = MaxReplays }, nil},
		{"more replays", func(d *DedupTerms) { d.MaxReplays = MaxReplays + 1 }, []string{"max_replays 256: " + replays}},
		{"all at once", func(d *DedupTerms) { *d = DedupTerms{MaxReplays: -1, Budget: -1, Window: time.Minute} }, []string{
			"ttl 0s: " + ttl, "max_replays -1: " + replays,
			`replay_budget: invalid limit "fixed_window -1/1m0s": count -1: must be from 0 to 1000000000000 for fixed_window`}},
		{"no window", func(d *DedupTerms) { d.Window = 0 }, []string{
			`replay_budget: invalid limit "fixed_window 1/0s": window 0s: must be from 1ms to 8784h0m0s`}},
	} {
		terms := onceAMinute
		test.change(&terms)
		d, err := terms.Compile()
		if len(test.want) == 0 {
			if err != nil || d.Terms() != terms || d.TTL != terms.TTL.Microseconds() || d.MaxReplays != terms.MaxReplays || d.Budget.Count != terms.Budget {
				t.Errorf("%s: %+v, %v", test.name, d, err)
			}
			continue
		}
		want := "invalid dedup: " + strings.Join(test.want, "\n")
		if !errors.Is(err, ErrInvalid) || d != nil || err.Error() != want {
			t.Errorf("%s: %v, error\n%v\nwant one that is ErrInvalid\n%s", test.name, d, err, want)
		}
	}
}

func dedup(t rapid.TB, terms DedupTerms) *Dedup {
	t.Helper()
	d, err := terms.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The budget has a state of its own beside the rule's limits, the penalty, and the budget of
// another window.
func TestBudgetFingerprint(t *testing.T) {
	seen := map[uint64]string{PenaltyFingerprint: "penalty"}
	claim := func(name string, fingerprint uint64) {
		if other, ok := seen[fingerprint]; ok || fingerprint>>56 != 0 {
			t.Errorf("%s: fingerprint %x, as of %q", name, fingerprint, other)
		}
		seen[fingerprint] = name
	}
	for a := FixedWindow; a <= Concurrency; a++ {
		claim(a.String(), compile(t, Limit{Algorithm: a, Count: 1, Window: time.Minute}).Fingerprint)
	}
	claim("day", compile(t, Limit{Algorithm: FixedWindow, Count: 1, Period: Day}).Fingerprint)
	minute := dedup(t, onceAMinute).Budget
	hour := dedup(t, DedupTerms{TTL: time.Minute, MaxReplays: 1, Budget: 1, Window: time.Hour}).Budget
	day := dedup(t, DedupTerms{TTL: time.Minute, MaxReplays: 1, Budget: 1, Period: Day}).Budget
	claim("budget a minute", minute.Fingerprint)
	claim("budget an hour", hour.Fingerprint)
	claim("budget a day", day.Fingerprint)
	scoped := onceAMinute
	scoped.Scope = 7
	claim("budget a minute of another scope", dedup(t, scoped).Budget.Fingerprint)
	if minute.Kind != KindWindow || day.Kind != KindCalendar {
		t.Errorf("budgets are of kinds %d and %d", minute.Kind, day.Kind)
	}
	raised := onceAMinute
	raised.Budget = 7
	if dedup(t, raised).Budget.Fingerprint != minute.Fingerprint {
		t.Error("a raised budget forgets what was replayed")
	}
}

func TestRecalls(t *testing.T) {
	d := dedup(t, DedupTerms{TTL: time.Minute, MaxReplays: 2, Budget: 1, Window: time.Minute})
	for _, test := range []struct {
		name   string
		record Record
		now    time.Duration
		want   bool
	}{
		{"never seen", Record{}, 0, false},
		{"at once", Record{First: epoch}, 0, true},
		{"to the last", Record{First: epoch}, time.Minute - time.Microsecond, true},
		{"over", Record{First: epoch}, time.Minute, false},
		{"replayed once", Record{First: epoch, Replays: 1}, 0, true},
		{"replayed as often as may be", Record{First: epoch, Replays: 2}, 0, false},
		{"more often: the limit was lowered", Record{First: epoch, Replays: 200}, 0, false},
		{"the clock stepped back", Record{First: epoch}, -time.Minute, true},
		{"a wrong clock wrote it", Record{First: epoch}, -time.Minute - time.Microsecond, false},
	} {
		if got := d.Recalls(test.record, epoch.Add(test.now)); got != test.want {
			t.Errorf("%s: recalled %v", test.name, got)
		}
	}
	if d.Recalls(Record{}, 1) {
		t.Error("at the beginning of time a call that was never made is recalled")
	}
}

// However ids are made up, no more gets through in a window than limit and budget together, and of
// one id no more than it may be replayed.
func TestReplaysAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms := DedupTerms{TTL: time.Duration(rapid.IntRange(1, 3).Draw(t, "ttl")) * time.Second, MaxReplays: rapid.Int64Range(1, 3).Draw(t, "replays"),
			Budget: rapid.Int64Range(0, 3).Draw(t, "budget"), Window: time.Second}
		d := dedup(t, terms)
		limit := &book{meter: Limit{Algorithm: FixedWindow, Count: rapid.Int64Range(1, 5).Draw(t, "count"), Window: time.Second}.MustCompile()}
		budget := &book{meter: d.Budget}
		records := map[int]Record{}
		passed := map[Instant]int64{}
		now := epoch
		for range 60 {
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "pause")) * time.Millisecond)
			id := rapid.IntRange(1, 4).Draw(t, "id")
			r := records[id]
			window := now / 1e6
			switch {
			case d.Recalls(r, now) && budget.take(now, 1, 0).Allowed:
				r.Replays++
				records[id] = r
				passed[window]++
			case limit.take(now, 1, 0).Allowed:
				records[id] = Record{First: now}
				passed[window]++
			}
			if passed[window] > limit.meter.Count+terms.Budget || records[id].Replays > terms.MaxReplays {
				t.Fatalf("%+v: %d passed in a window, with a limit of %d; %+v", terms, passed[window], limit.meter.Count, records[id])
			}
		}
	})
}
