package algorithm

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// epoch is when test tables begin: midnight of a Thursday, and so a multiple of every window up to
// a day that divides one.
const epoch Instant = 1_767_225_600_000_000 // 2026-01-01T00:00:00Z

// A book keeps one subject's state of one meter as a store does: a peek and a cost that can never pass write
// nothing, and a denial writes only what count_denied or a wrong clock requires.
type book struct {
	meter    *Meter
	state    State
	entries  []Entry // of a log or of permits
	maxDelay time.Duration
	receipt  Receipt // of the last charge that was taken
}

func newBook(t testing.TB, l Limit) *book {
	t.Helper()
	return &book{meter: compile(t, l), maxDelay: AnyDelay}
}

func compile(t testing.TB, l Limit) *Meter {
	t.Helper()
	m, err := l.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (b *book) take(now Instant, cost int64, nonce uint64) Decision {
	return b.charge(now, Charge{Meter: b.meter, Cost: cost}, nonce)
}

// overdraw takes a cost that must be recorded.
func (b *book) overdraw(now Instant, cost int64) Decision {
	return b.charge(now, Charge{Meter: b.meter, Cost: cost, Overdraw: true}, 0)
}

func (b *book) charge(now Instant, c Charge, nonce uint64) (d Decision) {
	switch b.meter.Kind {
	case KindLog:
		d = b.takeLog(now, c)
	case KindLeases:
		d = b.takeLease(now, c.Cost, nonce)
	default:
		d = b.takeFixed(now, c)
	}
	if (d.Receipt != Receipt{}) {
		b.receipt = d.Receipt
	}
	return d
}

func (b *book) takeFixed(now Instant, c Charge) Decision {
	m, need := b.meter, c.Need()
	s, passes, repaired := m.Weigh(b.state, now, need, b.maxDelay)
	told := need
	switch {
	case c.Cost == 0 || !m.CanEver(need):
	case passes:
		told = m.Amount(s, now, c)
		s = m.Charge(s, told)
		b.state = s
	case m.CountDenied:
		s = m.ChargeDenied(s, c.Cost)
		b.state = s
	case repaired:
		b.state = s
	}
	return m.Report(now, Result{State: s, Cost: told, Passes: passes, Taken: passes, MaxDelay: b.maxDelay})
}

func (b *book) takeLog(now Instant, c Charge) Decision {
	m, need := b.meter, c.Need()
	w := m.WeighLog(b.entries, now, need)
	told := need
	switch {
	case c.Cost == 0 || !m.CanEver(need):
	case w.Passes:
		told = m.LogAmount(w, c)
		b.entries = m.RecordLog(b.entries, w, told)
	case m.CountDenied:
		b.entries = m.RecordDenied(b.entries, w, c.Cost)
	case w.Repaired:
		b.entries = m.RecordLog(b.entries, w, 0)
	}
	return m.Report(now, Result{State: m.LogState(b.entries, now, need, w.Passes), Cost: told, Passes: w.Passes, Taken: w.Passes, MaxDelay: b.maxDelay})
}

func (b *book) takeLease(now Instant, cost int64, nonce uint64) Decision {
	m := b.meter
	w := m.WeighLeases(b.entries, now, cost, nonce)
	switch {
	case cost == 0:
	case w.Passes:
		b.entries = m.TakeLease(b.entries, now, nonce)
	case w.Repaired:
		b.entries = m.MendLeases(b.entries, now)
	}
	return m.Report(now, Result{State: m.LeaseState(b.entries, now, cost, w.Passes), Cost: cost, Passes: w.Passes, Taken: w.Passes, MaxDelay: b.maxDelay})
}

// settle replaces what the receipt says was taken by the true cost.
func (b *book) settle(now Instant, r Receipt, cost int64, o Overage) Decision {
	m := b.meter
	more := max(0, cost-r.Cost)
	if m.Kind == KindLog {
		log, ok := m.ResettleLog(b.entries, now, r, cost, o)
		if b.entries = log; ok {
			more = 0
		}
		return m.ReportSettled(m.LogState(b.entries, now, more, ok), now, more, ok)
	}
	s, ok := m.Resettle(b.state, now, r, cost, o)
	if ok {
		b.state, more = s, 0
	}
	return m.ReportSettled(s, now, more, ok)
}

// play runs a table of steps on the book. A line is
//
//	at cost pass|deny used left retry reset [delay] [nonce=N]
//
// with at since the epoch, retry, reset and delay as durations, "-" for none and "never". A cost of 5! must
// be recorded, and =5 settles the last charge that was taken; =5/allow and =5/debt set the handling of an
// overage. Text after a # is a comment. Without a nonce, the line's number is used.
func (b *book) play(t *testing.T, table string) {
	t.Helper()
	for i, line := range strings.Split(table, "\n") {
		text, _, _ := strings.Cut(line, "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		nonce := uint64(i + 1)
		if n, ok := strings.CutPrefix(words[len(words)-1], "nonce="); ok {
			nonce = uint64(number(t, n))
			words = words[:len(words)-1]
		}
		if len(words) == 7 {
			words = append(words, "-")
		}
		if len(words) != 8 {
			t.Fatalf("step %q has %d columns", line, len(words))
		}
		now := epoch.Add(duration(t, words[0]))
		want := Decision{
			Allowed:    words[2] == "pass",
			Limit:      b.meter.Capacity,
			Used:       number(t, words[3]),
			Remaining:  number(t, words[4]),
			RetryAfter: duration(t, words[5]),
			ResetAfter: duration(t, words[6]),
			Delay:      duration(t, words[7]),
		}
		got := b.step(t, now, words[1], nonce)
		if spends := strings.Trim(words[1], "0!") != "" && words[1][0] != '='; (got.Receipt != Receipt{}) != (got.Allowed && spends) {
			t.Errorf("%v: step %q: receipt %+v of a call that was allowed: %v", b.meter, line, got.Receipt, got.Allowed)
		}
		got.Receipt = Receipt{}
		if got != want {
			t.Errorf("%v: step %q:\n got %+v\nwant %+v", b.meter, line, got, want)
		}
	}
}

// step runs the cost column of a table.
func (b *book) step(t *testing.T, now Instant, what string, nonce uint64) Decision {
	t.Helper()
	if cost, ok := strings.CutPrefix(what, "="); ok {
		cost, overage, named := strings.Cut(cost, "/")
		var o Overage
		if named {
			if err := o.UnmarshalText([]byte(overage)); err != nil {
				t.Fatal(err)
			}
		}
		return b.settle(now, b.receipt, number(t, cost), o)
	}
	if cost, ok := strings.CutSuffix(what, "!"); ok {
		return b.overdraw(now, number(t, cost))
	}
	return b.take(now, number(t, what), nonce)
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	switch s {
	case "-":
		return 0
	case "never":
		return Never
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
