package algorithm

import (
	"fmt"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A trace is a random sequence of requests for which code and oracle must agree on every number.
type trace struct {
	*rapid.T
	limit   Limit
	book    *book
	oracle  oracle
	now     Instant
	latest  Instant
	retry   time.Duration // of the last denial
	scanned bool
	open    []reservedCharge // what can still be settled
}

// reservedCharge is a charge as the code and as the oracle know it.
type reservedCharge struct {
	receipt Receipt
	event   *event
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
				tr.pass(tr.pause())
				if len(tr.open) > 0 && rapid.IntRange(0, 3).Draw(t, "settle") == 0 {
					tr.settle()
				} else {
					tr.step()
				}
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
	if l.Algorithm != LeakyBucket && rapid.Bool().Draw(t, "overdraws") {
		l.Overdraft = rapid.Int64Range(0, min(20*scale, 30*l.Count)).Draw(t, "overdraft")
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

func (tr *trace) pass(pause Instant) {
	tr.now = max(tr.now+pause, tr.latest-Instant(tr.book.meter.Window)/2) // further back is a wrong clock
	tr.latest = max(tr.now, tr.latest)
}

func (tr *trace) step() {
	capacity := tr.book.meter.Capacity
	c := Charge{Meter: tr.book.meter, Overdraw: tr.limit.Algorithm != LeakyBucket && rapid.IntRange(0, 3).Draw(tr.T, "overdraw") == 0}
	switch {
	case rapid.IntRange(0, 2).Draw(tr.T, "kind") > 0:
		c.Cost = 1 + capacity/13
	case c.Overdraw:
		c.Cost = rapid.Int64Range(0, 2*(capacity+tr.limit.Overdraft)+1).Draw(tr.T, "cost")
	default:
		c.Cost = rapid.Int64Range(0, capacity+1).Draw(tr.T, "cost")
	}
	need := c.Cost // to pass
	if c.Overdraw {
		need = min(c.Cost, 1)
	}

	delay := tr.delay(tr.now)
	before := tr.consumed(tr.now)
	want := tr.passes(tr.now, need)
	got := tr.book.charge(tr.now, c, 0)
	if got.Allowed != want {
		tr.Fatalf("%v at %d: %+v on %v consumed: allowed %v, want %v", tr.limit, tr.now, c, before, got.Allowed, want)
	}
	receipt := Receipt{}
	switch {
	case c.Cost == 0 || need > capacity:
	case want:
		amount := c.Cost
		if c.Overdraw {
			amount = min(c.Cost, capacity+tr.limit.Overdraft-ceil(before))
		}
		e := tr.oracle.charge(tr.now, amount)
		receipt = Receipt{tr.book.meter.Fingerprint, amount, e.at}
		if tr.canSettle() {
			tr.open = append(tr.open, reservedCharge{receipt, e})
		}
	case tr.limit.CountDenied:
		tr.oracle.chargeDenied(tr.now, c.Cost)
	}
	if got.Receipt != receipt {
		tr.Fatalf("%v at %d: %+v: receipt %+v, want %+v", tr.limit, tr.now, c, got.Receipt, receipt)
	}
	tr.checkNumbers(got, delay)
	tr.checkReset(got)
	if !got.Allowed {
		tr.checkRetry(got, need)
	}
}

// canSettle excludes the log that counts denied requests: entries it dropped as irrelevant do not come back
// when something is given back.
func (tr *trace) canSettle() bool {
	return tr.book.meter.Returns() == nil && !(tr.limit.Algorithm == SlidingWindowLog && tr.limit.CountDenied)
}

// settle settles one of the open charges with some cost.
func (tr *trace) settle() {
	i := rapid.IntRange(0, len(tr.open)-1).Draw(tr.T, "which")
	r := tr.open[i]
	capacity := tr.book.meter.Capacity
	cost := rapid.Int64Range(0, r.receipt.Cost+rapid.SampledFrom([]int64{0, 0, 1, capacity + 1}).Draw(tr.T, "over")).Draw(tr.T, "true cost")
	overage := Overage(rapid.IntRange(0, int(OverageDebt)).Draw(tr.T, "overage"))

	more, want := cost-r.receipt.Cost, true
	room := capacity - ceil(tr.consumed(tr.now))
	switch {
	case more <= 0:
		tr.oracle.giveBack(tr.now, r.event, -more)
	case overage == OverageDeny:
		if want = tr.passes(tr.now, more); want {
			tr.oracle.charge(tr.now, more)
		}
	case overage == OverageDebt:
		tr.oracle.charge(tr.now, min(more, max(0, room+tr.limit.Overdraft)))
	default:
		tr.oracle.charge(tr.now, min(more, max(0, room)))
	}
	got := tr.book.settle(tr.now, r.receipt, cost, overage)
	if got.Allowed != want || got.Receipt != (Receipt{}) {
		tr.Fatalf("%v at %d: %+v settled with %d, %v: %+v; want allowed %v", tr.limit, tr.now, r.receipt, cost, overage, got, want)
	}
	tr.checkNumbers(got, 0)
	tr.checkReset(got)
	if !want {
		tr.checkRetry(got, more)
		return
	}
	tr.open = append(tr.open[:i], tr.open[i+1:]...)
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

func (tr *trace) checkNumbers(d Decision, delay time.Duration) {
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
	// Remaining is what a request could take now if its client can wait.
	if d.Remaining > 0 {
		if _, passes, _ := tr.weigh(d.Remaining); !passes {
			tr.Fatalf("%v at %d: %d remain and do not pass", tr.limit, tr.now, d.Remaining)
		}
	}
	if _, passes, _ := tr.weigh(d.Remaining + 1); passes {
		tr.Fatalf("%v at %d: %d remain and one more passes", tr.limit, tr.now, d.Remaining)
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

// checkRetry: at that instant it passes, and at no instant before. It always tries some of them, and once per
// trace all of them if the wait is short.
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

// The oracle for permits is a list of holders and expiries.
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
