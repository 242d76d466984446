package redisstore_test

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// calls returns how often the server has executed a command.
func calls(t testing.TB, addr, command string) int {
	t.Helper()
	found := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+)`).FindStringSubmatch(ask(t, addr, "INFO", "commandstats"))
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(found[1])
	return n
}

// atOnce starts n callers together and waits for all of them.
func atOnce(n int, call func(i int)) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			call(i)
		})
	}
	close(start)
	wg.Wait()
}

func spacious() *algorithm.Meter {
	return algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: algorithm.MaxCount, Window: algorithm.MaxWindow}.MustCompile()
}

// A single caller takes one round trip for each request, and the script's text is sent once. The expiry of its key is
// set once.
func TestLoneCallerTakesOneRoundTrip(t *testing.T) {
	server, store := serve(t)
	ask(t, server.Addr, "CONFIG", "RESETSTAT")
	const n = 200
	who, m := stranger(), spacious()
	for range n {
		hit(t, store, 0, who, m)
	}
	if s := store.Stats(); s != (redisstore.Stats{Tickets: n, Runs: n, NoScript: 1}) {
		t.Errorf("%+v, want %d tickets, as many runs, and the text once", s, n)
	}
	expect(t, "EVALSHA", calls(t, server.Addr, "evalsha"), n)
	expect(t, "EVAL", calls(t, server.Addr, "eval"), 1)
	sets := calls(t, server.Addr, "set")
	expect(t, "SET and SETRANGE", sets+calls(t, server.Addr, "setrange"), n)
	if sets > 2 { // the window may have ended in between
		t.Errorf("the expiry was set by %d of %d writes, want only the first of each window", sets, n)
	}
}

// Callers that would wait anyway share runs. A run is bounded, so no caller waits long behind one.
func TestCallersShareRuns(t *testing.T) {
	server, store := serve(t)
	who, m := stranger(), spacious()
	hit(t, store, 0, who, m)
	ask(t, server.Addr, "CONFIG", "RESETSTAT")
	before := store.Stats()
	const n = 8 * redisstore.MaxRunTickets
	store.SlowPace()
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	var gathered sync.WaitGroup
	gathered.Go(func() { atOnce(n, func(int) { hit(t, store, 0, who, m) }) })
	const lone = redisstore.LeastRuns // runs that left before others could gather
	await(t, "all callers to wait", func() bool {
		return store.Waiting() == n-int(store.Stats().Tickets-before.Tickets) && store.Stats().Runs-before.Runs == lone
	})
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	gathered.Wait()
	s := store.Stats()
	runs, tickets := int(s.Runs-before.Runs), int(s.Tickets-before.Tickets)
	expect(t, "tickets", tickets, n)
	if least, most := n/redisstore.MaxRunTickets, n/redisstore.MaxRunTickets+lone+1; runs < least || runs > most {
		t.Errorf("%d callers took %d runs, want from %d to %d", n, runs, least, most)
	}
	expect(t, "EVALSHA", calls(t, server.Addr, "evalsha"), runs)
	expect(t, "used", int(used(t, store, 0, who, m)), n+1)
}

// The number of charges in a run is bounded too.
func TestRunsAreBoundedByCharges(t *testing.T) {
	server, store := serve(t)
	hit(t, store, 0, stranger(), spacious())
	before := store.Stats()
	const n = 100
	var tickets [n]*storage.Ticket
	for i := range tickets {
		tickets[i] = one(0, stranger())
		for j := range storage.MaxCharges {
			l := spacious().Limit()
			l.Ordinal = uint8(j)
			tickets[i].Groups[0].Charges = append(tickets[i].Groups[0].Charges, charge(l.MustCompile(), 1))
		}
	}
	store.SlowPace()
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() { atOnce(n, func(i int) { take(t, store, tickets[i]) }) })
	await(t, "two runs to leave and the rest to wait", func() bool {
		s := store.Stats()
		return s.Runs-before.Runs == redisstore.LeastRuns && store.Waiting() == n-int(s.Tickets-before.Tickets)
	})
	waiting := store.Waiting()
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	const perRun = redisstore.MaxRunItems / storage.MaxCharges
	if runs, least := int(store.Stats().Runs-before.Runs), 2+(waiting+perRun-1)/perRun; runs < least {
		t.Errorf("%d waiting tickets of %d charges took %d runs, want at least %d", waiting, storage.MaxCharges, runs-2, least-2)
	}
}

// A server may forget the script at any moment: no client notices, and nothing is charged twice.
func TestScriptFlush(t *testing.T) {
	server, store := serve(t)
	who, m := stranger(), spacious()
	for range 20 {
		ask(t, server.Addr, "SCRIPT", "FLUSH")
		hit(t, store, 0, who, m)
	}
	expect(t, "texts sent", int(store.Stats().NoScript), 20)
	expect(t, "used", int(used(t, store, 0, who, m)), 20)

	var passed atomic.Int64
	var stop atomic.Bool
	var flusher sync.WaitGroup
	flusher.Go(func() {
		for !stop.Load() {
			ask(t, server.Addr, "SCRIPT", "FLUSH")
		}
	})
	few := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 700, Window: algorithm.MaxWindow}.MustCompile()
	atOnce(64, func(int) {
		for i := 0; i < 50 || store.Stats().NoScript <= 20; i++ { // until it was forgotten during a request
			if hit(t, store, 0, who, few) {
				passed.Add(1)
			}
		}
	})
	stop.Store(true)
	flusher.Wait()
	expect(t, "calls that passed", int(passed.Load()), 700)
	expect(t, "used", int(used(t, store, 0, who, few)), 700)
}

// A caller that gives up while its ticket is queued is not charged; a ticket that was sent may have been.
func TestCancelledCalls(t *testing.T) {
	server, store := serve(t)
	who, m := stranger(), spacious()
	hit(t, store, 0, who, m)
	store.SlowPace()
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	send := func(ctx context.Context, err *error) {
		wg.Go(func() {
			var out storage.Outcome
			*err = store.Take(ctx, one(0, who, charge(m, 1)), &out)
			if *err == nil && !out.Allowed {
				*err = errors.New("denied")
			}
		})
	}
	sent := store.Stats().Runs
	sentCtx, cancelSent := context.WithCancel(t.Context())
	var errs [7]error
	for i := range redisstore.LeastRuns { // keeps all runs in flight
		ctx := t.Context()
		if i == 0 {
			ctx = sentCtx
		}
		send(ctx, &errs[i])
		await(t, "a run to leave", func() bool { return store.Stats().Runs == sent+int64(i)+1 })
	}
	queuedCtx, cancelQueued := context.WithCancel(t.Context())
	for i := 2; i < len(errs); i++ {
		ctx := t.Context()
		if i%2 == 0 {
			ctx = queuedCtx
		}
		send(ctx, &errs[i])
	}
	await(t, "the rest to wait", func() bool { return store.Waiting() == 5 })
	cancelQueued()
	await(t, "three to leave the queue", func() bool { return store.Waiting() == 2 })
	cancelSent()
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	for i, err := range errs {
		say := ""
		switch {
		case i == 0:
			say = "gave up" // unless the reply was faster
		case i >= 2 && i%2 == 0:
			say = "not sent"
		}
		switch {
		case err == nil && (say == "" || i == 0):
		case err == nil || say == "" || !strings.Contains(err.Error(), say):
			t.Errorf("caller %d: error %v, want %q", i, err, say)
		case !errors.Is(err, context.Canceled) || !errors.Is(err, storage.ErrUnavailable):
			t.Errorf("caller %d: error %v must wrap Canceled and ErrUnavailable", i, err)
		}
	}
	// The first request, the two that were sent, and the two that stayed.
	expect(t, "used", int(used(t, store, 0, who, m)), 5)
}

// Callers that cancel at any time do not affect the answers of their neighbours.
func TestCancellingNeighbours(t *testing.T) {
	_, store := serve(t)
	who, m := stranger(), spacious()
	var passed, unsure, unsent atomic.Int64
	atOnce(100, func(i int) {
		for j := range 30 {
			ctx, cancel := t.Context(), func() {}
			if i%2 == 0 {
				ctx, cancel = context.WithTimeout(ctx, time.Duration(1+(i*31+j*17)%1500)*time.Microsecond)
			}
			var out storage.Outcome
			err := store.Take(ctx, one(0, who, charge(m, 1)), &out)
			cancel()
			switch {
			case err == nil && out.Allowed:
				passed.Add(1)
			case err == nil || i%2 == 1:
				t.Errorf("caller %d: allowed %v, error %v", i, out.Allowed, err)
			case strings.Contains(err.Error(), "not sent"), strings.Contains(err.Error(), "not asked"):
				unsent.Add(1)
			default:
				unsure.Add(1)
			}
		}
	})
	least, most := passed.Load(), passed.Load()+unsure.Load()
	if n := used(t, store, 0, who, m); n < least || n > most {
		t.Errorf("%d used, but %d passed, %d may have and %d were not sent", n, least, unsure.Load(), unsent.Load())
	}
	if unsure.Load()+unsent.Load() == 0 {
		t.Error("nobody gave up, so nothing was tested")
	}
	t.Logf("%d passed, %d gave up on the reply, %d before they were sent", least, unsure.Load(), unsent.Load())
}
