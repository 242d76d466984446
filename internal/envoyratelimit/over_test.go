package envoyratelimit

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/rls"
)

// asked is a store that counts the groups it is asked about.
type asked struct {
	penstock.Store
	groups int
}

func (s *asked) Take(ctx context.Context, t *penstock.Ticket, out *penstock.Outcome) error {
	s.groups += len(t.Groups)
	return s.Store.Take(ctx, t, out)
}

// limitedBy returns a limiter by a file, whose clock is where now points.
func limitedBy(t *testing.T, config *string, store, local penstock.Store, now *penstock.Instant) *Limiter {
	t.Helper()
	known := map[string]*Config{}
	l, err := NewLimiter(LimiterOptions{
		Config: func() *Config {
			if known[*config] == nil {
				c, _, err := Load(file1(*config), Options{})
				if err != nil {
					t.Fatal(err)
				}
				known[*config] = c
			}
			return known[*config]
		},
		Store: store, Local: local, Now: func() penstock.Instant { return *now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func hourly(count int) string {
	return fmt.Sprintf("domain: d\ndescriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: %d}}, {key: b, shadow_mode: true, rate_limit: {unit: second, requests_per_unit: 0}}]", count)
}

func ask(t *testing.T, l *Limiter, cost int64, keys ...string) *rls.Answers {
	t.Helper()
	r := &rls.Request{Domain: "d"}
	for _, key := range keys {
		r.Descriptors = append(r.Descriptors, rls.Descriptor{Entries: entries(key[:1], key[1:]), Cost: cost})
	}
	a, err := l.Limit(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// What is over is not asked about again, until the window ends, or for a minute, or under another limit.
func TestOverIsRemembered(t *testing.T) {
	const minute = penstock.Instant(60_000_000)
	store := &asked{Store: newStore(t)}
	now, config := at(), hourly(2)
	hour := now - now%(60*minute)
	l := limitedBy(t, &config, store, nil, &now)
	for i, s := range []struct {
		at      penstock.Instant
		count   int
		cost    int64
		keys    []string
		allowed bool
		groups  int // asked about
		reset   time.Duration
	}{
		{hour + 1, 2, 1, []string{"ax"}, true, 1, 0},
		{hour + 1, 2, 2, []string{"ax"}, false, 1, 0},
		{hour + 2, 2, 1, []string{"ax"}, false, 0, time.Hour - 2*time.Microsecond},
		{hour + 2, 2, 0, []string{"ax"}, false, 0, time.Hour - 2*time.Microsecond},
		{hour + 2, 2, 1, []string{"ax", "ay", "ax"}, false, 1, 0},
		{hour + 2, 4, 1, []string{"ax"}, true, 1, 0}, // the limit was raised: 4 were counted
		{hour + 2, 2, 1, []string{"ax"}, false, 0, 0},
		{hour + minute + 1, 2, 1, []string{"ax"}, false, 1, 0},
		{hour + 60*minute - 5, 2, 9, []string{"ax"}, false, 1, 5 * time.Microsecond},
		{hour + 60*minute - 1, 2, 9, []string{"ax"}, false, 0, time.Microsecond},
		{hour + 60*minute, 2, 1, []string{"ax"}, true, 1, 0},
		{hour + 60*minute, 2, 1, []string{"bx"}, true, 1, 0}, // only tried
		{hour + 60*minute, 2, 1, []string{"bx"}, true, 0, 0},
	} {
		now, config, store.groups = s.at, hourly(s.count), 0
		a := ask(t, l, s.cost, s.keys...)
		d := a.Each[0].Verdict.Decision
		if a.Allowed != s.allowed || store.groups != s.groups || s.reset != 0 && d.RetryAfter != s.reset {
			t.Errorf("step %d: allowed %v, want %v; asked about %d, want %d; wait %v, want %v", i, a.Allowed, s.allowed, store.groups, s.groups, d.RetryAfter, s.reset)
		}
		if !s.allowed && (d.Remaining != 0 || d.Limit != int64(s.count)) {
			t.Errorf("step %d: %+v", i, d)
		}
	}
}

// What only this node has counted is not remembered as if the store had said it.
func TestOverByTheLocalStore(t *testing.T) {
	now, config := at(), hourly(0)
	l := limitedBy(t, &config, broken{}, newStore(t), &now)
	ask(t, l, 1, "ax")
	l.Store = newStore(t)
	if a := ask(t, l, 0, "ax"); !a.Allowed || a.Each[0].Verdict.Quality != penstock.QualityExact {
		t.Errorf("%+v", a.Each[0].Verdict)
	}
}

// Whatever is remembered, the answers are those of a counter that is asked every time.
func TestOverAsCounted(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	now, config := at(), hourly(20)
	l := limitedBy(t, &config, newStore(t), nil, &now)
	type window struct {
		key string
		at  penstock.Instant
	}
	counts := map[window]int64{}
	for i := range 5000 {
		now += penstock.Instant(random.Int64N(60_000_000))
		key, cost := fmt.Sprintf("a%d", random.IntN(4)), random.Int64N(4)
		w := window{key, now / 3_600_000_000}
		counts[w] += cost
		if a := ask(t, l, cost, key); a.Allowed != (counts[w] <= 20) {
			t.Fatalf("step %d: %s with %d hits: allowed %v at %d of 20", i, key, cost, a.Allowed, counts[w])
		}
	}
}

// Many callers under one rule are all remembered.
func TestOverHasRoom(t *testing.T) {
	now, config := at(), hourly(0)
	store := &asked{Store: newStore(t)}
	l := limitedBy(t, &config, store, nil, &now)
	const callers = 2 * overMost
	for range 2 {
		for i := range callers {
			ask(t, l, 1, fmt.Sprintf("a%d", i))
		}
	}
	if store.groups != callers {
		t.Errorf("asked %d times about %d callers", store.groups, callers)
	}
}

func TestOverIsBounded(t *testing.T) {
	var o overs
	for i := range uint64(3 * overMost) {
		c := counted{window: time.Hour}
		binary.BigEndian.PutUint64(c.subject[4:], i)
		o.note(&c, 1, 1, 1)
		if _, found := o.find(&c, 1); !found {
			t.Fatalf("%d: not remembered", i)
		}
	}
	if n := len(o.of(&counted{}).known); n != overMost {
		t.Errorf("a shard holds %d, want %d", n, overMost)
	}
}
