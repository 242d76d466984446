package faults

import (
	"context"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/redistest"
)

// campaignSize is how many requests are answered at least: ten million in the long form, of which none
// may be lost (99.99999 %). PENSTOCK_TEST_CAMPAIGN sets another number.
func campaignSize(t *testing.T) int64 {
	if text := os.Getenv("PENSTOCK_TEST_CAMPAIGN"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		must(t, err)
		return n
	}
	if long {
		return 10_000_000
	}
	return 5_000
}

// Whatever breaks, however often, every request is answered.
func TestCampaign(t *testing.T) {
	besideOthers(t)
	redis := redistest.Start(t)
	proxy := startProxy(t, redis.Addr)
	var nodes []*node
	from := rulesFile(t, rulesText(1))
	for range run.nodes {
		n := startNode(t, t.TempDir(), onRedis("single", proxy.Addr), from)
		eventually(t, "the node is connected to Redis", n.connected)
		nodes = append(nodes, n)
	}
	c := campaign{t: t, nodes: nodes, size: campaignSize(t)}
	var all sync.WaitGroup
	for range 64 {
		all.Go(c.send)
	}
	c.breakThings(redis, proxy)
	all.Wait()
	c.report()
	if lost := c.lost.Load() + c.errors.Load(); lost > 0 || c.answered.Load() != c.sent.Load() {
		t.Errorf("%d of %d requests were not answered", lost, c.sent.Load())
	}
	if exact := c.exact.Load(); exact == 0 || exact == c.answered.Load() {
		t.Errorf("%d of %d answers were exact: Redis was never there, or always", exact, c.answered.Load())
	}
}

// A campaign sends requests, each sender the next one when it has an answer.
type campaign struct {
	t     *testing.T
	nodes []*node
	size  int64

	over                                atomic.Bool
	sent, answered, exact, lost, errors atomic.Int64
	faults                              int
}

func (c *campaign) report() {
	c.t.Logf("%d requests answered, %d of them exactly; %d lost, %d errors; %d faults", c.answered.Load(), c.exact.Load(), c.lost.Load(), c.errors.Load(), c.faults)
}

func (c *campaign) send() {
	for !c.over.Load() {
		n := c.sent.Add(1)
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		var v penstock.Verdict
		err := c.nodes[nodeOf(int(n))%len(c.nodes)].Decide(ctx, callerOf(int(n)).call(), &v)
		switch {
		case err == nil:
			c.answered.Add(1)
			if v.Quality == penstock.QualityExact || v.Quality == penstock.QualityLeased {
				c.exact.Add(1)
			}
		case ctx.Err() != nil:
			c.lost.Add(1)
		default:
			c.errors.Add(1)
			c.t.Logf("request %d: %v", n, err)
		}
		cancel()
	}
}

// breakThings injects one fault after the other, each at least once, until enough requests are
// answered.
func (c *campaign) breakThings(redis *redistest.Server, proxy *proxy) {
	defer c.over.Store(true)
	hold := func() { time.Sleep(run.lasting / 2) }
	kinds := []func(){
		func() { must(c.t, redis.Pause()); hold(); must(c.t, redis.Resume()) },
		func() { must(c.t, redis.Kill()); hold(); must(c.t, redis.Restart()) },
		func() { proxy.set(link{lose: 0.02, reset: 0.02}); hold(); proxy.set(link{}) },
		func() { proxy.set(link{silent: true}); hold(); proxy.set(link{}) },
		func() { proxy.set(link{delay: 20 * time.Millisecond}); hold(); proxy.set(link{}) },
		proxy.cut,
		proxy.swallow,
	}
	told := int64(0)
	for c.answered.Load()+c.lost.Load()+c.errors.Load() < c.size || c.faults < len(kinds) {
		hold()
		kinds[c.faults%len(kinds)]()
		c.faults++
		if part := c.answered.Load() * 20 / c.size; part > told {
			told = part
			c.report()
		}
	}
}
