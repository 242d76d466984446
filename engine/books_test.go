package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// A branch is a node of its own on a Redis that others share.
type branch struct {
	t *testing.T
	*engine.Engine

	own, booked, unsure int64 // admitted: exactly, locally and to be charged, locally and maybe charged
}

// lateStore is a store with a hook that alters late charges.
type lateStore struct {
	*redisstore.Store
	tamper func(c *storage.LateCharge, send func(*storage.LateCharge) error) error // nil: charges pass unchanged
}

func (s *lateStore) ChargeLate(ctx context.Context, c *storage.LateCharge) error {
	send := func(c *storage.LateCharge) error { return s.Store.ChargeLate(ctx, c) }
	if s.tamper == nil {
		return send(c)
	}
	return s.tamper(c, send)
}

func newBranch(t *testing.T, server *redistest.Server, text string, tamper func(*storage.LateCharge, func(*storage.LateCharge) error) error) *branch {
	t.Helper()
	b := &branch{t: t, Engine: newEngine(t, text, engine.Options{
		Store: &lateStore{newRedis(t, server, ""), tamper}, Local: newMemory(t), Nodes: func() int { return 2 },
	})}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = b.Close(ctx)
	})
	return b
}

func (b *branch) decide(cost int64) (v penstock.Verdict, err error) {
	err = b.Decide(b.t.Context(), &penstock.Call{Cost: cost}, &v)
	switch {
	case !v.Allowed:
	case err == nil:
		b.own += cost
	case errors.Is(err, storage.ErrNotTaken):
		b.booked += cost
	default:
		b.unsure += cost
	}
	return v, err
}

// exact decides requests until the shared store answers.
func (b *branch) exact(cost int64) (v penstock.Verdict) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; {
		v, err := b.decide(cost)
		if err == nil {
			return v
		}
		if time.Now().After(end) {
			b.t.Fatalf("not exact within %v: %v", patience, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// lasting starts a Redis that keeps everything when it is killed.
func lasting(t *testing.T) *redistest.Server {
	return redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// allOf is one rule for all clients, whose window does not end during the test.
func allOf(limit int, algorithm, policy string) string {
	return fmt.Sprintf(`rules: [{name: all, key: [], on_store_error: %s, limits: [{rate: %d/30d, algorithm: %s}]}]`, policy, limit, algorithm)
}

// When Redis is killed, a node admits what was left at its last exact answer, and no more. Afterwards Redis
// is charged with what was admitted, up to the limit.
func TestOutageAdmitsWhatWasLeft(t *testing.T) {
	const limit = 10
	for _, algorithm := range []string{"fixed_window", "token_bucket", "sliding_window_counter", "sliding_window_log"} {
		for _, policy := range []string{"local", "{local: divided}"} {
			t.Run(algorithm+" "+policy, func(t *testing.T) {
				t.Parallel()
				server := lasting(t)
				text := allOf(limit, algorithm, policy)
				nodes := []*branch{newBranch(t, server, text, nil), newBranch(t, server, text, nil), newBranch(t, server, text, nil)}
				used := []int64{1, 7, 0} // when each node had its last exact answer; the last has none
				nodes[0].exact(1)
				for range 6 {
					nodes[1].exact(1)
				}
				must(t, server.Kill())
				for i, n := range nodes {
					for range 3 * limit {
						n.decide(1)
					}
					left := limit - used[i]
					if strings.HasSuffix(algorithm, "log") {
						left = limit - n.own
					}
					if policy != "local" {
						left = (left + 1) / 2
						if strings.HasSuffix(algorithm, "log") {
							left = max(0, limit/2-n.own)
						}
					}
					if got := n.booked + n.unsure; got != left {
						t.Errorf("node %d, which knew of %d of %d, admitted %d, want %d", i, used[i], limit, got, left)
					}
				}
				must(t, server.Restart())
				for i, n := range nodes {
					v := n.exact(0)
					if i == 0 && v.Decision.Used < min(limit, 7+n.booked) {
						t.Errorf("node 0 admitted %d that Redis was not charged with, and the first exact answer says %d used", n.booked, v.Decision.Used)
					}
				}
				want := min(limit, 7+nodes[0].booked+nodes[1].booked+nodes[2].booked)
				if got := nodes[0].exact(0).Decision.Used; got != want {
					t.Errorf("%d used in Redis, want %d", got, want)
				}
			})
		}
	}
}

// balance drives two nodes through an outage, and returns what is wrong with the books.
func balance(t *testing.T, algorithm string, tamper func(*storage.LateCharge, func(*storage.LateCharge) error) error) (complaint string) {
	server := lasting(t)
	text := allOf(10_000, algorithm, "local")
	a, b := newBranch(t, server, text, tamper), newBranch(t, server, text, tamper)
	for range 5 {
		a.exact(1)
		b.exact(1)
	}
	must(t, server.Kill())
	for range 8 {
		a.decide(2)
		b.decide(1)
	}
	must(t, server.Restart())
	a.exact(3)
	for _, n := range []*branch{a, b} {
		waits := func() int64 { return n.LateStats().Waiting }
		for end := time.Now().Add(patience); waits() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				return fmt.Sprintf("%d keys are not charged", waits())
			}
		}
	}
	if a.booked == 0 || b.booked == 0 {
		return "nothing was booked"
	}
	want := a.own + b.own + a.booked + b.booked
	if got := b.exact(0).Decision.Used; got != want {
		return fmt.Sprintf("%d used in Redis, want %d: %d decided there and %d charged afterwards", got, want, a.own+b.own, a.booked+b.booked)
	}
	return ""
}

var errLost = fmt.Errorf("%w: the reply was lost", penstock.ErrUnavailable)

// Each booked charge takes effect once, whatever is lost on the way.
func TestBooksAreBalanced(t *testing.T) {
	for _, algorithm := range []string{"fixed_window", "token_bucket", "sliding_window_counter", "sliding_window_log"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			if complaint := balance(t, algorithm, nil); complaint != "" {
				t.Error(complaint)
			}
			var lost atomic.Int64
			losing := func(c *storage.LateCharge, send func(*storage.LateCharge) error) error {
				if err := send(c); err != nil || lost.Add(1)%3 != 1 {
					return err
				}
				return errLost
			}
			if complaint := balance(t, algorithm, losing); complaint != "" {
				t.Errorf("with lost replies: %s", complaint)
			}
		})
	}
}

// The previous test would catch books that are not sent, and charges that take effect twice.
func TestBooksAreBalancedNotices(t *testing.T) {
	var nonce atomic.Uint64
	for name, tamper := range map[string]func(*storage.LateCharge, func(*storage.LateCharge) error) error{
		"forgets to charge": func(*storage.LateCharge, func(*storage.LateCharge) error) error { return nil },
		"charges twice": func(c *storage.LateCharge, send func(*storage.LateCharge) error) error {
			again := *c
			again.Nonce = nonce.Add(2) | 1
			return errors.Join(send(c), send(&again))
		},
	} {
		if balance(t, "fixed_window", tamper) == "" {
			t.Errorf("a node that %s was not noticed", name)
		}
	}
}

// Requests that timed out may have been charged, and are not charged again.
func TestTimeoutsAreNotChargedAgain(t *testing.T) {
	server := redistest.Start(t)
	store, err := redisstore.Open(redisstore.Options{Addresses: []string{server.Addr}, Timeout: 100 * time.Millisecond, ConnectTimeout: patience})
	must(t, err)
	t.Cleanup(func() { store.Close() })
	b := &branch{t: t, Engine: newEngine(t, allOf(1000, "fixed_window", "local"), engine.Options{Store: store, Local: newMemory(t)})}
	b.exact(1)
	must(t, server.Pause())
	for range 20 {
		b.decide(1)
	}
	must(t, server.Resume())
	own := b.own
	v := b.exact(1)
	if least := own + b.booked + 1; v.Decision.Used < least || v.Decision.Used > least+b.unsure {
		t.Errorf("%d used; decided there %d, booked %d, timed out %d", v.Decision.Used, own+1, b.booked, b.unsure)
	}
	if b.unsure == 0 {
		t.Error("no request timed out, so nothing was tested")
	}
}

// A refusingStore certainly charges nothing while it is down.
type refusingStore struct {
	waveringStore
	charges []storage.LateCharge
}

func (s *refusingStore) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	if s.down.Load() {
		return fmt.Errorf("%w: for the test", storage.ErrNotTaken)
	}
	return s.Store.Take(ctx, t, out)
}

func (s *refusingStore) ChargeLate(ctx context.Context, c *storage.LateCharge) error {
	if s.down.Load() {
		return fmt.Errorf("%w: for the test", storage.ErrNotTaken)
	}
	s.charges = append(s.charges, *c)
	return s.Store.ChargeLate(ctx, c)
}

// Only what the shared store would have counted is charged later, with its full limit, and only what still
// counts of it.
func TestWhatIsChargedAfterwards(t *testing.T) {
	const text = `
rules:
  - {name: plain, match: {path: /plain}, key: [], limits: [{rate: 40/1h, algorithm: fixed_window}, {rate: 50/1d, algorithm: sliding_window_log}]}
  - {name: divided, match: {path: /divided}, on_store_error: {local: divided}, key: [], limits: [{rate: 40/1h, algorithm: token_bucket}]}
  - {name: override, match: {path: /override}, key: [], limits: [{rate: 1/1h, algorithm: fixed_window}], overrides: [{match: {attributes: {plan: gold}}, limits: [{rate: 40/1h, algorithm: fixed_window}]}]}
  - {name: permits, match: {path: /permits}, key: [], limits: [{concurrent: 40, ttl: 1h}, {rate: 40/1h, algorithm: fixed_window}]}
  - {name: leaky, match: {path: /leaky}, key: [], limits: [{rate: 40/1h, queue: 40, algorithm: leaky_bucket}]}
  - {name: shadow, match: {path: /shadow}, mode: shadow, key: [], limits: [{rate: 40/1h, algorithm: fixed_window}]}
  - {name: ids, match: {path: /ids}, key: [], dedup: {ttl: 1h}, limits: [{rate: 40/1h, algorithm: fixed_window}]}
  - {name: leased, match: {path: /leased}, consistency: leased, key: [], limits: [{rate: 40/1h, algorithm: fixed_window}]}
  - {name: reserved, match: {path: /reserved}, key: [], reserve: {ttl: 10m}, limits: [{rate: 40/1h, algorithm: fixed_window}]}
  - {name: allow, match: {path: /allow}, on_store_error: allow, key: [], limits: [{rate: 40/1h, algorithm: fixed_window}]}
`
	for path, want := range map[string]string{
		"/plain": "plain:1h 6 plain:1d 6", "/divided": "divided 6", "/override": "override 6", "/permits": "permits:1h 6",
		"/leaky": "", "/shadow": "", "/ids": "ids 3", "/leased": "", "/reserved": "reserved 5", "/allow": "",
	} {
		t.Run(path, func(t *testing.T) {
			now := beginning
			store := &refusingStore{waveringStore: waveringStore{Store: newMemory(t)}}
			store.down.Store(true)
			snapshot := compile(t, text)
			e := newEngine(t, "", engine.Options{Store: store, Local: newMemory(t), Rules: engine.Fixed(snapshot), Nodes: func() int { return 2 }, Now: func() penstock.Instant { return now }})
			call := penstock.Call{Cost: 3, ID: "once", MaxDelay: time.Hour, Reserve: true, Attributes: attributes("path", path, "plan", "gold")}
			var v penstock.Verdict
			for range 2 {
				_ = e.Decide(t.Context(), &call, &v)
				if !v.Allowed {
					t.Fatal("denied")
				}
			}
			if path == "/reserved" { // one of the two comes to 5, the other to nothing
				must(t, e.Conclude(t.Context(), &penstock.Conclusion{Reservation: v.Reservation, Verb: penstock.Settle, Cost: 5}, &v))
			}
			store.down.Store(false)
			must(t, e.Close(t.Context()))
			if got := chargedAfterwards(snapshot, store.charges, now); got != want {
				t.Errorf("charged %q, want %q", got, want)
			}
			if s := e.LateStats(); s.Waiting != 0 || s.Dropped != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// chargedAfterwards sums up charges by policy, in the order of the rules.
func chargedAfterwards(s *rules.Snapshot, charges []storage.LateCharge, now penstock.Instant) string {
	var all []string
	for _, r := range s.Rules {
		limits, policies := r.Limits, r.Policies
		if len(r.Overrides) > 0 {
			limits, policies = r.Overrides[0].Limits, r.Overrides[0].Policies
		}
		for i, m := range limits {
			used := int64(0)
			for _, c := range charges {
				for _, a := range c.Amounts {
					if c.Subject.Tag() != r.Subjects.Tag() || a.Meter != m {
						continue
					}
					if n := len(a.Log); n > 0 {
						used += a.Log[n-1].Value
					} else {
						used += m.Peek(a.State, now).Used
					}
				}
			}
			if used > 0 {
				all = append(all, fmt.Sprintf("%s %d", policies[i], used))
			}
		}
	}
	return strings.Join(all, " ")
}

// What was booked before a reset is not charged after it.
func TestResetClearsTheBooks(t *testing.T) {
	now := beginning
	store := &refusingStore{waveringStore: waveringStore{Store: newMemory(t)}}
	store.down.Store(true)
	snapshot := compile(t, allOf(10, "fixed_window", "local"))
	e := newEngine(t, "", engine.Options{Store: store, Local: newMemory(t), Rules: engine.Fixed(snapshot), Now: func() penstock.Instant { return now }})
	var v penstock.Verdict
	who := snapshot.Rules[0].Subjects.Subject()
	for _, step := range []struct {
		before  penstock.Instant
		onlyBan bool
		waiting int64
	}{{beginning, false, 1}, {beginning + 1, true, 1}, {beginning + 1, false, 0}} {
		_ = e.Decide(t.Context(), &penstock.Call{Cost: 1}, &v)
		e.Forget(who, step.onlyBan, step.before)
		if got := e.LateStats().Waiting; got != step.waiting {
			t.Errorf("reset at %d: %d keys wait to be charged, want %d", step.before, got, step.waiting)
		}
	}
	_ = e.Decide(t.Context(), &penstock.Call{Cost: 0}, &v)
	if v.Decision.Used != 0 {
		t.Errorf("after a reset %d are used here", v.Decision.Used)
	}
	store.down.Store(false)
	must(t, e.Close(t.Context()))
	if len(store.charges) != 0 {
		t.Errorf("charged %+v", store.charges)
	}
}

// The books are bounded: what does not fit is counted as dropped, and what has ended makes room.
func TestBooksAreBounded(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	var now atomic.Int64 // the background reads it too
	now.Store(int64(beginning))
	store := &refusingStore{waveringStore: waveringStore{Store: newMemory(t)}}
	store.down.Store(true)
	e := newEngine(t, `rules: [{name: all, key: [user], limits: [{rate: 10/1m, algorithm: fixed_window}]}]`,
		engine.Options{Store: store, Local: newMemory(t), Now: func() penstock.Instant { return penstock.Instant(now.Load()) }})
	call := penstock.Call{Cost: 1, Attributes: attributes("user", "")}
	var v penstock.Verdict
	admit := func(n int, prefix string) {
		for i := range n {
			call.Attributes[0].Value = prefix + fmt.Sprint(i)
			_ = e.Decide(t.Context(), &call, &v)
		}
	}
	const most = 1 << 17
	admit(most+1000, "a")
	s := e.LateStats()
	if s.Waiting != most || s.Dropped != 1000 {
		t.Fatalf("%+v, want %d waiting and 1000 dropped", s, most)
	}
	now.Add(120_000_000)
	admit(1000, "b")
	if s := e.LateStats(); s.Waiting > most || s.Dropped != 1000 {
		t.Errorf("what was booked two minutes ago did not make room: %+v", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Close(ctx); err == nil {
		t.Error("closed with uncharged requests, and no error")
	}
}
