package algorithm

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestSlidingLog(t *testing.T) {
	perMinute := func(n int64, countDenied bool) Limit {
		return Limit{Algorithm: SlidingWindowLog, Count: n, Window: time.Minute, CountDenied: countDenied}
	}
	for _, test := range []struct {
		name  string
		limit Limit
		steps string
	}{
		{"three per ten seconds", Limit{Algorithm: SlidingWindowLog, Count: 3, Window: 10 * time.Second}, `
			0s  1 pass 1 2 - 10s
			0s  1 pass 2 1 - 10s
			0s  1 pass 3 0 - 10s
			0s  1 deny 3 0 10s 10s
			9.999999s 1 deny 3 0 1us 1us
			10s 1 pass 1 2 - 10s`},
		{"1+2+3 in the thirds, three more at 80 s: two denied", perMinute(6, false), `
			10s 1 pass 1 5 - 60s
			30s 2 pass 3 3 - 60s
			50s 3 pass 6 0 - 60s
			80s 1 pass 6 0 - 60s          # (20, 80] holds 2+3
			80s 1 deny 6 0 10s 60s        # the 2 of 30 s leave at 90 s
			80s 1 deny 6 0 10s 60s
			90s 2 pass 6 0 - 60s`},
		{"waits for the entry that makes room", perMinute(5, false), `
			0s  1 pass 1 4 - 60s
			10s 1 pass 2 3 - 60s
			20s 3 pass 5 0 - 60s
			30s 1 deny 5 0 30s 50s
			30s 2 deny 5 0 40s 50s
			30s 3 deny 5 0 50s 50s
			30s 5 deny 5 0 50s 50s
			30s 6 deny 5 0 never 50s
			30s 0 pass 5 0 - 50s
			80s 5 pass 5 0 - 60s`},
		{"denied calls count: at 100 s the window holds 59 s only", perMinute(3, true), `
			0s   1 pass 1 2 - 60s
			20s  1 pass 2 1 - 60s
			40s  1 pass 3 0 - 60s
			59s  1 deny 4 0 21s 60s       # (20, 80] holds 40 and 59
			100s 1 pass 2 1 - 60s`},
		{"of denied calls no more is kept than one above the limit", perMinute(3, true), `
			0s   3 pass 3 0 - 60s
			10s  1 deny 4 0 50s 60s
			20s  3 deny 4 0 60s 60s       # 3+1+3: without the first 3 it is still 4
			30s  1 deny 4 0 50s 60s       # 3+1
			40s  4 deny 4 0 never 50s
			40s  0 deny 4 0 40s 50s
			80s  2 pass 3 0 - 60s         # 1 of 30 s and these 2
			80s  1 deny 4 0 60s 60s`},
		{"zero blocks everything but a peek", perMinute(0, true), `
			0s  1 deny 0 0 never -
			0s  0 pass 0 0 - -`},
		{"clock steps back within reach: time stands still", perMinute(3, false), `
			60s  2 pass 2 1 - 60s
			0s   1 pass 3 0 - 120s
			0s   1 deny 3 0 120s 120s
			119s 1 deny 3 0 1s 1s
			120s 3 pass 3 0 - 60s`},
		{"a wrong clock wrote it: all that counts is dated now", perMinute(3, false), `
			600s 1 pass 1 2 - 60s
			630s 1 pass 2 1 - 60s
			0s   0 pass 2 1 - 60s
			0s   2 deny 2 1 60s 60s
			59s  2 deny 2 1 1s 1s         # the denial kept the new date
			60s  2 pass 2 1 - 60s`},
		{"a wrong clock and a charge", perMinute(3, false), `
			600s 2 pass 2 1 - 60s
			0s   1 pass 3 0 - 60s
			60s  3 pass 3 0 - 60s`},
		{"a peek at what a wrong clock wrote", perMinute(2, true), `
			600s 2 pass 2 0 - 60s
			600s 1 deny 3 0 60s 60s
			0s   0 deny 3 0 60s 60s
			0s   3 deny 3 0 never 60s`},
	} {
		t.Run(test.name, func(t *testing.T) { newBook(t, test.limit).play(t, test.steps) })
	}
}

func TestSlidingLogLowered(t *testing.T) {
	b := newBook(t, Limit{Algorithm: SlidingWindowLog, Count: 5, Window: time.Minute})
	b.play(t, `
		0s  2 pass 2 3 - 60s
		10s 1 pass 3 2 - 60s
		20s 2 pass 5 0 - 60s`)
	b.meter = compile(t, Limit{Algorithm: SlidingWindowLog, Count: 3, Window: time.Minute})
	b.play(t, `
		30s 0 deny 5 0 30s 50s    # 3 are left at 60 s
		30s 1 deny 5 0 40s 50s    # 2 at 70 s
		30s 2 deny 5 0 50s 50s`)
}

// Entries that left the window are dropped from time to time, so that a log stays about as long as the limit
// is high. Dropping changes no answer.
func TestSlidingLogStaysShort(t *testing.T) {
	const count = 50
	for _, countDenied := range []bool{false, true} {
		b := newBook(t, Limit{Algorithm: SlidingWindowLog, Count: count, Window: time.Second, CountDenied: countDenied})
		rng := rand.New(rand.NewPCG(1, 2))
		longest := 0
		for now := epoch; now < epoch.Add(100*time.Second); now += Instant(rng.IntN(30_000)) {
			b.take(now, 1, 0)
			longest = max(longest, len(b.entries))
		}
		if most := 2*(count+2) + 2; longest > most {
			t.Errorf("count_denied %v: the log grew to %d entries, want at most %d", countDenied, longest, most)
		}
	}
}

func TestRecordLogOfNothingOnlyMends(t *testing.T) {
	m := compile(t, Limit{Algorithm: SlidingWindowLog, Count: 3, Window: time.Second})
	if log := m.RecordLog(nil, m.WeighLog(nil, epoch, 0), 0); len(log) != 0 {
		t.Errorf("recorded a peek at an empty log: %v", log)
	}
	log := []Entry{{}, {At: epoch, Value: 2}}
	if got := m.RecordLog(log, m.WeighLog(log, epoch, 0), 0); len(got) != 2 || got[1] != log[1] {
		t.Errorf("a peek changed the log to %v", got)
	}
}

// The state of a log names an entry to wait for only if waiting helps.
func TestLogStateWaitsForAnEntry(t *testing.T) {
	m := compile(t, Limit{Algorithm: SlidingWindowLog, Count: 3, Window: time.Minute})
	log := []Entry{{}, {At: epoch, Value: 2}, {At: epoch + 5, Value: 3}}
	for cost, want := range map[int64]State{
		0: {At: epoch + 5, Used: 3},                    // passes
		1: {At: epoch + 5, Used: 3, FreeAt: epoch},     //
		3: {At: epoch + 5, Used: 3, FreeAt: epoch + 5}, //
		4: {At: epoch + 5, Used: 3},                    // never will
	} {
		passes := m.WeighLog(log, epoch+9, cost).Passes
		if got := m.LogState(log, epoch+9, cost, passes); got != want {
			t.Errorf("cost %d: %+v, want %+v", cost, got, want)
		}
	}
	if got := m.LogState(log, epoch.Add(time.Hour), 1, true); got != (State{}) {
		t.Errorf("an hour later: %+v, want nothing", got)
	}
}

// A hundred a minute with denied requests counted: a client that keeps sending stays denied, and one that
// pauses for a window gets the full limit.
func TestSlidingLogBusyClient(t *testing.T) {
	b := newBook(t, Limit{Algorithm: SlidingWindowLog, Count: 100, Window: time.Minute, CountDenied: true})
	passed := 0
	now := epoch
	for ; now < epoch.Add(10*time.Minute); now = now.Add(100 * time.Millisecond) {
		if b.take(now, 1, 0).Allowed {
			passed++
		}
	}
	if passed != 100 {
		t.Errorf("%d of a busy client's calls passed, want the first 100", passed)
	}
	if d := b.take(now.Add(time.Minute), 100, 0); !d.Allowed {
		t.Errorf("after a pause: %+v", d)
	}
}
