package algorithm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var onceAMinute = DedupTerms{TTL: time.Minute, MaxReplays: 1, Budget: 1, Beside: Limit{Algorithm: FixedWindow, Window: time.Minute}}

func TestDedupTerms(t *testing.T) {
	const ttl, replays = "must be from 1ms to 1d in whole microseconds", "must be from 1 to 255"
	for _, test := range []struct {
		name   string
		change func(d *DedupTerms)
		want   []string // every error; none: the terms are valid
	}{
		{"sound", func(*DedupTerms) {}, nil},
		{"a calendar period", func(d *DedupTerms) { d.Beside = Limit{Algorithm: FixedWindow, Period: Day, Location: time.UTC} }, nil},
		{"no budget at all", func(d *DedupTerms) { d.Budget = 0 }, nil},
		{"shortest", func(d *DedupTerms) { d.TTL = MinWindow }, nil},
		{"shorter", func(d *DedupTerms) { d.TTL = MinWindow - time.Microsecond }, []string{"ttl 999µs: " + ttl}},
		{"longest", func(d *DedupTerms) { d.TTL = MaxDedupTTL }, nil},
		{"longer", func(d *DedupTerms) { d.TTL = MaxDedupTTL + time.Microsecond }, []string{"ttl 1d1µs: " + ttl}},
		{"nanoseconds", func(d *DedupTerms) { d.TTL = time.Second + 1 }, []string{"ttl 1.000000001s: " + ttl}},
		{"no replays", func(d *DedupTerms) { d.MaxReplays = 0 }, []string{"max_replays 0: " + replays}},
		{"most replays", func(d *DedupTerms) { d.MaxReplays = MaxReplays }, nil},
		{"more replays", func(d *DedupTerms) { d.MaxReplays = MaxReplays + 1 }, []string{"max_replays 256: " + replays}},
		{"all at once", func(d *DedupTerms) {
			*d = DedupTerms{MaxReplays: -1, Budget: -1, Beside: Limit{Algorithm: FixedWindow, Window: time.Minute}}
		}, []string{
			"ttl 0s: " + ttl, "max_replays -1: " + replays,
			`replay_budget: invalid limit "fixed_window -1/1m": count -1: must be from 0 to 1000000000000 for fixed_window`}},
		{"no window", func(d *DedupTerms) { d.Beside.Window = 0 }, []string{
			`replay_budget: invalid limit "fixed_window 1/0s": window 0s: must be from 1ms to 366d`}},
		{"beside no limit", func(d *DedupTerms) { d.Beside = Limit{} }, []string{
			`replay_budget: invalid limit " 1/0s": algorithm : must be one of [fixed_window sliding_window_log sliding_window_counter token_bucket leaky_bucket concurrency]`}},
		{"more than a log holds", func(d *DedupTerms) { d.Budget, d.Beside.Algorithm = MaxLog+1, SlidingWindowLog }, []string{
			`replay_budget: invalid limit "sliding_window_log 100001/1m": count 100001: must be from 0 to 100000 for sliding_window_log`}},
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

// The budget has a state of its own, apart from the rule's limits, the penalty, and the budget of another
// window.
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
	hour := dedup(t, DedupTerms{TTL: time.Minute, MaxReplays: 1, Budget: 1, Beside: Limit{Algorithm: FixedWindow, Window: time.Hour}}).Budget
	day := dedup(t, DedupTerms{TTL: time.Minute, MaxReplays: 1, Budget: 1, Beside: Limit{Algorithm: FixedWindow, Period: Day}}).Budget
	claim("budget a minute", minute.Fingerprint)
	claim("budget an hour", hour.Fingerprint)
	claim("budget a day", day.Fingerprint)
	for _, beside := range []Limit{
		{Algorithm: SlidingWindowLog, Window: time.Minute}, {Algorithm: SlidingWindowCounter, Window: time.Minute},
		{Algorithm: TokenBucket, Window: time.Minute}, {Algorithm: TokenBucket, Window: time.Minute, Refill: Interval},
	} {
		claim("budget beside "+beside.String(), dedup(t, DedupTerms{TTL: time.Minute, MaxReplays: 1, Budget: 1, Beside: beside}).Budget.Fingerprint)
	}
	scoped := onceAMinute
	scoped.Beside.Scope = 7
	if got := dedup(t, scoped).Budget.Fingerprint; got == minute.Fingerprint {
		t.Errorf("a budget of another scope has the fingerprint %x as well", got)
	}
	raised := onceAMinute
	raised.Budget = 7
	if dedup(t, raised).Budget.Fingerprint != minute.Fingerprint {
		t.Error("a raised budget forgets what was replayed")
	}
}

// A budget is counted by the algorithm of its limit.
func TestBudgetAlgorithm(t *testing.T) {
	for _, test := range []struct {
		beside string // as Limit.String writes it
		limit  Limit
		budget int64
		want   string
	}{
		{"window", Limit{Algorithm: FixedWindow, Count: 100, Window: time.Minute, CountDenied: true, Overdraft: 5}, 10, "fixed_window 10/1m"},
		{"calendar", Limit{Algorithm: FixedWindow, Count: 100, Period: Day, Location: time.UTC}, 10, "fixed_window 10/day UTC"},
		{"log", Limit{Algorithm: SlidingWindowLog, Count: 100, Window: time.Minute, Ordinal: 3}, 10, "sliding_window_log 10/1m"},
		{"log, none", Limit{Algorithm: SlidingWindowLog, Count: 100, Window: time.Minute}, 0, "sliding_window_log 0/1m"},
		{"counter", Limit{Algorithm: SlidingWindowCounter, Count: 100, Window: time.Minute}, 10, "sliding_window_counter 10/1m"},
		{"bucket", Limit{Algorithm: TokenBucket, Count: 100, Window: time.Minute, Burst: 500}, 10, "token_bucket 10/1m"},
		{"bucket, none", Limit{Algorithm: TokenBucket, Count: 100, Window: time.Minute, Refill: Interval}, 0, "fixed_window 0/1m"},
		{"interval", Limit{Algorithm: TokenBucket, Count: 100, Window: time.Minute, Refill: Interval}, 10, "token_bucket 10/1m refill interval"},
		{"queue", Limit{Algorithm: LeakyBucket, Count: 100, Window: time.Minute, Queue: 7}, 10, "token_bucket 10/1m"},
		{"queue, none", Limit{Algorithm: LeakyBucket, Count: 100, Window: time.Minute, Queue: 7}, 0, "fixed_window 0/1m"},
		{"permits", Limit{Algorithm: Concurrency, Count: 100, Window: time.Minute}, 10, "fixed_window 10/1m"},
	} {
		got := dedup(t, DedupTerms{TTL: time.Minute, MaxReplays: 1, Budget: test.budget, Beside: test.limit}).Budget
		if got.String() != test.want {
			t.Errorf("beside a %s: %v, want %s", test.beside, got, test.want)
		}
	}
}

// A budget with a burst is a bucket, whatever the limit beside it is.
func TestBudgetWithBurst(t *testing.T) {
	for _, test := range []struct {
		beside        Limit
		budget, burst int64
		want          string
	}{
		{Limit{Algorithm: SlidingWindowLog, Count: 100, Window: time.Hour}, 10, 2, "token_bucket 10/1h burst 2"},
		{Limit{Algorithm: LeakyBucket, Count: 100, Window: time.Hour, Queue: 3}, 10, 2, "token_bucket 10/1h burst 2"},
		{Limit{Algorithm: TokenBucket, Count: 100, Window: time.Hour, Refill: Interval, Burst: 500}, 10, 2, "token_bucket 10/1h burst 2"},
		{Limit{Algorithm: FixedWindow, Count: 100, Period: Month}, 10, 2, "token_bucket 10/32d burst 2"}, // no month is longer
		{Limit{Algorithm: FixedWindow, Count: 100, Period: Year}, 10, 2, "token_bucket 10/366d burst 2"},
		{Limit{Algorithm: FixedWindow, Count: 100, Window: 12*time.Hour + time.Millisecond}, 10, 2, "token_bucket 10/12h0m1s burst 2"},
		{Limit{Algorithm: FixedWindow, Count: MaxCount, Window: MaxWindow}, MaxCount, MaxCount, "token_bucket 1000000000000/366d burst 142418021"},
	} {
		got := dedup(t, DedupTerms{TTL: time.Minute, MaxReplays: 1, Budget: test.budget, Beside: test.beside, Burst: test.burst}).Budget
		if got.String() != test.want {
			t.Errorf("beside %v: %v, want %s", test.beside, got, test.want)
		}
	}
}

// With a sliding log no trailing window holds more than limit and budget, and with a token bucket no stretch
// of time more than both allow.
func TestBudgetHoldsWhereTheLimitDoes(t *testing.T) {
	for _, algorithm := range []Algorithm{SlidingWindowLog, TokenBucket} {
		rapid.Check(t, func(t *rapid.T) {
			limit := Limit{Algorithm: algorithm, Count: 5, Window: time.Second}
			const count, budgeted = 5, 2
			d := dedup(t, DedupTerms{TTL: time.Minute, MaxReplays: MaxReplays, Budget: budgeted, Beside: limit})
			originals, duplicates := &book{meter: limit.MustCompile()}, &book{meter: d.Budget}
			var passed []Instant
			now := epoch
			for range 80 {
				now = now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "pause")) * time.Millisecond)
				of := pickBook(originals, duplicates, rapid.Bool().Draw(t, "duplicate"))
				if !of.take(now, 1, 0).Allowed {
					continue
				}
				passed = append(passed, now)
				for i, from := range passed {
					n, span := int64(len(passed)-i), int64(now-from)
					most := int64(count + budgeted)
					if algorithm == TokenBucket {
						most += span * (count + budgeted) / 1e6
					} else if span >= 1e6 {
						continue
					}
					if n > most {
						t.Fatalf("%v: %d passed in %d µs, want at most %d", limit, n, span, most)
					}
				}
			}
		})
	}
}

func pickBook(a, b *book, second bool) *book {
	if second {
		return b
	}
	return a
}

func TestRecalls(t *testing.T) {
	d := dedup(t, DedupTerms{TTL: time.Minute, MaxReplays: 2, Budget: 1, Beside: Limit{Algorithm: FixedWindow, Window: time.Minute}})
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

// However IDs are invented, no more passes in a window than limit and budget together, and no ID is replayed
// more often than allowed.
func TestReplaysAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms := DedupTerms{TTL: time.Duration(rapid.IntRange(1, 3).Draw(t, "ttl")) * time.Second, MaxReplays: rapid.Int64Range(1, 3).Draw(t, "replays"),
			Budget: rapid.Int64Range(0, 3).Draw(t, "budget"), Beside: Limit{Algorithm: FixedWindow, Window: time.Second}}
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
