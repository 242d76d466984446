package penstock

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// epoch is when test tables begin: midnight of a Thursday, and so a multiple of every window up to
// a day that divides one.
const epoch Instant = 1_767_225_600_000_000 // 2026-01-01T00:00:00Z

// A book keeps one subject's state of one meter the way a store does: a peek and a cost that can
// never pass write nothing, a denial writes only what count_denied or a wrong clock demand.
type book struct {
	meter    *Meter
	state    State
	entries  []Entry // of a log or of leases
	maxDelay time.Duration
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
	switch b.meter.Kind {
	case KindLog:
		return b.takeLog(now, cost)
	case KindLeases:
		return b.takeLease(now, cost, nonce)
	}
	m := b.meter
	s, passes, repaired := m.Weigh(b.state, now, cost, b.maxDelay)
	switch {
	case cost == 0 || !m.CanEver(cost):
	case passes:
		s = m.Charge(s, cost)
		b.state = s
	case m.CountDenied:
		s = m.ChargeDenied(s, cost)
		b.state = s
	case repaired:
		b.state = s
	}
	return m.Report(s, now, cost, passes, passes, b.maxDelay)
}

func (b *book) takeLog(now Instant, cost int64) Decision {
	m := b.meter
	w := m.WeighLog(b.entries, now, cost)
	switch {
	case cost == 0 || !m.CanEver(cost):
	case w.Passes || m.CountDenied:
		b.entries = m.RecordLog(b.entries, w, cost)
	case w.Repaired:
		b.entries = m.RecordLog(b.entries, w, 0)
	}
	return m.Report(m.LogState(b.entries, now, cost, w.Passes), now, cost, w.Passes, w.Passes, b.maxDelay)
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
	return m.Report(m.LeaseState(b.entries, now, cost, w.Passes), now, cost, w.Passes, w.Passes, b.maxDelay)
}

// play runs a table of steps on the book. A line is
//
//	at cost pass|deny used left retry reset [delay] [nonce=N]
//
// with at since the epoch, retry, reset and delay as durations, "-" for none and "never". What
// follows a # is a remark. Where no nonce is given the line's number is one.
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
		now, cost := epoch.Add(duration(t, words[0])), number(t, words[1])
		want := Decision{
			Allowed:    words[2] == "pass",
			Limit:      b.meter.Capacity,
			Used:       number(t, words[3]),
			Remaining:  number(t, words[4]),
			RetryAfter: duration(t, words[5]),
			ResetAfter: duration(t, words[6]),
			Delay:      duration(t, words[7]),
		}
		got := b.take(now, cost, nonce)
		if (got.Receipt != Receipt{}) != (got.Allowed && cost > 0) {
			t.Errorf("%v: step %q: receipt %+v of a call that was allowed: %v", b.meter, line, got.Receipt, got.Allowed)
		}
		got.Receipt = Receipt{}
		if got != want {
			t.Errorf("%v: step %q:\n got %+v\nwant %+v", b.meter, line, got, want)
		}
	}
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
