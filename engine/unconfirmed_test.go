package engine_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

const permitsAndTokens = `
rules:
  - {name: permits, key: [], on_store_error: deny, limits: [{concurrent: 3, ttl: 1h}]}
  - {name: tokens, key: [], on_store_error: deny, reserve: {ttl: 1h}, limits: [{rate: 100/360d, algorithm: fixed_window}]}
`

// A faultStand is an engine on a Redis that fails, and another on the same Redis with a longer timeout.
type faultStand struct {
	t       *testing.T
	server  *redistest.Server
	cut     atomic.Bool // connections of the engine end when a reply arrives
	engine  *engine.Engine
	witness *engine.Engine
}

func newFaultStand(t *testing.T, around func(breakerStore) penstock.Store) *faultStand {
	t.Helper()
	s := &faultStand{t: t, server: redistest.Start(t)}
	store := newHastyRedis(t, redisstore.Options{
		Addresses: []string{s.server.Addr}, Timeout: 50 * time.Millisecond, ConnectTimeout: patience,
		Dial: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			conn, err := d.DialContext(ctx, "tcp", addr)
			return &cutConn{conn, &s.cut}, err
		},
	})
	s.engine = newEngine(t, permitsAndTokens, engine.Options{Store: around(store)})
	s.witness = newEngine(t, permitsAndTokens, engine.Options{Store: newRedis(t, s.server, "pen:")})
	return s
}

// newHastyRedis opens a store with a timeout that is shorter than connecting may take on a busy machine.
func newHastyRedis(t *testing.T, o redisstore.Options) (store *redisstore.Store) {
	t.Helper()
	await(t, "a connection", func() bool {
		var err error
		store, err = redisstore.Open(o)
		return err == nil
	})
	t.Cleanup(func() { store.Close() })
	return store
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still waiting after a minute: %s", what)
		}
	}
}

// A cutConn closes when a reply arrives, if cut is set.
type cutConn struct {
	net.Conn
	cut *atomic.Bool
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.cut.Load() {
		c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

type breakerStore interface {
	penstock.Store
	storage.Settler
}

func asItIs(s breakerStore) penstock.Store { return s }

func mustSignal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reserve makes the engine take a permit and 10 tokens, however often it has to ask.
func (s *faultStand) reserve() (reservation string) {
	s.t.Helper()
	await(s.t, "a permit", func() bool {
		var v penstock.Verdict
		err := s.engine.Decide(s.t.Context(), &penstock.Call{Cost: 10, Reserve: true}, &v)
		reservation = v.Reservation
		return err == nil
	})
	if reservation == "" {
		s.t.Fatal("nothing was reserved")
	}
	return reservation
}

// quiet waits until nothing is sent again, and returns what is held then.
func (s *faultStand) quiet() (permits, tokens int64) {
	s.t.Helper()
	await(s.t, "confirmations", func() bool { return s.engine.Stats().Unconfirmed == 0 })
	if n := s.engine.Stats().Dropped; n != 0 {
		s.t.Errorf("%d dropped", n)
	}
	return holds(s.t, s.witness)
}

// exactly checks that all permits are free: three requests may run, and no more.
func (s *faultStand) exactly() {
	s.t.Helper()
	allowed := 0
	for range 6 {
		var v penstock.Verdict
		if err := s.witness.Decide(s.t.Context(), &penstock.Call{Cost: 1}, &v); err != nil {
			s.t.Fatal(err)
		}
		if v.Allowed {
			allowed++
		}
	}
	if allowed != 3 {
		s.t.Errorf("%d of 6 run at the same time, want 3", allowed)
	}
}

// paused does something while Redis does not answer.
func (s *faultStand) paused(do func()) {
	s.t.Helper()
	mustSignal(s.t, s.server.Pause())
	do()
	time.Sleep(100 * time.Millisecond)
	mustSignal(s.t, s.server.Resume())
}

// disconnected does something while every connection ends before its reply is read.
func (s *faultStand) disconnected(do func()) {
	s.cut.Store(true)
	do()
	s.cut.Store(false)
}

func (s *faultStand) faults() map[string]func(func()) {
	return map[string]func(func()){"paused": s.paused, "disconnected": s.disconnected}
}

func TestUnconfirmedConclusions(t *testing.T) {
	s := newFaultStand(t, asItIs)
	for fault, during := range s.faults() {
		for verb, tokens := range map[penstock.Verb]int64{penstock.Release: 0, penstock.Settle: 7} {
			_, before := s.quiet()
			names := []string{s.reserve(), s.reserve(), s.reserve()}
			during(func() {
				for _, name := range names {
					err := s.engine.Conclude(t.Context(), &penstock.Conclusion{Reservation: name, Verb: verb, Cost: 7}, new(penstock.Verdict))
					if !errors.Is(err, penstock.ErrUnavailable) {
						t.Errorf("%s, %v: error %v, want ErrUnavailable", fault, verb, err)
					}
				}
			})
			permits, after := s.quiet()
			if permits != 0 || after-before != 3*tokens {
				t.Errorf("%s, %v: %d permits held by no request, %d tokens charged, want %d", fault, verb, permits, after-before, 3*tokens)
			}
		}
	}
	s.exactly()
}

// lose makes the engine take something in each possible way, and lose the reply.
func lose(t *testing.T, e *engine.Engine) {
	t.Helper()
	call := penstock.Call{Cost: 10, Reserve: true}
	errs := make([]error, 2)
	errs[0] = e.Decide(t.Context(), &call, new(penstock.Verdict))
	e.DecideTogether(t.Context(), []penstock.Call{call}, make([]penstock.Verdict, 1), errs[1:])
	for i, err := range errs {
		if !errors.Is(err, penstock.ErrUnavailable) {
			t.Errorf("%d: error %v, want ErrUnavailable", i, err)
		}
	}
}

func TestLostTakes(t *testing.T) {
	s := newFaultStand(t, asItIs)
	for fault, during := range s.faults() {
		during(func() { lose(t, s.engine) })
		if permits, tokens := s.quiet(); permits != 0 || tokens != 0 {
			t.Errorf("%s: %d permits and %d tokens held by no request", fault, permits, tokens)
		}
	}
	s.exactly()
}

// A silentReleases store confirms releases of lost tickets and does not send them.
type silentReleases struct{ breakerStore }

func (s silentReleases) Settle(ctx context.Context, what *storage.Settlement, out *storage.SettleOutcome) error {
	if what.Lost {
		return nil
	}
	return s.breakerStore.Settle(ctx, what, out)
}

// The faults lose permits if nothing is done about it.
func TestLostTakesAreNoticed(t *testing.T) {
	for _, fault := range []string{"paused", "disconnected"} {
		s := newFaultStand(t, func(s breakerStore) penstock.Store { return silentReleases{s} })
		s.reserve() // so that the script is known
		s.faults()[fault](func() { lose(t, s.engine) })
		await(t, fault+": a permit that no request holds", func() bool {
			permits, _ := s.quiet()
			return permits > 1
		})
	}
}

// A lateTaker sends tickets only after they were released as lost.
type lateTaker struct {
	breakerStore
	ticket   storage.Ticket
	forgets  bool // to report that they are lost
	arrivals chan error
}

func (s *lateTaker) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	s.ticket = *cloned(t)
	return fmt.Errorf("%w: for the test", penstock.ErrUnavailable)
}

func (s *lateTaker) Settle(ctx context.Context, what *storage.Settlement, out *storage.SettleOutcome) error {
	what.Lost = !s.forgets
	if err := s.breakerStore.Settle(ctx, what, out); errors.Is(err, penstock.ErrUnavailable) {
		return err
	}
	s.arrivals <- s.breakerStore.Take(context.Background(), &s.ticket, new(storage.Outcome))
	return nil
}

// A take that runs in Redis after its release takes nothing.
func TestTakeAfterItsRelease(t *testing.T) {
	server := redistest.Start(t)
	for _, sabotaged := range []bool{false, true} {
		prefix := fmt.Sprintf("p%v:", sabotaged)
		witness := newEngine(t, permitsAndTokens, engine.Options{Store: newRedis(t, server, prefix)})
		store := &lateTaker{breakerStore: newRedis(t, server, prefix), forgets: sabotaged, arrivals: make(chan error, 2)}
		e := newEngine(t, permitsAndTokens, engine.Options{Store: store})
		_ = e.Decide(t.Context(), &penstock.Call{Cost: 10, Reserve: true}, new(penstock.Verdict))
		for range 2 { // one for each rule
			if err := <-store.arrivals; !sabotaged && !errors.Is(err, penstock.ErrClosed) {
				t.Errorf("a ticket after its release: error %v, want ErrClosed", err)
			}
		}
		permits, tokens := holds(t, witness)
		if held := permits != 0 || tokens != 0; held != sabotaged {
			t.Errorf("sabotaged %v: %d permits and %d tokens held by no request", sabotaged, permits, tokens)
		}
	}
}

// An unsettlingStore takes tickets and does not confirm settlements.
type unsettlingStore struct {
	*memstore.Store
	err     atomic.Pointer[error] // nil: it confirms
	settled atomic.Int64
}

func (s *unsettlingStore) Settle(ctx context.Context, what *storage.Settlement, out *storage.SettleOutcome) error {
	if err := s.err.Load(); err != nil {
		return *err
	}
	s.settled.Add(1)
	return s.Store.Settle(ctx, what, out)
}

func newUnsettlingStore(t *testing.T, err error) *unsettlingStore {
	s := &unsettlingStore{Store: newMemory(t)}
	s.err.Store(&err)
	return s
}

var errSilent = fmt.Errorf("%w: for the test", penstock.ErrUnavailable)

func TestUnconfirmedUntilExpired(t *testing.T) {
	var now atomic.Int64
	now.Store(int64(beginning))
	store := newUnsettlingStore(t, errSilent)
	e := newEngine(t, `rules: [{name: permits, key: [], limits: [{concurrent: 3, ttl: 1h}]}]`, engine.Options{
		Store: store, Now: func() penstock.Instant { return penstock.Instant(now.Load()) },
	})
	var v penstock.Verdict
	if err := e.Decide(t.Context(), &penstock.Call{Cost: 1}, &v); err != nil {
		t.Fatal(err)
	}
	name := v.Reservation
	for _, step := range []struct {
		verb penstock.Verb
		want int64 // sent again
	}{{penstock.Renew, 0}, {penstock.Release, 1}, {penstock.Release, 1}, {penstock.Settle, 1}} {
		if err := e.Conclude(t.Context(), &penstock.Conclusion{Reservation: name, Verb: step.verb}, &v); !errors.Is(err, penstock.ErrUnavailable) {
			t.Errorf("%v: error %v", step.verb, err)
		}
		if got := e.Stats().Unconfirmed; got != step.want {
			t.Errorf("%v: %d are sent again, want %d", step.verb, got, step.want)
		}
	}
	now.Add(int64(time.Hour / time.Microsecond))
	await(t, "the end of the permit", func() bool { return e.Stats() == engine.Stats{Dropped: 1} })
}

func TestRefusalsAreFinal(t *testing.T) {
	for _, refusal := range []error{penstock.ErrClosed, penstock.ErrNoReservation} {
		store := newUnsettlingStore(t, refusal)
		e := newEngine(t, permitsAndTokens, engine.Options{Store: store})
		var v penstock.Verdict
		if err := e.Decide(t.Context(), &penstock.Call{Cost: 1, Reserve: true}, &v); err != nil {
			t.Fatal(err)
		}
		conclusion := penstock.Conclusion{Reservation: v.Reservation, Verb: penstock.Settle, Cost: 1}
		if err := e.Conclude(t.Context(), &conclusion, &v); !errors.Is(err, refusal) {
			t.Errorf("error %v, want %v", err, refusal)
		}
		if n := e.Stats().Unconfirmed; n != 0 {
			t.Errorf("%v: %d are sent again", refusal, n)
		}
		silent := errSilent
		store.err.Store(&silent)
		_ = e.Conclude(t.Context(), &conclusion, &v)
		if n := e.Stats().Unconfirmed; n != 2 {
			t.Errorf("%d are sent again, want one for each rule", n)
		}
		store.err.Store(&refusal)
		await(t, "a refusal", func() bool { return e.Stats() == engine.Stats{} })
	}
}

func TestUnconfirmedAreBounded(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	store := newUnsettlingStore(t, errSilent)
	e := newEngine(t, `rules: [{name: permits, key: [user], limits: [{concurrent: 30000, ttl: 1h}]}]`, engine.Options{Store: store})
	var v penstock.Verdict
	for i := range 10_007 {
		if err := e.Decide(t.Context(), &penstock.Call{Cost: 1, Attributes: attributes("user", fmt.Sprint(i))}, &v); err != nil {
			t.Fatal(err)
		}
		_ = release(t, e, v.Reservation)
	}
	if got, want := e.Stats(), (engine.Stats{Unconfirmed: 10_000, Dropped: 7}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	store.err.Store(nil)
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := store.settled.Load(); n != 10_000 {
		t.Errorf("%d sent before the end, want 10,000", n)
	}
}

func TestCloseGivesUp(t *testing.T) {
	e := newEngine(t, permitsAndTokens, engine.Options{Store: newUnsettlingStore(t, errSilent)})
	var v penstock.Verdict
	if err := e.Decide(t.Context(), &penstock.Call{Cost: 1}, &v); err != nil {
		t.Fatal(err)
	}
	name := v.Reservation
	_ = release(t, e, name)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := e.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want DeadlineExceeded", err)
	}
	await(t, "the end", func() bool { return e.Stats() == engine.Stats{Dropped: 1} })
	_ = release(t, e, name)
	if got, want := e.Stats(), (engine.Stats{Dropped: 2}); got != want {
		t.Errorf("after Close: %+v, want %+v", got, want)
	}
}
