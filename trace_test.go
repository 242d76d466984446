package penstock

import (
	"fmt"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A trace is a random sequence of calls of which code and oracle must think alike in every number.
type trace struct {
	*rapid.T
	limit   Limit
	book    *book
	oracle  oracle
	now     Instant
	latest  Instant
	retry   time.Duration // of the last denial
	scanned bool
}

func TestOracle(t *testing.T) {
	for name, limit := range map[string]Limit{
		"fixed_window":                        {Algorithm: FixedWindow},
		"fixed_window count_denied":           {Algorithm: FixedWindow, CountDenied: true},
		"sliding_window_log":                  {Algorithm: SlidingWindowLog},
		"sliding_window_log count_denied":     {Algorithm: SlidingWindowLog, CountDenied: true},
		"sliding_window_counter":              {Algorithm: SlidingWindowCounter},
		"sliding_window_counter count_denied": {Algorithm: SlidingWindowCounter, CountDenied: true},
		"token_bucket continuous":             {Algorithm: TokenBucket},
		"token_bucket interval":               {Algorithm: TokenBucket, Refill: Interval},
		"leaky_bucket":                        {Algorithm: LeakyBucket},
	} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			tr := newTrace(t, limit)
			for range 60 {
				tr.step()
			}
		}))
	}
}

func newTrace(t *rapid.T, l Limit) *trace {
	scale := rapid.SampledFrom([]int64{1, 1, 1, 7919}).Draw(t, "scale")
	l.Count = rapid.Int64Range(1, 12*scale).Draw(t, "count")
	l.Window = drawWindow(t)
	switch {
	case l.Algorithm == TokenBucket:
		l.Burst = rapid.Int64Range(0, min(20*scale, 30*l.Count)).Draw(t, "burst")
	case l.Algorithm == LeakyBucket:
		l.Queue = rapid.Int64Range(0, min(9*scale, 30*l.Count)).Draw(t, "queue")
	}
	b := &book{meter: l.MustCompile(), maxDelay: AnyDelay}
	if l.Algorithm == LeakyBucket && rapid.Bool().Draw(t, "impatient") {
		b.maxDelay = time.Duration(rapid.Int64Range(0, int64(2*l.Window)).Draw(t, "max delay"))
	}
	start := epoch + Instant(rapid.Int64Range(0, l.Window.Microseconds()).Draw(t, "start"))
	return &trace{T: t, limit: l, book: b, oracle: newOracle(l), now: start, latest: start}
}

// drawWindow prefers windows so short that every microsecond of them can be tried, and those
// around which the tick changes.
func drawWindow(t *rapid.T) time.Duration {
	if rapid.Bool().Draw(t, "short") {
		return time.Duration(rapid.IntRange(1000, 1500).Draw(t, "µs")) * time.Microsecond
	}
	return rapid.SampledFrom([]time.Duration{
		time.Second, 10 * time.Second, 10*time.Second + time.Millisecond, time.Minute,
		10 * time.Hour, 10*time.Hour + time.Second, 24 * time.Hour,
	}).Draw(t, "window")
}

func (tr *trace) step() {
	tr.now += tr.pause()
	tr.now = max(tr.now, tr.latest-Instant(tr.book.meter.Window)/2) // further back is a wrong clock
	tr.latest = max(tr.now, tr.latest)
	capacity := tr.book.meter.Capacity
	cost := rapid.Custom(func(t *rapid.T) int64 {
		if rapid.IntRange(0, 2).Draw(t, "kind") > 0 {
			return 1 + capacity/13
		}
		return rapid.Int64Range(0, capacity+1).Draw(t, "cost")
	}).Draw(tr.T, "cost")

	delay := tr.delay(tr.now)
	before := tr.consumed(tr.now)
	want := tr.passes(tr.now, cost)
	got := tr.book.take(tr.now, cost, 0)
	if got.Allowed != want {
		tr.Fatalf("%v at %d: cost %d on %v consumed: allowed %v, want %v", tr.limit, tr.now, cost, before, got.Allowed, want)
	}
	switch {
	case cost == 0 || cost > capacity:
	case want:
		tr.oracle.charge(tr.now, cost)
	case tr.limit.CountDenied:
		tr.oracle.chargeDenied(tr.now, cost)
	}
	tr.checkNumbers(got, cost, delay)
	tr.checkReset(got)
	if !got.Allowed {
		tr.checkRetry(got, cost)
	}
}

func (tr *trace) pause() Instant {
	w := Instant(tr.book.meter.Window)
	edge := w - tr.now%w
	switch rapid.IntRange(0, 9).Draw(tr.T, "pause") {
	case 0, 1:
		return 0
	case 2:
		return 1
	case 3:
		return edge - 1
	case 4:
		return edge
	case 5:
		return Instant(max(0, tr.retry).Microseconds())
	case 6:
		return Instant(max(0, tr.retry).Microseconds()) - 1
	case 7:
		return Instant(rapid.Int64Range(int64(w), int64(3*w)).Draw(tr.T, "long"))
	case 8:
		return -Instant(rapid.Int64Range(0, int64(w/2)).Draw(tr.T, "back"))
	}
	return Instant(rapid.Int64Range(0, int64(w/3)).Draw(tr.T, "short"))
}

func (tr *trace) consumed(now Instant) *big.Rat { return tr.oracle.consumed(now) }

func (tr *trace) delay(now Instant) time.Duration {
	if q, ok := tr.oracle.(*queueOracle); ok {
		return q.delay(now)
	}
	return 0
}

func (tr *trace) passes(now Instant, cost int64) bool {
	sum := tr.consumed(now)
	sum.Add(sum, rat(cost))
	return sum.Cmp(rat(tr.book.meter.Capacity)) <= 0 && (cost == 0 || tr.delay(now) <= tr.book.maxDelay)
}

func (tr *trace) checkNumbers(d Decision, cost int64, delay time.Duration) {
	capacity := tr.book.meter.Capacity
	used := ceil(tr.consumed(tr.now))
	if d.Limit != capacity || d.Used != used || d.Remaining != max(0, capacity-used) {
		tr.Fatalf("%v at %d: limit %d, used %d, remaining %d; want used %d", tr.limit, tr.now, d.Limit, d.Used, d.Remaining, used)
	}
	if !d.Allowed {
		delay = 0
	}
	if d.Delay != delay {
		tr.Fatalf("%v at %d: delay %v, want %v", tr.limit, tr.now, d.Delay, delay)
	}
	// Remaining is what a call could still take, were it made now by somebody who can wait.
	if d.Remaining > 0 {
		if _, passes, _ := tr.weigh(d.Remaining); !passes {
			tr.Fatalf("%v at %d: %d remain and do not pass", tr.limit, tr.now, d.Remaining)
		}
	}
	if _, passes, _ := tr.weigh(d.Remaining + 1); passes {
		tr.Fatalf("%v at %d: %d remain and one more passes", tr.limit, tr.now, d.Remaining)
	}
	wantReceipt := Receipt{}
	if d.Allowed && cost > 0 {
		wantReceipt = Receipt{tr.book.meter.Fingerprint, cost, d.Receipt.At}
		if d.Receipt.At < tr.now || d.Receipt.At > tr.latest {
			tr.Fatalf("charged at %d, receipt says %d", tr.now, d.Receipt.At)
		}
	}
	if d.Receipt != wantReceipt {
		tr.Fatalf("receipt %+v, want %+v", d.Receipt, wantReceipt)
	}
}

func (tr *trace) weigh(cost int64) (State, bool, bool) {
	if tr.limit.Algorithm == SlidingWindowLog {
		return State{}, tr.book.meter.WeighLog(tr.book.entries, tr.now, cost).Passes, false
	}
	return tr.book.meter.Weigh(tr.book.state, tr.now, cost, AnyDelay)
}

// checkReset: nothing is consumed at that instant, and a microsecond earlier something is.
func (tr *trace) checkReset(d Decision) {
	at := tr.now.Add(d.ResetAfter)
	if tr.consumed(at).Sign() != 0 {
		tr.Fatalf("%v at %d: reset after %v, when %v are consumed", tr.limit, tr.now, d.ResetAfter, tr.consumed(at))
	}
	if d.ResetAfter > 0 && tr.consumed(at-1).Sign() == 0 {
		tr.Fatalf("%v at %d: reset after %v could be earlier", tr.limit, tr.now, d.ResetAfter)
	}
	if d.ResetAfter < 0 {
		tr.Fatalf("%v at %d: reset after %v", tr.limit, tr.now, d.ResetAfter)
	}
}

// checkRetry: at that instant it passes, and at no instant before. All of them are tried once in a
// trace of a short window, some of them always.
func (tr *trace) checkRetry(d Decision, cost int64) {
	tr.retry = d.RetryAfter
	if cost > tr.book.meter.Capacity {
		if d.RetryAfter != Never {
			tr.Fatalf("%v: cost %d: retry after %v, want never", tr.limit, cost, d.RetryAfter)
		}
		return
	}
	if d.RetryAfter <= 0 {
		tr.Fatalf("%v at %d: denied, retry after %v", tr.limit, tr.now, d.RetryAfter)
	}
	at := tr.now.Add(d.RetryAfter)
	say := func(what string, i Instant) string {
		return fmt.Sprintf("%v at %d: cost %d: retry after %v %s at %+d µs", tr.limit, tr.now, cost, d.RetryAfter, what, i-at)
	}
	if !tr.passes(at, cost) {
		tr.Fatal(say("is denied", at))
	}
	stride := max(1, (at-tr.now)/7)
	if !tr.scanned && at-tr.now < 5000 {
		tr.scanned, stride = true, 1
	}
	for i := at - 1; i >= tr.now; i -= stride {
		if tr.passes(i, cost) {
			tr.Fatal(say("passes", i))
		}
	}
}

// Leases are judged by a list of who holds one until when.
func TestOracleConcurrency(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{Algorithm: Concurrency, Count: rapid.Int64Range(1, 5).Draw(t, "count"), Window: time.Millisecond}
		b := &book{meter: l.MustCompile()}
		until := map[uint64]Instant{}
		live := func(now Instant) (n int64, last Instant) {
			for _, end := range until {
				if end > now {
					n, last = n+1, max(last, end)
				}
			}
			return n, last
		}
		now := epoch
		for range 60 {
			now += Instant(rapid.IntRange(0, 400).Draw(t, "pause"))
			nonce := rapid.Uint64Range(1, 8).Draw(t, "nonce")
			cost := rapid.Int64Range(0, 3).Draw(t, "cost")
			n, _ := live(now)
			want := n < l.Count || until[nonce] > now
			if cost == 0 {
				want = n <= l.Count
			}
			d := b.take(now, cost, nonce)
			if want && cost > 0 {
				until[nonce] = now + 1000
			}
			n, last := live(now)
			reset := max(0, last.Sub(now))
			if d.Allowed != want || d.Used != n || d.Remaining != max(0, l.Count-n) || d.ResetAfter != reset {
				t.Fatalf("%v at +%d: cost %d nonce %d: %+v; want allowed %v, used %d, reset %v", l, now-epoch, cost, nonce, d, want, n, reset)
			}
			if d.Allowed {
				continue
			}
			at := now.Add(d.RetryAfter)
			if n, _ := live(at); n >= l.Count {
				t.Fatalf("retry after %v finds %d leases of %d", d.RetryAfter, n, l.Count)
			}
			if n, _ := live(at - 1); n < l.Count {
				t.Fatalf("retry after %v could be earlier", d.RetryAfter)
			}
		}
	})
}
