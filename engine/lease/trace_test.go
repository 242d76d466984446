package lease

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A trace is random requests for one key through several nodes, in virtual time. Some requests also have to
// pass a second, narrow rule that is not leased and often denies them.
type trace struct {
	r      *rand.Rand
	meter  *algorithm.Meter
	nodes  []*Store
	shared *register
	narrow *algorithm.Meter
	other  storage.Subject

	boundsOnly bool // judge only by what passed, not by what it was paid with

	now      penstock.Instant
	passed   []admittedRequest
	admitted int64
	paid     map[penstock.Instant]int64 // by the charge's instant
}

// admittedRequest is a request that was admitted.
type admittedRequest struct {
	at, charged penstock.Instant
	cost        int64
}

var traced = []penstock.Limit{
	{Algorithm: penstock.FixedWindow, Window: time.Second},
	{Algorithm: penstock.FixedWindow, Window: time.Minute},
	{Algorithm: penstock.FixedWindow, Period: penstock.Hour},
	{Algorithm: penstock.SlidingWindowCounter, Window: time.Second},
	{Algorithm: penstock.SlidingWindowCounter, Window: time.Hour},
	{Algorithm: penstock.TokenBucket, Window: time.Second},
	{Algorithm: penstock.TokenBucket, Window: time.Minute},
}

func newTrace(t testing.TB, seed uint64, l penstock.Limit) *trace {
	r := rand.New(rand.NewPCG(seed, 7))
	l.Count = 100 + r.Int64N(900)
	if l.Algorithm == penstock.TokenBucket {
		l.Burst = 50 + r.Int64N(l.Count)
	}
	x := &trace{
		r: r, meter: l.MustCompile(), other: stranger(),
		shared: &register{Store: memory(t, little), subject: stranger(), charged: map[penstock.Instant]int64{}},
		paid:   map[penstock.Instant]int64{},
	}
	l.Count /= 10
	x.narrow = l.MustCompile()
	for range 1 + r.IntN(4) {
		x.nodes = append(x.nodes, around(t, x.shared))
	}
	return x
}

// window returns the length of the meter's window.
func (x *trace) window() penstock.Instant {
	if x.meter.Kind == algorithm.KindCalendar {
		return 3600 * second
	}
	return penstock.Instant(x.meter.Window)
}

func (x *trace) life() penstock.Instant { return min(second, x.window()/100) }

// play sends requests for about three windows and returns the first property that is violated. After each
// request the node may be sabotaged. Requests come in bursts, some of them around the edge of a window.
func (x *trace) play(t testing.TB, sabotage func(*Store, *storage.Outcome)) error {
	w, life := x.window(), x.life()
	mean := w / penstock.Instant(float64(x.meter.Count)*(0.5+2*x.r.Float64()))
	for x.now = monday + w/2; x.now < monday+7*w/2; {
		if x.r.IntN(3) == 0 {
			x.now += w - x.now%w - penstock.Instant(x.r.Int64N(int64(life)))
		}
		began, calls := x.now, 1+x.r.IntN(200)
		apart := int64(life) / (1 + x.r.Int64N(100))
		node := x.nodes[x.r.IntN(len(x.nodes))]
		for range calls {
			if x.r.IntN(8) == 0 {
				node = x.nodes[x.r.IntN(len(x.nodes))]
			}
			if err := x.call(t, node, sabotage); err != nil {
				return err
			}
			if x.r.IntN(3) > 0 {
				x.now += penstock.Instant(x.r.Int64N(2*apart + 1))
			}
		}
		if rest := began + penstock.Instant(calls)*mean - x.now; rest > 0 {
			x.now += penstock.Instant(x.r.Int64N(2 * int64(rest)))
		}
	}
	return x.settled()
}

func (x *trace) call(t testing.TB, node *Store, sabotage func(*Store, *storage.Outcome)) error {
	cost := int64(1)
	if x.r.IntN(20) == 0 {
		cost = 1 + x.r.Int64N(5)
	}
	groups := []storage.Group{leased(x.shared.subject, cost, x.meter)}
	if x.r.IntN(5) == 0 {
		g := leased(x.other, 1, x.narrow)
		g.Leased = false
		groups = append(groups, g)
	}
	out := take(t, node, x.now, groups...)
	if out.Allowed {
		d := &out.Decisions[0]
		if d.Receipt.Cost != cost {
			return fmt.Errorf("a call of %d has a receipt of %+v", cost, d.Receipt)
		}
		if err := x.admit(admittedRequest{x.now, d.Receipt.At, cost}); err != nil {
			return fmt.Errorf("after %d calls: %w", len(x.passed), err)
		}
	}
	if sabotage != nil {
		sabotage(node, out)
	}
	return nil
}

// admit checks what an admitted request must not have violated.
func (x *trace) admit(p admittedRequest) error {
	x.passed = append(x.passed, p)
	x.admitted += p.cost
	x.paid[p.charged] += p.cost
	if !x.boundsOnly {
		if err := x.isPaid(p); err != nil {
			return err
		}
	}
	switch x.meter.Kind {
	case algorithm.KindCounter:
		return x.counterBound()
	case algorithm.KindBucket:
		return nil // checked at the end, for the whole trace
	}
	return x.windowBound()
}

// isPaid checks that a request was paid with a charge that the store took, that no other request spends, and
// that is not older than its quota may be.
func (x *trace) isPaid(p admittedRequest) error {
	valid, w, age := x.life(), x.window(), p.at.Sub(p.charged)
	if isWindow(x.meter) {
		valid = second
	}
	switch {
	case x.paid[p.charged] > x.shared.charged[p.charged]:
		return fmt.Errorf("%d were spent of %d that were charged %v ago", x.paid[p.charged], x.shared.charged[p.charged], age)
	case p.charged > p.at || p.at >= p.charged+valid:
		return fmt.Errorf("spent %v after it was charged; permits live for %d µs", age, valid)
	case isWindow(x.meter) && p.at/w != p.charged/w:
		return fmt.Errorf("spent %v after it was charged, in another window", age)
	}
	return nil
}

// windowBound: at most L in each window.
func (x *trace) windowBound() error {
	w, last, sum := x.window(), x.passed[len(x.passed)-1], int64(0)
	for i := len(x.passed) - 1; i >= 0 && x.passed[i].at/w == last.at/w; i-- {
		sum += x.passed[i].cost
	}
	if sum > x.meter.Count {
		return fmt.Errorf("%d passed in one window", sum)
	}
	return nil
}

// counterBound: in every W − ℓ less than twice L, and never more than the counter would have allowed had
// everything been charged when it passed.
func (x *trace) counterBound() error {
	w, life, now := x.window(), x.life(), x.passed[len(x.passed)-1]
	var held, current, previous int64
	for i := len(x.passed) - 1; i >= 0 && x.passed[i].at > now.at-3*w; i-- {
		p := &x.passed[i]
		if p.at > now.at-(w-life) {
			held += p.cost
		}
		switch p.charged / w {
		case now.charged / w:
			current += p.cost
		case now.charged/w - 1:
			previous += p.cost
		}
	}
	if held >= 2*x.meter.Count {
		return fmt.Errorf("%d passed in %v", held, time.Duration(w-life)*time.Microsecond)
	}
	// Quota may be older than the latest charge: then the fading was computed later.
	left := int64(w - now.charged%w)
	if now.at == now.charged && previous*(left-x.meter.Tick)+current*int64(w) > x.meter.Count*int64(w) {
		return fmt.Errorf("%d in this window and %d in the one before, of which %d µs are left", current, previous, left)
	}
	return nil
}

// bucketBound: at most B + r·(T + ℓ) in any time T, which is a bucket that holds r·ℓ more.
func (x *trace) bucketBound() error {
	w, life := x.meter.Window, int64(x.life())
	var level int64
	for i, p := range x.passed {
		if i > 0 {
			level = max(0, level-int64(p.at-x.passed[i-1].at)*x.meter.Count)
		}
		level += p.cost * w
		if most := x.meter.Capacity*w + x.meter.Count*(life+x.meter.Tick); level > most {
			return fmt.Errorf("call %d brings a bucket that holds %d for a lease more to %d", i, most, level)
		}
	}
	return nil
}

// settled checks that everything charged was spent, has expired or is still there.
func (x *trace) settled() error {
	var stats Stats
	var held int64
	for _, node := range x.nodes {
		s := node.Stats()
		stats.Leased += s.Leased
		stats.Expired += s.Expired
		held += node.held()
	}
	if charged := x.shared.total(); !x.boundsOnly && charged != x.admitted+stats.Expired+held {
		return fmt.Errorf("%d were charged; %d passed, %d expired and %d are held", charged, x.admitted, stats.Expired, held)
	}
	if x.meter.Kind == algorithm.KindBucket {
		return x.bucketBound()
	}
	return nil
}
