package faults

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/engine/breaker"
	"github.com/penstock-io/penstock/engine/denycache"
	"github.com/penstock-io/penstock/engine/lease"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// A spoiler is what is wrong with the wiring of an engine.
type spoiler struct {
	store func(storage.FullStore) storage.FullStore // nil: nothing, as with the other
	local func(penstock.Store) penstock.Store
	now   func() penstock.Instant
}

// An embedded node is the program's parts put together in this process, as the program does it.
type embedded struct{ *engine.Engine }

// Decide leaves a verdict and hides a store failure from the client.
func (e embedded) Decide(ctx context.Context, c *penstock.Call, v *penstock.Verdict) error {
	err := e.Engine.Decide(ctx, c, v)
	if errors.Is(err, penstock.ErrUnavailable) {
		return nil
	}
	return err
}

// embed makes a node with a store at addr. It waits long for that: here nothing depends on time.
func embed(t *testing.T, addr string, s spoiler) penstock.Decider {
	t.Helper()
	redis, err := redisstore.Open(redisstore.Options{Addresses: []string{addr}, Timeout: patient})
	must(t, err)
	t.Cleanup(func() { redis.Close() })
	var store storage.FullStore = redis
	if s.store != nil {
		store = s.store(store)
	}
	guarded, err := breaker.New(breaker.Options{Store: store, Probe: redis.PingZone, Judge: func(err error) breaker.Severity {
		if redisstore.KindOf(err).Down(redisstore.Single) {
			return breaker.Down
		}
		return breaker.Failure
	}})
	must(t, err)
	t.Cleanup(guarded.Close)
	leased, err := lease.New(guarded, lease.Options{})
	must(t, err)
	denied, err := denycache.New(leased, denycache.Options{})
	must(t, err)
	memory, err := memstore.New(memstore.Options{MaxBytes: 8 << 20})
	must(t, err)
	t.Cleanup(func() { memory.Close() })
	var local penstock.Store = memory
	if s.local != nil {
		local = s.local(memory)
	}
	doc, err := rules.Parse("rules.yaml", []byte(rulesText(1)))
	must(t, err)
	snapshot, _, err := rules.Compile(doc, rules.Options{Secret: "of the tests"})
	must(t, err)
	e, err := engine.New(engine.Options{Store: denied, Local: local, Rules: engine.Fixed(snapshot), Now: s.now, Nodes: func() int { return 2 }})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		_ = e.Close(ctx)
	})
	return embedded{e}
}

// drive sends some requests of a load, as fast as a few senders can.
func drive(nodes []penstock.Decider, from, to int) []*answer {
	return (&load{nodes: nodes, began: time.Now()}).drive(from, to)
}

func (l *load) drive(from, to int) []*answer {
	answers := make([]*answer, to-from)
	var senders sync.WaitGroup
	const abreast = 8
	for i := range abreast {
		senders.Go(func() {
			for n := from + i; n < to; n += abreast {
				a := &answer{caller: callerOf(n), node: nodeOf(n) % len(l.nodes)}
				l.send(a)
				answers[n-from] = a
			}
		})
	}
	senders.Wait()
	return answers
}
