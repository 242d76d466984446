package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	_ "github.com/penstock-io/penstock/internal/fixedseed"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/storage"
)

// Limits as a Go program and as a rules document write them.
var limitPairs = []struct {
	option     penstock.Option
	text       string
	returnable bool
}{
	{penstock.PerMinute(4), "4/1m", true},
	{penstock.PerHour(7).SlidingCounter(), "{rate: 7/1h, algorithm: sliding_window_counter}", true},
	{penstock.PerSecond(3).SlidingLog(), "{rate: 3/1s, algorithm: sliding_window_log}", true},
	{penstock.PerMinute(5).FixedWindow(), "{rate: 5/1m, algorithm: fixed_window}", true},
	{penstock.PerSecond(1).TokenBucket(6), "{rate: 1/1s, burst: 6, algorithm: token_bucket}", true},
	{penstock.PerMinute(30).LeakyBucket(3), "{rate: 30/1m, queue: 3, algorithm: leaky_bucket}", false},
	{penstock.Concurrent(2), "{concurrent: 2, ttl: 1m}", true},
	{penstock.Limit{Algorithm: penstock.FixedWindow, Count: 9, Period: penstock.Day}, "{rate: 9/day, algorithm: fixed_window}", true},
	{penstock.Limit{Algorithm: penstock.FixedWindow, Count: 3, Window: time.Second, CountDenied: true}, "", false}, // count_denied is of a whole rule
}

// clockedStore is a store at an instant of the test.
type clockedStore struct {
	*memstore.Store
	now *penstock.Instant
}

func (c clockedStore) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	t.Now = *c.now
	return c.Store.Take(ctx, t, out)
}

func (c clockedStore) Settle(ctx context.Context, s *storage.Settlement, out *storage.SettleOutcome) error {
	s.Now = *c.now
	return c.Store.Settle(ctx, s, out)
}

// limiterTwins are a limiter and an engine with a rule of the same limits, each on a store of its own.
type limiterTwins struct {
	limiter      *penstock.Limiter
	engine       *engine.Engine
	now          penstock.Instant
	reservable   bool
	reservations [][2]string
}

func newLimiterTwins(t *testing.T, draw *rapid.T) *limiterTwins {
	w := &limiterTwins{now: beginning, reservable: true}
	indexes := rapid.SliceOfNDistinct(rapid.IntRange(0, len(limitPairs)-1), 1, 4, rapid.ID).Draw(draw, "limits")
	options := []penstock.Option{penstock.WithName("twin"), penstock.WithReserveTTL(2 * time.Minute)}
	var texts []string
	more := ""
	for _, i := range indexes {
		p := limitPairs[i]
		if p.text == "" {
			if len(indexes) > 1 {
				continue
			}
			p.text, more = "{rate: 3/1s, algorithm: fixed_window}", ", count_denied: true"
		}
		options, texts = append(options, p.option), append(texts, p.text)
		w.reservable = w.reservable && p.returnable
	}
	if w.reservable {
		more += ", reserve: {ttl: 2m, overage: debt}"
	}
	text := fmt.Sprintf("attributes: {key: {header: K}}\nrules:\n  - {name: twin, key: [key], limits: [%s]%s}\n", strings.Join(texts, ", "), more)
	w.engine = newEngine(t, text, engine.Options{Now: func() penstock.Instant { return w.now }})
	var err error
	if w.limiter, err = penstock.New(clockedStore{newMemory(t), &w.now}, options...); err != nil {
		draw.Fatal(err)
	}
	return w
}

// step does the same with both and compares the results.
func (w *limiterTwins) step(t *testing.T, draw *rapid.T) {
	w.now += penstock.Instant(rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 300 * time.Millisecond, time.Second, 20 * time.Second, 90 * time.Second}).Draw(draw, "passes").Microseconds())
	var got, want penstock.Verdict
	var gotErr, wantErr error
	if len(w.reservations) > 0 && rapid.Bool().Draw(draw, "conclude") {
		r := rapid.SampledFrom(w.reservations).Draw(draw, "reservation")
		c := penstock.Conclusion{
			Reservation: r[0], Cost: rapid.Int64Range(0, 8).Draw(draw, "true cost"),
			Verb: rapid.SampledFrom([]penstock.Verb{penstock.Settle, penstock.Release, penstock.Renew}).Draw(draw, "verb"),
		}
		gotErr = w.limiter.Conclude(t.Context(), &c, &got)
		c.Reservation = r[1]
		wantErr = w.engine.Conclude(t.Context(), &c, &want)
	} else {
		c := penstock.Call{
			Attributes: attributes("key", rapid.SampledFrom([]string{"a", "b"}).Draw(draw, "key")),
			Cost:       rapid.Int64Range(0, 5).Draw(draw, "cost"),
			MaxDelay:   rapid.SampledFrom([]time.Duration{0, time.Second, penstock.AnyDelay}).Draw(draw, "max delay"),
			Reserve:    w.reservable && rapid.Bool().Draw(draw, "reserve"),
		}
		gotErr = w.limiter.Decide(t.Context(), &c, &got)
		wantErr = w.engine.Decide(t.Context(), &c, &want)
		if got.Reservation != "" && want.Reservation != "" {
			w.reservations = append(w.reservations, [2]string{got.Reservation, want.Reservation})
		}
	}
	if (got.Reservation == "") != (want.Reservation == "") {
		draw.Fatalf("the reservation %q, the engine's %q", got.Reservation, want.Reservation)
	}
	for _, is := range []error{penstock.ErrInvalid, penstock.ErrNoReservation, penstock.ErrClosed, penstock.ErrUnavailable} {
		if errors.Is(gotErr, is) != errors.Is(wantErr, is) {
			draw.Fatalf("the error %v, the engine's %v", gotErr, wantErr)
		}
	}
	if gotErr != nil || wantErr != nil {
		return
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(penstock.Verdict{}, "Reservation", "RulesVersion"), cmpopts.EquateEmpty()); diff != "" {
		draw.Fatalf("the limiter (+) and the engine (-) differ:\n%s", diff)
	}
}

// A limiter is an engine with one rule, without the rules.
func TestLimiterDecidesAsAnEngine(t *testing.T) {
	passed, denied, concluded := 0, 0, 0
	rapid.Check(t, func(draw *rapid.T) {
		w := newLimiterTwins(t, draw)
		for range rapid.IntRange(1, 40).Draw(draw, "steps") {
			w.step(t, draw)
		}
		concluded += len(w.reservations)
		d, err := w.limiter.Peek(t.Context(), "a")
		if err != nil {
			draw.Fatal(err)
		}
		if d.Allowed {
			passed++
		} else {
			denied++
		}
	})
	if passed == 0 || denied == 0 || concluded == 0 {
		t.Errorf("the sequences show little: %d keys with something left, %d with nothing, %d reservations", passed, denied, concluded)
	}
}
