package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/storage"
)

// Each test here runs twice: with the correct wiring, where the judge must find nothing, and with one sabotaged
// part, which it must find.

// retrying asks again after an error, as Redis clients do by default.
type retrying struct{ storage.FullStore }

func (r retrying) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) (err error) {
	for range 3 {
		if err = r.FullStore.Take(ctx, t, out); !errors.Is(err, penstock.ErrUnavailable) {
			return err
		}
	}
	return err
}

func TestRetriesChargeTwice(t *testing.T) {
	besideOthers(t)
	lossy := func(s spoiler) *figures {
		link := startProxy(t, redistest.Start(t).Addr)
		nodes := []penstock.Decider{embed(t, link.Addr, s), embed(t, link.Addr, s)}
		link.set(losing)
		return judge(drive(nodes, 0, 4000), span{}, bound{nodes: len(nodes), lives: 1, unheard: true})
	}
	lossy(spoiler{}).check(t)
	spoilt := lossy(spoiler{store: func(s storage.FullStore) storage.FullStore { return retrying{s} }})
	if spoilt.falseDenials == 0 {
		t.Error("calls whose replies are lost are sent again, and nobody was denied for having been charged twice")
	}
}

// losing is a link that loses one reply in twenty.
var losing = link{lose: 0.05}

func TestEvictionFreesTheBlocked(t *testing.T) {
	besideOthers(t)
	pressed := func(policy string) *figures {
		redis := redistest.Start(t, "--maxmemory", "8mb", "--maxmemory-policy", policy)
		nodes := []penstock.Decider{embed(t, redis.Addr, spoiler{}), embed(t, redis.Addr, spoiler{})}
		const half = 600
		answers := drive(nodes, 0, half)
		crowdOut(t, redis.Addr)
		_, err := redistest.Command(redis.Addr, "CONFIG", "SET", "maxmemory", "0")
		must(t, err)
		return judge(append(answers, drive(nodes, half, 2*half)...), span{}, exactly)
	}
	pressed("noeviction").check(t)
	if spoilt := pressed("allkeys-lru"); spoilt.over == 0 || len(spoilt.mistakes) == 0 {
		t.Errorf("the state of callers was evicted, and it was not noticed: %d over", spoilt.over)
	}
}

// crowdOut fills a server with keys of others until it has none of ours left, or takes no more.
func crowdOut(t *testing.T, addr string) {
	t.Helper()
	for end := time.Now().Add(atLast); ; {
		const fill = "for i = 1, 500 do redis.call('SET', 'other:' .. ARGV[1] .. i, string.rep('x', 500)) end return #redis.call('KEYS', 'pen:*')"
		ours, err := redistest.Command(addr, "EVAL", fill, "0", time.Now().Format(time.RFC3339Nano))
		if err != nil || ours == "0" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v there are still %s keys of ours", atLast, ours)
		}
	}
}

func TestCallersClocksShow(t *testing.T) {
	besideOthers(t)
	skewed := func(by time.Duration) *figures {
		redis := redistest.Start(t)
		var nodes []penstock.Decider
		for i := range 2 {
			s := spoiler{}
			if by != 0 {
				s.now = func() penstock.Instant { return penstock.InstantOf(time.Now().Add(time.Duration(i) * by)) }
			}
			nodes = append(nodes, embed(t, redis.Addr, s))
		}
		return judge(drive(nodes, 0, 2000), span{}, exactly)
	}
	skewed(0).check(t)
	if spoilt := skewed(40 * day); spoilt.over == 0 || len(spoilt.mistakes) == 0 {
		t.Errorf("nodes decided by clocks that differ by more than the window, and it was not noticed: %d over", spoilt.over)
	}
}

// ignorantStore is a local store that does not learn what Redis answers.
type ignorantStore struct{ penstock.Store }

// unchargingStore is a store that does not charge late, and says that it did.
type unchargingStore struct{ storage.FullStore }

func (unchargingStore) ChargeLate(context.Context, *storage.LateCharge) error { return nil }

// Nodes continue from the last answer of Redis, and Redis is charged with what they allowed meanwhile.
func TestOutageWithinItsBound(t *testing.T) {
	besideOthers(t)
	outage := func(s spoiler) *figures {
		redis := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
		nodes := []penstock.Decider{embed(t, redis.Addr, s), embed(t, redis.Addr, s)}
		const third = 700
		l := &load{nodes: nodes, began: time.Now()}
		answers := l.drive(0, third)
		fault := span{from: l.now()}
		must(t, redis.Kill())
		time.Sleep(1100 * time.Millisecond) // until no denial is cached any more
		answers = append(answers, l.drive(third, 2*third)...)
		must(t, redis.Restart())
		for _, n := range nodes {
			e := n.(embedded)
			eventually(t, "the breaker closes", func() bool {
				var v penstock.Verdict
				stranger := caller{&kinds[0], 0, int(time.Now().UnixNano())}
				return e.Engine.Decide(t.Context(), stranger.call(), &v) == nil
			})
		}
		fault.to = l.now()
		return judge(append(answers, l.drive(2*third, 3*third)...), fault, bound{nodes: len(nodes), lives: 1})
	}
	sound := outage(spoiler{})
	sound.check(t)
	if spoilt := outage(spoiler{local: func(s penstock.Store) penstock.Store { return ignorantStore{s} }}); len(spoilt.mistakes) == 0 {
		t.Errorf("nodes began with nothing, and it was not noticed: %d over, at most %d", spoilt.over, spoilt.bound)
	}
	if spoilt := outage(spoiler{store: func(s storage.FullStore) storage.FullStore { return unchargingStore{s} }}); spoilt.over <= sound.over {
		t.Errorf("Redis was not charged with what was admitted without it, and no more passed: %d over, and %d if it is", spoilt.over, sound.over)
	}
}

// brokenNode is a node that does not answer, or says that it cannot.
type brokenNode struct{ err error }

func (b brokenNode) Decide(context.Context, *penstock.Call, *penstock.Verdict) error { return b.err }

func TestFailuresAreCounted(t *testing.T) {
	besideOthers(t)
	nodes := []penstock.Decider{brokenNode{context.DeadlineExceeded}, brokenNode{errors.New("500 Internal Server Error")}}
	const calls = 200
	if f := judge(drive(nodes, 0, calls), span{}, exactly); f.lost+f.errors != calls || f.lost == 0 || f.errors == 0 || len(f.mistakes) == 0 {
		t.Errorf("%d lost and %d errors of %d calls that were one or the other", f.lost, f.errors, calls)
	}
}
