package lease

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// Groups that leases cover are removed from the ticket; the others are decided as usual, and denied together.
func TestCoveredGroupsLeaveTheTicket(t *testing.T) {
	inner := memory(t, little)
	a, b, c := leased(stranger(), 1, perSecond(10_000)), leased(stranger(), 1, perSecond(3)), leased(stranger(), 1, perSecond(10_000))
	b.Leased = false
	shared := &register{Store: inner, subject: a.Subject, charged: map[penstock.Instant]int64{}}
	s := around(t, shared)
	heat(t, s, monday, a)
	heat(t, s, monday, c)
	charged := shared.total()
	for i := range 5 {
		held := s.held()
		out := take(t, s, monday, a, b, c)
		allowed := i < 3
		want := fmt.Sprint([]bool{true, allowed, allowed, allowed, true, allowed})
		g := out.Groups
		got := fmt.Sprint([]bool{g[0].Allowed, g[0].Taken, g[1].Allowed, g[1].Taken, g[2].Allowed, g[2].Taken})
		if out.Allowed != allowed || got != want {
			t.Fatalf("call %d: allowed %v, groups %v, want %v", i, out.Allowed, got, want)
		}
		if !g[0].Leased || g[1].Leased || !g[2].Leased {
			t.Errorf("call %d: decided by permits: %v, %v, %v; want the first and the last", i, g[0].Leased, g[1].Leased, g[2].Leased)
		}
		if d := out.Decisions; d[0].Limit != 10_000 || d[1].Limit != 3 || d[2].Limit != 10_000 || d[1].Used != int64(min(i+1, 3)) {
			t.Errorf("call %d: decisions are mixed up: %+v", i, d)
		}
		if receipt := out.Decisions[0].Receipt; (receipt.Cost != 0) != allowed {
			t.Errorf("call %d: receipt %+v", i, receipt)
		}
		if !allowed && s.held() != held {
			t.Errorf("call %d was denied; %d permits are held, before it were %d", i, s.held(), held)
		}
	}
	if shared.total() != charged {
		t.Errorf("%d were charged for a group that permits cover", shared.total()-charged)
	}
}

// A shadow rule's quota is spent whatever the others decide.
func TestAlone(t *testing.T) {
	s := around(t, memory(t, little))
	shadow, live := leased(stranger(), 1, perSecond(10_000)), leased(stranger(), 1, perSecond(1))
	shadow.Alone = true
	heat(t, s, monday, shadow)
	take(t, s, monday, live)
	held := s.held()
	out := take(t, s, monday, shadow, live)
	if out.Allowed || !out.Groups[0].Taken || out.Groups[1].Allowed || s.held() != held-1 {
		t.Errorf("%+v; %d permits are held, before it were %d", out, s.held(), held)
	}
	if out = take(t, s, monday, shadow); !out.Allowed || !out.Groups[0].Taken {
		t.Errorf("by itself: %+v", out)
	}
}

// A ticket of the maximum size has no room for a lease.
func TestLargestTicket(t *testing.T) {
	s := around(t, memory(t, little))
	var groups []storage.Group
	for range storage.MaxGroups {
		groups = append(groups, leased(stranger(), 1, perSecond(10_000)))
	}
	for range 50 {
		if out := take(t, s, monday, groups...); !out.Allowed {
			t.Fatal("denied")
		}
	}
	if s.Stats().Permits != 0 {
		t.Errorf("%+v", s.Stats())
	}
	for range 50 {
		if out := take(t, s, monday, groups[1:]...); !out.Allowed || len(out.Decisions) != storage.MaxGroups-1 {
			t.Fatal("denied")
		}
	}
	if s.Stats().Leased == 0 {
		t.Errorf("%+v", s.Stats())
	}
}

// Limits of one rule are leased together: the narrowest determines how much.
func TestSeveralLimits(t *testing.T) {
	wide, narrow := perSecond(10_000), penstock.Limit{Algorithm: penstock.SlidingWindowCounter, Count: 300, Window: time.Minute}.MustCompile()
	s, g := around(t, memory(t, little)), leased(stranger(), 1, wide, narrow)
	passed := int64(0)
	for range 1000 {
		if take(t, s, monday, g).Allowed {
			passed++
		}
		s.eachPool(func(p *pool) {
			if size := p.grants[1].size; size > 300/share {
				t.Fatalf("a lease of %d", size)
			}
		})
	}
	if s.Stats().Leased == 0 || passed != 300 {
		t.Errorf("%d passed of 300; %+v", passed, s.Stats())
	}
}

// Quota of some limits is not quota of others.
func TestOtherLimits(t *testing.T) {
	a, b := perSecond(10_000), penstock.Limit{Algorithm: penstock.TokenBucket, Count: 10_000, Window: time.Second}.MustCompile()
	for _, test := range [][2][]*algorithm.Meter{{{a, b}, {a}}, {{a}, {a, b}}, {{a, b}, {b, a}}} {
		s, subject := around(t, memory(t, little)), stranger()
		heat(t, s, monday, leased(subject, 1, test[0]...))
		before := s.Stats().Leased
		take(t, s, monday, leased(subject, 1, test[1]...))
		if s.Stats().Leased != before {
			t.Errorf("permits of %v decided about %v", test[0], test[1])
		}
	}
}

// An operator's reset also drops leased quota, even if it is on its way.
func TestReset(t *testing.T) {
	s, g := around(t, memory(t, little)), leased(stranger(), 1, perSecond(10_000))
	other := leased(stranger(), 1, perSecond(10_000))
	heat(t, s, monday, other)
	kept := s.held()
	heat(t, s, monday, g)
	if err := s.Reset(t.Context(), &g); err != nil {
		t.Fatal(err)
	}
	if s.held() != kept {
		t.Errorf("%d permits are held, the other subject's were %d", s.held(), kept)
	}
	if out := take(t, s, monday, g); out.Decisions[0].Used != 1 {
		t.Errorf("after a reset %+v", out.Decisions[0])
	}
}

// There are never more pools than configured, however many keys there are.
func TestManyKeys(t *testing.T) {
	s, hot := around(t, memory(t, 8<<20)), leased(stranger(), 1, perSecond(1_000_000))
	cold := leased(stranger(), 1, perSecond(10_000))
	heat(t, s, monday, hot)
	for i := range 20 * MinPools {
		cold.Subject = hasher.Subject("test", "cold", penstock.Attribute{Name: "key", Value: fmt.Sprint(i)})
		take(t, s, monday, cold)
		if i%64 == 0 { // a key that is used stays
			take(t, s, monday, hot)
		}
	}
	pools := 0
	s.eachPool(func(p *pool) { pools++ })
	if pools > MinPools {
		t.Errorf("%d pools, want at most %d", pools, MinPools)
	}
	if s.Stats().Leased < 20*MinPools/64*9/10 {
		t.Errorf("the hot key has lost its permits to cold ones: %+v", s.Stats())
	}
	stats := s.Stats()
	if stats.Permits != stats.Leased+stats.Expired+s.held() {
		t.Errorf("permits do not add up: %+v, %d held", stats, s.held())
	}
}
