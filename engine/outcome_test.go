package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

const logins = `
rules:
  - {name: logins, match: {path: /login}, key: [ip], limits: [{rate: 5/360d, algorithm: fixed_window}], charge_if: 'status in [401, 403]'}
  - {name: refunds, match: {path: /api}, key: [ip], limits: [{rate: 5/360d, algorithm: sliding_window_log}], refund_if: 'status >= 500 || header("X-Cache") == "HIT" || duration > duration("2s")', cost: 2}
  - {name: broken, match: {path: /broken}, key: [ip], limits: [{rate: 5/360d, algorithm: fixed_window}], charge_if: 'int(header("X-Failed")) > 0'}
  - name: strikes
    match: {path: /strikes}
    key: [ip]
    limits: [{rate: 100/360d, algorithm: fixed_window}]
    penalty: {after: 3, within: 1h, bans: [10m], strike_if: status == 401}
  - {name: tokens, match: {path: /tokens}, key: [ip], limits: [{rate: 100/360d, algorithm: token_bucket}], cost: {response_header: X-Cost, default: 5, max: 50}, refund_if: status >= 500}
  - {name: stated, match: {path: /stated}, key: [ip], limits: [{rate: 100/360d, algorithm: sliding_window_counter}], charge_if: status == 401}
`

// An outcomeClient sends requests of one path and address.
type outcomeClient struct {
	t        *testing.T
	e        *engine.Engine
	path, ip string
}

func (c *outcomeClient) decide(cost int64, id string) *penstock.Verdict {
	c.t.Helper()
	var v penstock.Verdict
	call := penstock.Call{Attributes: attributes("path", c.path, "ip", c.ip), Cost: cost, ID: id}
	if err := c.e.Decide(context.Background(), &call, &v); err != nil {
		c.t.Fatal(err)
	}
	return &v
}

func (c *outcomeClient) left() int64 {
	c.t.Helper()
	return c.decide(0, "").Limits[0].Remaining
}

func (c *outcomeClient) settle(reservation string, r penstock.Response) (*penstock.Verdict, error) {
	var v penstock.Verdict
	return &v, c.e.Conclude(context.Background(), &penstock.Conclusion{Reservation: reservation, Response: &r}, &v)
}

// headers returns a response of a status with headers, given as name, value and so on.
func headers(status int, pairs ...string) penstock.Response {
	return penstock.Response{Status: status, Header: func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if strings.EqualFold(pairs[i], name) {
				return pairs[i+1]
			}
		}
		return ""
	}}
}

// onBothStores runs a test on memory and on Redis.
func onBothStores(t *testing.T, text string, test func(t *testing.T, newEngine func(o engine.Options) *engine.Engine)) {
	t.Run("memory", func(t *testing.T) {
		store := newMemory(t)
		test(t, func(o engine.Options) *engine.Engine { o.Store = store; return newEngine(t, text, o) })
	})
	t.Run("redis", func(t *testing.T) {
		server := redistest.Start(t)
		test(t, func(o engine.Options) *engine.Engine {
			o.Store = newRedis(t, server, "pen:")
			return newEngine(t, text, o)
		})
	})
}

// What is left while the request runs includes its reservation; afterwards it is what the response decides.
func TestResponsesCorrectCharges(t *testing.T) {
	onBothStores(t, logins, func(t *testing.T, newEngine func(engine.Options) *engine.Engine) {
		var failures atomic.Int64
		e := newEngine(engine.Options{Failed: func(_ *rules.Snapshot, f *engine.RuleFailure) {
			if f.Rule.Name != "broken" || !strings.Contains(f.Err.Error(), "evaluate charge_if") {
				t.Errorf("%s: %v", f.Rule.Name, f.Err)
			}
			failures.Add(1)
		}})
		slow := headers(200)
		slow.Duration = 3 * time.Second
		for i, test := range []struct {
			path          string
			cost          int64
			response      penstock.Response
			during, after int64
		}{
			{"/login", 1, headers(401), 4, 4},
			{"/login", 1, headers(200), 4, 5},
			{"/login", 1, headers(0), 4, 4}, // the client has gone: nobody knows
			{"/login", 1, headers(499), 4, 4},
			{"/login", 3, headers(403), 2, 2},
			{"/login", 3, headers(302), 2, 5},
			{"/api", 1, headers(200), 3, 3},
			{"/api", 1, headers(503), 3, 5},
			{"/api", 1, headers(200, "x-cache", "HIT"), 3, 5},
			{"/api", 1, slow, 3, 5},
			{"/api", 1, headers(0, "x-cache", "HIT"), 3, 3},
			{"/broken", 1, headers(200), 4, 4},
			{"/broken", 1, headers(200, "X-Failed", "many"), 4, 4},
			{"/broken", 1, headers(200, "X-Failed", "0"), 4, 5},
			{"/tokens", 1, headers(200, "X-Cost", "30"), 95, 70},
			{"/tokens", 1, headers(500, "X-Cost", "30"), 95, 100},
			{"/stated", 7, headers(401), 93, 93},
			{"/stated", 7, headers(200), 93, 100},
		} {
			c := &outcomeClient{t, e, test.path, fmt.Sprint("10.0.0.", i)}
			v := c.decide(test.cost, "")
			if v.Reservation == "" || v.Limits[0].Remaining != test.during || c.left() != test.during {
				t.Errorf("%d %s: %d left while it runs, want %d", i, test.path, v.Limits[0].Remaining, test.during)
			}
			if early := test.path != "/tokens"; v.SettleEarly != early { // its cost comes with the response
				t.Errorf("%s: settled with the header of the response is %v, want %v", test.path, v.SettleEarly, early)
			}
			for range 2 { // once, however often it is sent
				said, err := c.settle(v.Reservation, test.response)
				if err != nil || !said.Allowed || said.Limits[0].Remaining != test.after || c.left() != test.after {
					t.Errorf("%d %s: %+v, %v; %d left afterwards, want %d", i, test.path, said, err, c.left(), test.after)
				}
			}
			if other, err := c.settle(v.Reservation, headers(418, "X-Failed", "7")); test.path == "/login" && test.after == 5 && err != nil {
				t.Errorf("%d %s: another response of the same outcome: %+v, %v", i, test.path, other, err)
			}
			if _, err := c.settle(v.Reservation, headers(401)); test.path == "/login" && test.after == 5 && !errors.Is(err, penstock.ErrClosed) {
				t.Errorf("%d: another outcome is not refused: %v", i, err)
			}
			if c.left() != test.after {
				t.Errorf("%d %s: %d left after other responses, want %d", i, test.path, c.left(), test.after)
			}
		}
		if failures.Load() == 0 {
			t.Error("conditions that could not be evaluated were not reported")
		}
	})
}

// Of a thousand simultaneous wrong logins on three nodes, exactly as many run as the limit allows, and correct logins
// cost nothing in the end.
func TestBruteForceIsBounded(t *testing.T) {
	onBothStores(t, logins, func(t *testing.T, newEngine func(engine.Options) *engine.Engine) {
		nodes := []*engine.Engine{newEngine(engine.Options{}), newEngine(engine.Options{}), newEngine(engine.Options{})}
		var ran atomic.Int64
		var all sync.WaitGroup
		for i := range 1000 {
			c := &outcomeClient{t, nodes[i%3], "/login", "192.0.2.1"}
			all.Go(func() {
				var v penstock.Verdict
				call := penstock.Call{Attributes: attributes("path", c.path, "ip", c.ip), Cost: 1}
				if err := c.e.Decide(context.Background(), &call, &v); err != nil {
					t.Error(err)
				}
				if !v.Allowed {
					return
				}
				ran.Add(1)
				c.e = nodes[(i+1)%3] // any node can conclude
				if _, err := c.settle(v.Reservation, headers(401)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if ran.Load() != 5 {
			t.Errorf("%d wrong logins ran, want 5", ran.Load())
		}
		good := &outcomeClient{t, nodes[0], "/login", "192.0.2.2"}
		for range 100 {
			v := good.decide(1, "")
			if !v.Allowed {
				t.Fatal("a correct login is denied after others that cost nothing")
			}
			if _, err := good.settle(v.Reservation, headers(200)); err != nil {
				t.Fatal(err)
			}
		}
		if n := good.left(); n != 5 {
			t.Errorf("%d left after correct logins, want 5", n)
		}
	})
}

// While as many requests run as the limit allows, another is denied, even if all of them will be refunded. Its
// retry-after is that of the limit, and it may be allowed sooner.
func TestRunningRequestsCount(t *testing.T) {
	onBothStores(t, logins, func(t *testing.T, newEngine func(engine.Options) *engine.Engine) {
		c := &outcomeClient{t, newEngine(engine.Options{}), "/login", "192.0.2.1"}
		var running []string
		for range 5 {
			running = append(running, c.decide(1, "").Reservation)
		}
		if v := c.decide(1, ""); v.Allowed || v.Decision.RetryAfter <= 0 || v.Decision.RetryAfter > 360*24*time.Hour {
			t.Errorf("the sixth at once: %+v", v)
		}
		if _, err := c.settle(running[0], headers(200)); err != nil {
			t.Fatal(err)
		}
		if v := c.decide(1, ""); !v.Allowed {
			t.Error("denied after one of them was refunded")
		}
	})
}

// A strike takes effect once, by the reservation's name: from whichever node, and however often, it is sent.
func TestResponsesStrikeOnce(t *testing.T) {
	onBothStores(t, logins, func(t *testing.T, newEngine func(engine.Options) *engine.Engine) {
		nodes := []*engine.Engine{newEngine(engine.Options{}), newEngine(engine.Options{})}
		c := &outcomeClient{t, nodes[0], "/strikes", "192.0.2.1"}
		late := c.decide(1, "").Reservation
		for strike := range 3 {
			v := c.decide(1, "")
			if !v.Allowed {
				t.Fatalf("banned after %d strikes", strike)
			}
			var all sync.WaitGroup
			var bans atomic.Int64
			for i := range 8 {
				all.Go(func() {
					said, err := (&outcomeClient{t, nodes[i%2], c.path, c.ip}).settle(v.Reservation, headers(401))
					if err != nil {
						t.Error(err)
					}
					if said.Reason == penstock.ReasonBanned && said.BannedUntil != 0 && said.Limits[0].Banned && said.Decision.Remaining == 0 {
						bans.Add(1)
					}
				})
			}
			all.Wait()
			if want := int64(strike / 2); bans.Load() != want {
				t.Errorf("strike %d: %d settlements report a ban, want %d", strike+1, bans.Load(), want)
			}
		}
		v := c.decide(1, "")
		if v.Allowed || v.Reason != penstock.ReasonBanned || v.Decision.RetryAfter <= 0 || v.Decision.RetryAfter > 10*time.Minute {
			t.Errorf("after three strikes: %+v", v)
		}
		until := v.BannedUntil
		if _, err := c.settle(late, headers(401)); err != nil {
			t.Error(err)
		}
		if v := c.decide(1, ""); v.BannedUntil != until {
			t.Errorf("a strike while banned moved the end from %d to %d", until, v.BannedUntil)
		}
		other := &outcomeClient{t, nodes[0], "/strikes", "192.0.2.2"}
		for range 10 {
			v := other.decide(1, "")
			if _, err := other.settle(v.Reservation, headers(200)); err != nil || !v.Allowed {
				t.Fatalf("%+v, %v", v, err)
			}
		}
	})
}

// A duplicate neither charges nor strikes, and leaves its original alone.
func TestDuplicatesHaveNoOutcome(t *testing.T) {
	c := &outcomeClient{t, newEngine(t, `
rules:
  - name: logins
    key: [ip]
    limits: [{rate: 5/360d, algorithm: fixed_window}, {concurrent: 5, ttl: 1m}]
    charge_if: status == 401
    dedup: {ttl: 10m, replay_budget: 5}
    penalty: {after: 1, within: 1h, bans: [10m], strike_if: status == 401}
`, engine.Options{}), "/", "192.0.2.1"}
	first, second := c.decide(1, "a"), c.decide(1, "a")
	if !second.Duplicate || second.Reservation == "" {
		t.Fatalf("%+v", second)
	}
	if said, err := c.settle(second.Reservation, headers(401)); err != nil || said.BannedUntil != 0 {
		t.Errorf("%+v, %v", said, err)
	}
	if n := c.left(); n != 4 {
		t.Errorf("%d left, want 4", n)
	}
	if said, err := c.settle(first.Reservation, headers(401)); err != nil || said.BannedUntil == 0 {
		t.Errorf("%+v, %v", said, err)
	}
	if v := c.decide(0, ""); v.BannedUntil == 0 || v.Limits[1].Used != 0 {
		t.Errorf("%+v", v)
	}
}

// A shadow rule counts as if it were enforced, and nothing of a request that another rule denies.
func TestShadowRulesLearnFromResponses(t *testing.T) {
	e := newEngine(t, `
rules:
  - {name: tried, mode: shadow, key: [ip], limits: [{rate: 5/360d, algorithm: fixed_window}], charge_if: status == 401, penalty: {after: 2, within: 1h, bans: [10m], strike_if: status == 401}}
  - {name: few, key: [ip], limits: [{rate: 3/360d, algorithm: fixed_window}]}
`, engine.Options{})
	c := &outcomeClient{t, e, "/", "192.0.2.1"}
	for i, status := range []int{401, 200, 401} {
		v := c.decide(1, "")
		if _, err := c.settle(v.Reservation, headers(status)); err != nil || !v.Allowed {
			t.Fatalf("%d: %+v, %v", i, v, err)
		}
	}
	v := c.decide(1, "")
	if v.Allowed || v.Reason != penstock.ReasonOverLimit || !v.Limits[0].Banned {
		t.Errorf("%+v", v)
	}
	other := &outcomeClient{t, e, "/", "192.0.2.2"}
	for range 5 {
		other.decide(1, "")
	}
	if v := other.decide(0, ""); v.Limits[0].Used != 3 { // three run, two were denied by the other rule
		t.Errorf("%+v", v.Limits[0])
	}
}

// A settlement that the store did not confirm is sent again, and its strike counts once.
func TestUnconfirmedStrikesCountOnce(t *testing.T) {
	store := &flaky{settlingStore: newMemory(t)}
	e := newEngine(t, logins, engine.Options{Store: store})
	c := &outcomeClient{t, e, "/strikes", "192.0.2.1"}
	for range 2 {
		v := c.decide(1, "")
		store.losses.Store(3)
		if _, err := c.settle(v.Reservation, headers(401)); !errors.Is(err, penstock.ErrUnavailable) {
			t.Fatal(err)
		}
		await(t, "the settlement", func() bool { return e.Stats().Unconfirmed == 0 })
	}
	if v := c.decide(1, ""); !v.Allowed {
		t.Errorf("two strikes of three ban: %+v", v)
	}
	if n := store.settled.Load(); n < 6 {
		t.Errorf("sent %d times, so nothing was lost", n)
	}
}

// A reservation that is never reported stays charged, and its end is that of the rule.
func TestUnreportedStaysCharged(t *testing.T) {
	now := penstock.InstantOf(time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC))
	e := newEngine(t, logins, engine.Options{Now: func() penstock.Instant { return now }})
	c := &outcomeClient{t, e, "/login", "192.0.2.1"}
	v := c.decide(1, "")
	if v.ReservedFor != 5*time.Minute {
		t.Errorf("reserved for %v", v.ReservedFor)
	}
	now = now.Add(5 * time.Minute)
	if _, err := c.settle(v.Reservation, headers(200)); !errors.Is(err, penstock.ErrNoReservation) {
		t.Errorf("a report that is too late: %v", err)
	}
	if n := c.left(); n != 4 {
		t.Errorf("%d left, want 4", n)
	}
}

// A flaky store settles, and loses some of the answers.
type flaky struct {
	settlingStore
	losses, settled atomic.Int64
}

// A settlingStore is a store that settles.
type settlingStore interface {
	penstock.Store
	storage.Settler
}

func (f *flaky) Settle(ctx context.Context, s *storage.Settlement, out *storage.SettleOutcome) error {
	err := f.settlingStore.Settle(ctx, s, out)
	f.settled.Add(1)
	if f.losses.Add(-1) >= 0 {
		return fmt.Errorf("%w: the reply was lost", penstock.ErrUnavailable)
	}
	return err
}
