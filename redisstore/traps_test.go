package redisstore_test

import (
	"embed"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// Techniques that are widely used and do not keep their limit. Each test shows that the technique fails and
// that the same requests do not harm Penstock: the first half proves that the second could have failed.

//go:embed testdata/*.lua
var techniques embed.FS

// A technique decides requests with a script of testdata.
type technique struct {
	t          testing.TB
	addr, text string
	window     time.Duration
	limit      int
}

func useTechnique(t testing.TB, addr, name string, limit int, window time.Duration) technique {
	t.Helper()
	text, err := techniques.ReadFile("testdata/" + name + ".lua")
	if err != nil {
		t.Fatal(err)
	}
	return technique{t, addr, string(text), window, limit}
}

func (q technique) hit(key string, now algorithm.Instant, more ...string) bool {
	q.t.Helper()
	args := []string{"EVAL", q.text, "1", key, fmt.Sprint(now), fmt.Sprint(q.window.Microseconds()), fmt.Sprint(q.limit)}
	return ask(q.t, q.addr, append(args, more...)...) == "1"
}

func count(n int, pass func(i int) bool) int {
	passed := 0
	for i := range n {
		if pass(i) {
			passed++
		}
	}
	return passed
}

func expect(t testing.TB, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %d, want %d", what, got, want)
	}
}

func seconds(n int) algorithm.Instant { return algorithm.Instant(n) * 1_000_000 }

func slidingLog(count int64, window time.Duration) *algorithm.Meter {
	return algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: count, Window: window}.MustCompile()
}

// An id that a client chooses must not identify the entries of the log.
func TestTrapRequestIDInTheLog(t *testing.T) {
	server, store := serve(t)
	trap := useTechnique(t, server.Addr, "dedup_in_log", 10, time.Minute)
	expect(t, "50 calls with one id, by the technique", count(50, func(int) bool { return trap.hit("burst", monday, "id") }), 50)
	meter, caller := slidingLog(10, time.Minute), stranger()
	expect(t, "50 calls of one caller", count(50, func(int) bool { return hit(t, store, monday, caller, meter) }), 10)

	// Every ten seconds for ten minutes: the technique dates the same entry again and never forgets it.
	trap.limit = 3
	every := func(i int) algorithm.Instant { return monday + seconds(10*i) }
	expect(t, "61 repeats, by the technique", count(61, func(i int) bool { return trap.hit("slow", every(i), "id") }), 61)
	expect(t, "entries of the technique's log", number(t, server.Addr, "ZCARD", "slow"), 1)
	meter, caller = slidingLog(3, time.Minute), stranger()
	expect(t, "61 repeats of one caller", count(61, func(i int) bool { return hit(t, store, every(i), caller, meter) }), 31)

	// With ids that are recognised as such: the limit, and the budget for duplicates, in every window.
	dedup, err := algorithm.DedupTerms{TTL: 10 * time.Minute, MaxReplays: 1, Budget: 2, Beside: algorithm.Limit{Algorithm: algorithm.FixedWindow, Window: time.Minute}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	repeat := func(now algorithm.Instant, who storage.Subject, m *algorithm.Meter, id string) bool {
		ticket := one(now, who, charge(m, 1))
		ticket.Groups[0].Dedup, ticket.Groups[0].Call = dedup, hasher.Call(id)
		return take(t, store, ticket).Allowed
	}
	meter, caller = slidingLog(10, time.Minute), stranger()
	expect(t, "50 calls with one id", count(50, func(int) bool { return repeat(monday, caller, meter, "id") }), 12)
	caller = stranger()
	expect(t, "50 ids sent four times", count(200, func(i int) bool { return repeat(monday, caller, meter, fmt.Sprint(i/4)) }), 12)
	meter, caller = slidingLog(3, time.Minute), stranger()
	if n := count(600, func(i int) bool { return repeat(monday+seconds(i), caller, meter, "id") }); n > 11*(3+2) {
		t.Errorf("600 repeats in ten minutes: %d passed", n)
	}
}

// A random generator with the same seed in every run gives all requests of a second the same name.
func TestTrapRandomMembers(t *testing.T) {
	server, store := serve(t)
	trap := useTechnique(t, server.Addr, "random_member", 10, time.Minute)
	expect(t, "50 calls in one second, by the technique", count(50, func(int) bool { return trap.hit("log", monday) }), 50)
	expect(t, "entries of the technique's log", number(t, server.Addr, "ZCARD", "log"), 1)
	meter, caller := slidingLog(10, time.Minute), stranger()
	expect(t, "50 calls at one instant", count(50, func(int) bool { return hit(t, store, monday, caller, meter) }), 10)
	// base and ten entries
	expect(t, "elements of the log", number(t, server.Addr, "LLEN", redisstore.ListKey(prefix, caller, meter)), 11)
}

// tostring keeps 14 digits, but a clock in microseconds has 16.
func TestTrapClockAsText(t *testing.T) {
	server, store := serve(t)
	trap := useTechnique(t, server.Addr, "tostring_clock", 10, time.Second)
	expect(t, "50 calls a microsecond apart, by the technique",
		count(50, func(i int) bool { return trap.hit("log", monday+algorithm.Instant(i)) }), 50)
	meter, caller := slidingLog(10, time.Second), stranger()
	expect(t, "50 calls a microsecond apart",
		count(50, func(i int) bool { return hit(t, store, monday+algorithm.Instant(i), caller, meter) }), 10)

	for _, m := range []*algorithm.Meter{
		slidingLog(1, time.Second),
		algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 1, Window: time.Second}.MustCompile(),
		algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 1, Window: time.Second}.MustCompile(),
	} {
		caller := stranger()
		if !hit(t, store, monday, caller, m) {
			t.Fatalf("%v: the first call was denied", m)
		}
		denied := take(t, store, one(monday+1, caller, charge(m, 1)))
		if got, want := denied.Decisions[0].RetryAfter, time.Second-time.Microsecond; denied.Allowed || got != want {
			t.Errorf("%v, a microsecond later: allowed %v, retry after %v, want a denial and %v", m, denied.Allowed, got, want)
		}
		if early := monday + seconds(1) - 1; hit(t, store, early, caller, m) {
			t.Errorf("%v: passed a microsecond early", m)
		}
		if !hit(t, store, monday+seconds(1), caller, m) {
			t.Errorf("%v: denied at the promised instant", m)
		}
	}
}

// A limiter that records before counting stores what it denies: a flooding client uses memory and stays
// denied.
func TestTrapAddThenCount(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	server, store := serve(t)
	const calls = 600
	trap := useTechnique(t, server.Addr, "add_then_count", 10, time.Minute)
	meter, caller := slidingLog(10, time.Minute), stranger()
	key := redisstore.ListKey(prefix, caller, meter)
	member := 0
	hitTrap := func(now algorithm.Instant) bool {
		member++
		return trap.hit("log", now, strconv.Itoa(member))
	}
	// One request a second.
	each := func(i int) algorithm.Instant { return monday + seconds(i) }
	expect(t, "600 calls in ten minutes, by the technique", count(calls, func(i int) bool { return hitTrap(each(i)) }), 10)
	expect(t, "600 calls in ten minutes", count(calls, func(i int) bool { return hit(t, store, each(i), caller, meter) }), 100)

	// A burst.
	now := each(calls + 3600)
	count(10, func(int) bool { hitTrap(now); return hit(t, store, now, caller, meter) })
	trapBefore, before := number(t, server.Addr, "MEMORY", "USAGE", "log"), number(t, server.Addr, "MEMORY", "USAGE", key)
	expect(t, "calls above the limit that pass", count(calls, func(int) bool { hitTrap(now); return hit(t, store, now, caller, meter) }), 0)
	if after := number(t, server.Addr, "MEMORY", "USAGE", "log"); after < 10*trapBefore {
		t.Errorf("%d denied calls grew the technique's log only from %d to %d bytes", calls, trapBefore, after)
	}
	expect(t, "bytes of our log after the denied calls", number(t, server.Addr, "MEMORY", "USAGE", key), before)
	expect(t, "elements of our log", number(t, server.Addr, "LLEN", key), 11)
}

// Windows that are checked one after the other are charged one after the other, denied or not.
func TestTrapOneCallPerWindow(t *testing.T) {
	server, store := serve(t)
	minuteTrap := useTechnique(t, server.Addr, "check_then_add", 10, time.Minute)
	hourTrap := useTechnique(t, server.Addr, "check_then_add", 5, time.Hour)
	expect(t, "calls that pass both windows, by the technique", count(10, func(i int) bool {
		return minuteTrap.hit("minute", monday, strconv.Itoa(i)) && hourTrap.hit("hour", monday, strconv.Itoa(i))
	}), 5)
	expect(t, "calls the technique charged to the minute", number(t, server.Addr, "ZCARD", "minute"), 10)

	minute, hour, caller := slidingLog(10, time.Minute), slidingLog(5, time.Hour), stranger()
	expect(t, "calls that pass both windows", count(10, func(int) bool {
		return take(t, store, one(monday, caller, charge(minute, 1), charge(hour, 1))).Allowed
	}), 5)
	expect(t, "calls charged to the minute", int(used(t, store, monday, caller, minute)), 5)
	expect(t, "calls charged to the hour", int(used(t, store, monday, caller, hour)), 5)
}

// An estimate is fractional: a request passes only if it fits, not while anything at all is left.
func TestTrapEstimateBelowLimit(t *testing.T) {
	server, store := serve(t)
	const limit = 10
	window := 10 * time.Second
	length := window.Microseconds()
	start := monday - monday%algorithm.Instant(length)
	trap := useTechnique(t, server.Addr, "estimate_below_limit", limit, window)
	meter := algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: limit, Window: window}.MustCompile()
	caller := stranger()

	// worst returns the highest estimate, times the window, right after a request that passed.
	worst := func(pass func(algorithm.Instant) bool) (most int64) {
		previous := int64(count(limit, func(int) bool { return pass(start) }))
		current := int64(0)
		for gone := int64(0); gone < length; gone += 17_389 {
			if pass(start + algorithm.Instant(length+gone)) {
				current++
				most = max(most, previous*(length-gone)+current*length)
			}
		}
		return most
	}
	if most := worst(func(now algorithm.Instant) bool { return trap.hit("counter", now) }); most <= limit*length {
		t.Errorf("the technique's estimate never passed the limit: at most %d of %d", most, limit*length)
	}
	most := worst(func(now algorithm.Instant) bool { return hit(t, store, now, caller, meter) })
	if most > limit*length || most == 0 {
		t.Errorf("estimate %d of %d: must be at most the limit, and above nothing", most, limit*length)
	}
}

// A limiter that admits requests when it cannot answer has no limit when it matters.
func TestTrapErrorsAllow(t *testing.T) {
	server, store := serve(t)
	meter, caller := slidingLog(10, time.Minute), stranger()
	trap := useTechnique(t, server.Addr, "check_then_add", 10, time.Minute)
	failOpen := func(i int) bool {
		reply, err := redistest.Command(trap.addr, "EVAL", trap.text, "1", "log",
			fmt.Sprint(monday), fmt.Sprint(trap.window.Microseconds()), "10", strconv.Itoa(i))
		return err != nil || reply == "1"
	}
	expect(t, "calls the technique lets pass while Redis answers", count(50, failOpen), 10)
	expect(t, "calls that pass while Redis answers", count(50, func(int) bool { return hit(t, store, monday, caller, meter) }), 10)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	expect(t, "calls the technique lets pass without Redis", count(50, failOpen), 50)
	for range 50 {
		var out storage.Outcome
		err := store.Take(t.Context(), one(monday, caller, charge(meter, 1)), &out)
		if !errors.Is(err, storage.ErrUnavailable) || out.Allowed {
			t.Fatalf("without Redis: allowed %v, error %v; want an error that wraps ErrUnavailable", out.Allowed, err)
		}
	}
}

// number sends a command whose reply is an integer.
func number(t testing.TB, addr string, args ...string) int {
	t.Helper()
	n, err := strconv.Atoi(ask(t, addr, args...))
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return n
}
