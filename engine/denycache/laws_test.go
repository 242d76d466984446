package denycache_test

import (
	"context"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// laws are the properties of anything that answers denials for a store.
var laws = map[string]func(s *testNode){
	"a denial ends with the store's": func(s *testNode) {
		g := group(penstock.Limit{Algorithm: penstock.FixedWindow, Count: 1, Window: 200 * time.Millisecond}, 1)
		s.passes(start, g)
		s.denies(start+1, g)
		s.denies(start+200_000-1, g)
		s.passes(start+200_000, g)
	},
	"a denial is believed for a second at most": func(s *testNode) {
		g := group(hourly(1), 1)
		s.passes(start, g)
		s.denies(start+1, g)
		s.check(s.store.Reset(context.Background(), &g)) // through another node
		s.passes(start+1+second, g)
	},
	"a smaller cost may pass": func(s *testNode) {
		s.passes(start, group(hourly(10), 6))
		s.denies(start+1, group(hourly(10), 5))
		s.passes(start+2, group(hourly(10), 4))
	},
	"a raised limit holds at once": func(s *testNode) {
		s.passes(start, group(hourly(1), 1))
		s.denies(start+1, group(hourly(1), 1))
		s.passes(start+2, group(hourly(2), 1))
	},
	"a faster refill holds at once": func(s *testNode) {
		slow := penstock.Limit{Algorithm: penstock.TokenBucket, Count: 36, Window: time.Hour, Burst: 1}
		fast := slow
		fast.Count = 720
		s.passes(start, group(slow, 1))
		s.denies(start+10*second, group(slow, 1))
		s.passes(start+10*second+1, group(fast, 1))
	},
	"another subject is another": func(s *testNode) {
		g, other := group(hourly(1), 1), group(hourly(1), 1)
		other.Subject[0]++ // and shares everything else
		s.passes(start, g)
		s.denies(start+1, g)
		s.passes(start+2, other)
	},
	"a released lease is free at once": func(s *testNode) {
		g := group(penstock.Limit{Algorithm: penstock.Concurrency, Count: 1, Window: time.Hour}, 1)
		s.passes(start, g)
		s.denies(start+1, g)
		s.release(s.store, start, g) // through another node
		s.passes(start+2, g)
	},
	"a released reservation is free at once": func(s *testNode) {
		g := group(hourly(1), 1)
		g.Reserve = time.Minute
		s.passes(start, g)
		s.denies(start+1, g)
		s.release(s.store, start, g) // through another node
		s.passes(start+2, g)
	},
	"a repeat is recognised": func(s *testNode) {
		g := group(hourly(1), 1)
		dedup, err := algorithm.DedupTerms{TTL: time.Minute, MaxReplays: 10, Budget: 10, Beside: penstock.Limit{Algorithm: penstock.FixedWindow, Window: time.Hour}}.Compile()
		s.check(err)
		first, second := g, g
		first.Dedup, first.Call = dedup, storage.CallID{1}
		second.Dedup, second.Call = dedup, storage.CallID{2}
		s.passes(start, first)
		s.denies(start+1, second)
		s.passes(start+2, first)
	},
	"denied calls are counted": func(s *testNode) {
		l := hourly(1)
		l.CountDenied = true
		s.passes(start, group(l, 1))
		s.asks(3, func() {
			for i := range penstock.Instant(3) {
				s.denies(start+1+i, group(l, 1))
			}
		})
	},
	"every strike counts": func(s *testNode) {
		g := s.punished(group(hourly(1), 1))
		s.passes(start, g)
		s.denies(start+1, g)
		s.denies(start+2, g)
		if out := s.take(start+3, g); out.Groups[0].BannedUntil == 0 {
			s.failf("not banned by the third strike: %+v", out.Groups[0])
		}
	},
	"a shadow rule counts every call": func(s *testNode) {
		shadow := group(hourly(100), 1)
		shadow.Subject[15]++
		shadow.Alone = true
		s.passes(start, group(hourly(1), 1), shadow)
		for i := range penstock.Instant(5) {
			if out := s.take(start+1+i, group(hourly(1), 1), shadow); out.Decisions[1].Used != int64(2+i) {
				s.failf("call %d: the shadow rule has counted %d", i, out.Decisions[1].Used)
			}
		}
	},
	"a reset holds at once": func(s *testNode) {
		g := group(hourly(1), 1)
		s.passes(start, g)
		s.denies(start+1, g)
		s.check(s.node.Reset(context.Background(), &g))
		s.passes(start+2, g)
	},
	"a settlement holds at once": func(s *testNode) {
		g := group(hourly(1), 1)
		reserved := g
		reserved.Reserve = time.Minute
		s.passes(start, reserved)
		s.denies(start+1, g)
		s.release(s.node, start, g)
		s.passes(start+2, g)
	},
	"a lift holds at once": func(s *testNode) {
		g := s.punished(group(hourly(100), 1))
		s.ban(start, g, time.Hour)
		s.denies(start+1, g)
		s.denies(start+2, g)
		s.ban(start+3, g, 0)
		s.passes(start+4, g)
	},
	"a ban by hand holds at once": func(s *testNode) {
		g := s.punished(group(hourly(1), 1))
		s.ban(start, g, 100*time.Millisecond)
		s.denies(start+1, g)
		s.ban(start+2, g, 200*time.Millisecond)
		s.denies(start+200_000, g)
		s.passes(start+200_002, g)
	},
}

// release gives back what a request took at an instant.
func (s *testNode) release(through storage.Settler, at penstock.Instant, g storage.Group) {
	var out storage.SettleOutcome
	s.check(through.Settle(context.Background(), &storage.Settlement{
		Now: at + 1, Subject: g.Subject, Nonce: uint64(at), Verb: penstock.Release, Charges: g.Charges,
	}, &out))
}

func (s *testNode) ban(at penstock.Instant, g storage.Group, length time.Duration) {
	_, err := s.node.Ban(context.Background(), &storage.Ban{Now: at, Subject: g.Subject, Penalty: g.Penalty, Length: length})
	s.check(err)
}

// punished returns the group with a penalty of an hour after three strikes.
func (s *testNode) punished(g storage.Group) storage.Group {
	p, err := algorithm.PenaltyTerms{After: 3, Within: time.Minute, Bans: []time.Duration{time.Hour}, ForgiveAfter: time.Hour}.Compile()
	s.check(err)
	g.Penalty = p
	return g
}
