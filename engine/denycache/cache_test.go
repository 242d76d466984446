package denycache_test

import (
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine/denycache"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

func cached(store storetest.CompleteStore) storetest.CompleteStore {
	c, err := denycache.New(storetest.Full(store), denycache.Options{})
	if err != nil {
		panic(err)
	}
	return c
}

func judge(b build, law func(*testNode)) error {
	s := newStage(b)
	law(s)
	return s.verdict()
}

func TestLaws(t *testing.T) {
	for name, law := range laws {
		t.Run(name, func(t *testing.T) {
			if err := judge(cached, law); err != nil {
				t.Error(err)
			}
		})
	}
}

// Laws that nothing breaks prove nothing.
func TestSabotageIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		naive   naive
		noticed []string
	}{
		"keeps too long":  {naive{keepsTooLong: true}, []string{"a denial ends with the store's", "a denial is believed for a second at most"}},
		"ignores cost":    {naive{ignoresCost: true}, []string{"a smaller cost may pass"}},
		"ignores limit":   {naive{ignoresLimit: true}, []string{"a raised limit holds at once"}},
		"ignores subject": {naive{ignoresSubject: true}, []string{"another subject is another"}},
		"caches what is not firm": {naive{believesRetryAfter: true}, []string{
			"a released lease is free at once", "a released reservation is free at once", "a repeat is recognised",
			"denied calls are counted", "every strike counts"}},
		"survives a reset":      {naive{survivesReset: true}, []string{"a reset holds at once"}},
		"survives a lift":       {naive{survivesLift: true}, []string{"a lift holds at once"}},
		"survives a settlement": {naive{survivesSettlement: true}, []string{"a settlement holds at once"}},
		"forgets shadows":       {naive{forgetsShadows: true}, []string{"a shadow rule counts every call"}},
		"nothing wrong":         {naive{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			sabotaged := func(store storetest.CompleteStore) storetest.CompleteStore {
				n := c.naive
				n.CompleteStore, n.known = store, map[storage.Subject]memo{}
				return &n
			}
			for _, law := range c.noticed {
				if judge(sabotaged, laws[law]) == nil {
					t.Errorf("not noticed by %q", law)
				}
			}
			if c.noticed != nil {
				return
			}
			for law := range laws {
				if err := judge(sabotaged, laws[law]); err != nil {
					t.Errorf("%s: %v", law, err)
				}
			}
		})
	}
}

// The most frequent operations of a flood must not allocate.
func TestAnswerAllocatesNothing(t *testing.T) {
	for name, act := range map[string]func(s *testNode) []storage.Group{
		"one limit": func(s *testNode) []storage.Group { return []storage.Group{group(hourly(1), 2)} },
		"two rules": func(s *testNode) []storage.Group {
			other := group(hourly(1), 1)
			other.Subject[8]++
			return []storage.Group{group(hourly(1), 2), other}
		},
		"a ban": func(s *testNode) []storage.Group {
			g := s.punished(group(hourly(1), 1))
			s.ban(start, g, time.Hour)
			return []storage.Group{g}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(cached)
			ticket := storage.Ticket{Now: start, Groups: act(s)}
			var out storage.Outcome
			take := func() {
				if err := s.node.Take(t.Context(), &ticket, &out); err != nil || out.Allowed {
					t.Fatal(err, out)
				}
			}
			take()
			s.asks(0, func() {
				if n := testing.AllocsPerRun(100, take); n != 0 {
					t.Errorf("%v allocations for an answer", n)
				}
			})
			if err := s.verdict(); err != nil {
				t.Error(err)
			}
		})
	}
}

// BenchmarkDenied compares a denial that the cache answers with one that it passes on to a store in memory.
// It saves the round trip to a remote store, and costs the difference to the store alone.
func BenchmarkDenied(b *testing.B) {
	plain := group(hourly(1), 2)
	shadow := group(hourly(1), 2)
	shadow.Subject[8]++
	shadow.Alone = true
	store := newMemstore(b)
	for _, c := range []struct {
		name   string
		store  penstock.Store
		groups []storage.Group
	}{
		{"cached", newCache(b, store), []storage.Group{plain}},
		{"store alone", store, []storage.Group{plain}},
		{"passed on", newCache(b, store), []storage.Group{plain, shadow}},
		{"store alone, with a shadow rule", store, []storage.Group{plain, shadow}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				ticket := storage.Ticket{Groups: c.groups}
				var out storage.Outcome
				for pb.Next() {
					if err := c.store.Take(b.Context(), &ticket, &out); err != nil || out.Allowed {
						b.Error(err, out)
						return
					}
				}
			})
		})
	}
}
