package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// Return must satisfy, for requests at any instants on any number of nodes that all return in the end:
//
//   - a lease is settled, once, for exactly what was spent of it, if it is younger than ℓ and has not expired;
//     other quota, and what two later leases of the node have displaced, stays charged;
//   - a window and a counter are then as if only that had ever been charged;
//   - so is a bucket that has not been full in the meantime. One that has been may be fuller, by no
//     more than was given back: it kept refilling when it would have been full without the lease.

// settlingStore is a store that takes leases back.
type settlingStore interface {
	penstock.Store
	storage.Settler
}

// A book is a store that records what one subject was charged and given back.
type book struct {
	settlingStore
	spoil func(spent, size int64) int64 // the cost of a settlement instead of the true one

	charges []*bookedCharge
	named   map[uint64]*bookedCharge
}

// A bookedCharge is a charge. Of a lease, spent is what requests report to have paid with it.
type bookedCharge struct {
	by    int // the node
	at    penstock.Instant
	cost  int64
	lease bool

	spent       int64
	settled     int64
	settlements int
}

// A testNode is the node that a request asks.
type testNode struct {
	*book
	node int
}

func (d testNode) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	if err := d.settlingStore.Take(ctx, t, out); err != nil {
		return err
	}
	for i := range t.Groups {
		if g := &t.Groups[i]; out.Groups[i].Taken && g.Charges[0].Cost > 0 {
			b := &bookedCharge{by: d.node, at: out.Now, cost: g.Charges[0].Cost, lease: g.Reserve != 0}
			d.charges = append(d.charges, b)
			if b.lease {
				d.named[t.Nonce] = b
			}
		}
	}
	return nil
}

func (d testNode) Settle(ctx context.Context, s *storage.Settlement, out *storage.SettleOutcome) error {
	b := d.named[s.Nonce]
	if b == nil {
		return errors.New("no lease has that name")
	}
	b.settlements++
	b.settled = s.Charges[0].Cost
	if d.spoil != nil {
		s.Charges[0].Cost = d.spoil(b.settled, b.cost)
	}
	return d.settlingStore.Settle(ctx, s, out)
}

var returned = []penstock.Limit{
	{Algorithm: penstock.FixedWindow, Window: time.Second},
	{Algorithm: penstock.FixedWindow, Period: penstock.Hour},
	{Algorithm: penstock.SlidingWindowCounter, Window: time.Minute},
	{Algorithm: penstock.TokenBucket, Window: time.Second},
	{Algorithm: penstock.TokenBucket, Window: time.Hour},
}

// An ending is random requests for one key through several nodes, in virtual time, with shutdowns in the
// middle.
type ending struct {
	r     *rand.Rand
	now   penstock.Instant
	group storage.Group
	*book
	nodes []*Store
}

func newEnding(t testing.TB, inner settlingStore, seed uint64, l penstock.Limit) *ending {
	r := rand.New(rand.NewPCG(seed, 13))
	l.Count = 300 + r.Int64N(3000)
	e := &ending{r: r, now: monday, group: leased(stranger(), 1, l.MustCompile()), book: &book{settlingStore: inner, named: map[uint64]*bookedCharge{}}}
	for i := range 1 + r.IntN(3) {
		e.nodes = append(e.nodes, around(t, testNode{e.book, i}))
	}
	return e
}

func (e *ending) meter() *algorithm.Meter { return e.group.Charges[0].Meter }

func (e *ending) life() int64 { return min(maxLife, e.meter().Window/partOf) }

// play sends requests in bursts, the last of which is recent when the nodes return.
func (e *ending) play(t testing.TB, beforeReturn func(*Store)) {
	life := e.life()
	for range 2 + e.r.IntN(4) {
		e.now += penstock.Instant(e.r.Int64N(30 * life))
		for range 40 + e.r.IntN(80) {
			e.call(t)
			e.now += 1 + penstock.Instant(e.r.Int64N(life/40)) // no two at one instant
		}
	}
	e.now += penstock.Instant(e.r.Int64N(life))
	for _, n := range e.nodes {
		if beforeReturn != nil {
			beforeReturn(n)
		}
		if err := n.Return(t.Context(), e.now); err != nil {
			t.Fatal(err)
		}
	}
}

func (e *ending) call(t testing.TB) {
	cost := int64(1)
	if e.r.IntN(10) == 0 {
		cost += e.r.Int64N(4)
	}
	node := e.r.IntN(len(e.nodes))
	out := take(t, e.nodes[node], e.now, leased(e.group.Subject, cost, e.meter()))
	if !out.Allowed || !out.Groups[0].Leased {
		return
	}
	for _, b := range e.charges {
		if b.lease && b.at == out.Decisions[0].Receipt.At {
			b.spent += cost
		}
	}
}

// judge returns the first property that is violated, and how much quota was given back.
func (e *ending) judge(t testing.TB) (back int64, _ error) {
	later := make([]int, len(e.nodes)) // leases of the node
	life := penstock.Instant(e.life())
	for i := len(e.charges) - 1; i >= 0; i-- {
		b := e.charges[i]
		if !b.lease {
			continue
		}
		lives := e.now < e.within(b.at, b.at+life) && later[b.by] < len(pool{}.grants)
		later[b.by]++
		switch unspent := b.cost - b.spent; {
		case b.settlements == 0 && lives && unspent > 0:
			return 0, fmt.Errorf("%d of %d permits of a lease live and were not given back", unspent, b.cost)
		case b.settlements > 1 || b.settlements == 1 && !lives:
			return 0, fmt.Errorf("a lease was settled %d times; lives is %v", b.settlements, lives)
		case b.settlements == 1 && b.settled != b.spent:
			return 0, fmt.Errorf("of %d permits %d were spent, and the lease was settled for %d", b.cost, b.spent, b.settled)
		case b.settlements == 1:
			back += unspent
		}
	}
	if err := e.addsUp(back); err != nil {
		return 0, err
	}
	return back, e.compare(t, back)
}

// within ends a lease with its window.
func (e *ending) within(at, until penstock.Instant) penstock.Instant {
	switch e.meter().Kind {
	case algorithm.KindWindow:
		w := penstock.Instant(e.meter().Window)
		return min(until, at-at%w+w-1)
	case algorithm.KindCalendar:
		return min(until, at-at%(3600*second)+3600*second-1)
	}
	return until
}

func (e *ending) addsUp(back int64) error {
	var stats Stats
	var spent, held int64
	for _, n := range e.nodes {
		s := n.Stats()
		stats.Permits, stats.Expired, stats.Returned = stats.Permits+s.Permits, stats.Expired+s.Expired, stats.Returned+s.Returned
		held += n.held()
	}
	for _, b := range e.charges {
		spent += b.spent
	}
	if held != 0 || stats.Returned != back || stats.Permits != spent+stats.Expired+stats.Returned {
		return fmt.Errorf("%d spent, %d given back and %d still held; %+v", spent, back, held, stats)
	}
	return nil
}

// compare replays what should have been charged, and compares it with the store.
func (e *ending) compare(t testing.TB, back int64) error {
	var s algorithm.State
	m, sinceLease, full := e.meter(), false, false
	for _, b := range e.charges {
		s, _, _ = m.Weigh(s, b.at, 0, 0)
		full = full || sinceLease && s.Used == 0
		cost := b.cost
		if b.settlements > 0 {
			cost, sinceLease = b.spent, true
		}
		s = m.Charge(s, cost)
		full = full || sinceLease && s.Used == 0
	}
	s, _, _ = m.Weigh(s, e.now, 0, 0)
	full = full || sinceLease && s.Used == 0
	there := take(t, e.settlingStore, e.now, leased(e.group.Subject, 0, m)).States[0]
	if m.Kind == algorithm.KindBucket && full {
		if there.Used > s.Used || there.Used < s.Used-back*m.Ticks {
			return fmt.Errorf("the store has %+v after %d were given back, want %+v, or as many less", there, back, s)
		}
		return nil
	}
	want := m.Peek(s, e.now)
	if got := m.Peek(there, e.now); got != want || there.Used != s.Used || there.Previous != s.Previous {
		return fmt.Errorf("the store has %+v after %d were given back, want %+v", there, back, s)
	}
	return nil
}

func TestReturnLaws(t *testing.T) {
	redis, err := redisstore.Open(redisstore.Options{Addresses: []string{redistest.Start(t).Addr}, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	for _, store := range []struct {
		name  string
		inner settlingStore
		seeds uint64
	}{{"memory", memory(t, 8*little), 60}, {"redis", redis, 6}} {
		for _, l := range returned {
			t.Run(fmt.Sprintf("%s/%v", store.name, l), func(t *testing.T) {
				var total int64
				for seed := range store.seeds {
					e := newEnding(t, store.inner, seed, l)
					e.play(t, nil)
					back, err := e.judge(t)
					if err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					total += back
				}
				if total < 10*int64(store.seeds) {
					t.Errorf("only %d permits were given back: nothing was proved", total)
				}
			})
		}
	}
}

// The laws must be able to fail.
func TestReturnSabotageIsNoticed(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	grants := func(do func(*grant)) func(*Store) {
		return func(s *Store) {
			s.eachPool(func(p *pool) {
				for i := range p.grants {
					if p.grants[i].left > 0 {
						do(&p.grants[i])
					}
				}
			})
		}
	}
	for _, sabotage := range []struct {
		name   string
		spoil  func(spent, size int64) int64
		before func(*Store)
	}{
		{name: "the store gives back what was spent", spoil: func(_, _ int64) int64 { return 0 }},
		{name: "the store gives back twice", spoil: func(spent, size int64) int64 { return max(0, spent-(size-spent)) }},
		{name: "the store gives nothing back", spoil: func(_, size int64) int64 { return size }},
		{name: "one more is given back", before: grants(func(g *grant) { g.left = min(g.size, g.left+1) })},
		{name: "one less is given back", before: grants(func(g *grant) { g.left-- })},
		{name: "permits that are over are given back", before: grants(func(g *grant) {
			g.until, g.sent = algorithm.MaxInstant, algorithm.MaxInstant-penstock.Instant(maxLife)
		})},
		{name: "permits are forgotten", before: grants(func(g *grant) { g.left = 0 })},
	} {
		t.Run(sabotage.name, func(t *testing.T) {
			for _, l := range returned {
				noticed := false
				for seed := range uint64(12) {
					e := newEnding(t, memory(t, little), seed, l)
					e.spoil = sabotage.spoil
					e.play(t, sabotage.before)
					_, err := e.judge(t)
					noticed = noticed || err != nil
				}
				if !noticed {
					t.Errorf("%v: nobody noticed", l)
				}
			}
		})
	}
}
