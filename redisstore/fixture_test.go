package redisstore_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

const prefix = "pen:" // of every key, unless an option changes it

// monday is the instant at which traces with their own clock begin: odd to the last digit.
const monday = algorithm.Instant(1794704739699202)

// dial opens a store without a user account, for servers that lose theirs because they are restarted or
// replaced.
func dial(t testing.TB, o redisstore.Options) *redisstore.Store {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	s, err := redisstore.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// dialHasty opens a store with less time than a busy machine may take to connect.
func dialHasty(t testing.TB, o redisstore.Options) (s *redisstore.Store) {
	t.Helper()
	await(t, "a connection", func() bool {
		var err error
		s, err = redisstore.Open(o)
		return err == nil
	})
	t.Cleanup(func() { s.Close() })
	return s
}

// serve starts a server and opens a store on it.
func serve(t testing.TB, args ...string) (*redistest.Server, *redisstore.Store) {
	t.Helper()
	server := redistest.Start(t, args...)
	return server, dial(t, redisstore.Options{Addresses: []string{server.Addr}})
}

// ask sends one command that must succeed.
func ask(t testing.TB, addr string, args ...string) string {
	t.Helper()
	reply, err := redistest.Command(addr, args...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

var (
	hasher    = storage.NewHasher("redisstore tests")
	strangers atomic.Int64
)

// stranger returns a subject that no store has seen.
func stranger() storage.Subject {
	return hasher.Subject("test", fmt.Sprint(strangers.Add(1)))
}

// one returns a ticket of a single group that can wait as long as it takes.
func one(now algorithm.Instant, who storage.Subject, charges ...algorithm.Charge) *storage.Ticket {
	return &storage.Ticket{
		Now: now, MaxDelay: algorithm.AnyDelay, Nonce: uint64(strangers.Add(1)),
		Groups: []storage.Group{{Subject: who, Charges: charges}},
	}
}

func charge(m *algorithm.Meter, cost int64) algorithm.Charge {
	return algorithm.Charge{Meter: m, Cost: cost}
}

// take decides a ticket that must be decidable.
func take(t testing.TB, s storage.Store, ticket *storage.Ticket) storage.Outcome {
	t.Helper()
	var out storage.Outcome
	if err := s.Take(t.Context(), ticket, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// hit charges one request of cost 1 and reports whether it passed.
func hit(t testing.TB, s storage.Store, now algorithm.Instant, who storage.Subject, m *algorithm.Meter) bool {
	t.Helper()
	return take(t, s, one(now, who, charge(m, 1))).Allowed
}

// used peeks at how much of the limit is consumed.
func used(t testing.TB, s storage.Store, now algorithm.Instant, who storage.Subject, m *algorithm.Meter) int64 {
	t.Helper()
	return take(t, s, one(now, who, charge(m, 0))).Decisions[0].Used
}

// await polls until done; it ends early only with the whole test run.
func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for !done() {
		if time.Now().After(end) {
			t.Fatalf("still waiting after a minute: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// eachKind returns a limit of three of every kind.
func eachKind(window time.Duration) []*algorithm.Meter {
	limits := []algorithm.Limit{
		{Algorithm: algorithm.FixedWindow, Count: 3, Window: window},
		{Algorithm: algorithm.FixedWindow, Count: 3, Period: algorithm.Year},
		{Algorithm: algorithm.SlidingWindowCounter, Count: 3, Window: window},
		{Algorithm: algorithm.TokenBucket, Count: 3, Window: window},
		{Algorithm: algorithm.TokenBucket, Count: 3, Window: window, Refill: algorithm.Interval},
		{Algorithm: algorithm.LeakyBucket, Count: 3, Window: window, Queue: 2},
		{Algorithm: algorithm.SlidingWindowLog, Count: 3, Window: window},
		{Algorithm: algorithm.Concurrency, Count: 3, Window: window},
	}
	meters := make([]*algorithm.Meter, len(limits))
	for i, l := range limits {
		meters[i] = l.MustCompile()
	}
	return meters
}

// keyOf returns the key that holds the meter's state.
func keyOf(who storage.Subject, m *algorithm.Meter) string {
	if m.Kind.Fixed() {
		return redisstore.SubjectKey(prefix, who)
	}
	return redisstore.ListKey(prefix, who, m)
}

// keysOf returns all keys of a subject on the server.
func keysOf(t testing.TB, addr string, who storage.Subject) []string {
	t.Helper()
	reply := ask(t, addr, "KEYS", prefix+"{"+who.String()+"}*")
	if reply == "" {
		return nil
	}
	return strings.Split(reply, "\n")
}
