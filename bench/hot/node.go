package hot

import (
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/engine/breaker"
	"github.com/penstock-io/penstock/engine/denycache"
	"github.com/penstock-io/penstock/engine/lease"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/rules"
)

// Paths, each with its rule.
const (
	exactPath  = "/exact"
	leasedPath = "/leased"
	deniedPath = "/denied"
	scarcePath = "/scarce"
)

const (
	roomy        = 1_000_000_000 // more than a benchmark uses
	roomyWindow  = 366 * 24 * time.Hour
	scarceWindow = time.Second
)

// document returns the rules of all nodes. The window of the denied rule is longer than a benchmark, so that a
// client that has used its one request stays denied.
func document(scarce int64) string {
	return fmt.Sprintf(`
rules:
  - {name: exact, match: {path: %s}, key: [user], limits: [{rate: %d/366d, algorithm: fixed_window}]}
  - {name: leased, match: {path: %s}, key: [user], consistency: leased, limits: [{rate: %d/366d, algorithm: fixed_window}]}
  - {name: denied, match: {path: %s}, key: [user], limits: [{rate: 1/366d, algorithm: token_bucket}]}
  - {name: scarce, match: {path: %s}, key: [user], consistency: leased, limits: [{rate: %d/1s, algorithm: fixed_window}]}
`, exactPath, roomy, leasedPath, roomy, deniedPath, scarcePath, scarce)
}

func compile(scarce int64) (*rules.Snapshot, error) {
	s, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(document(scarce))}}, rules.Options{Secret: "of the benchmark"})
	return s, err
}

// timeout is long, so that a busy machine slows a benchmark down and does not end it.
const timeout = 10 * time.Second

// A node is an engine with its own connections, leases and deny cache, as in internal/server.
type node struct {
	*engine.Engine
	redis *redisstore.Store
	ends  []func()
}

func openNode(o redisstore.Options, s *rules.Snapshot) (n *node, err error) {
	n = &node{}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		return n, err
	}
	n.ends = append(n.ends, func() { memory.Close() })
	o.Timeout = timeout
	if n.redis, err = redisstore.Open(o); err != nil {
		return n, err
	}
	n.ends = append(n.ends, func() { n.redis.Close() })
	around, err := breaker.New(breaker.Options{Store: n.redis, Probe: n.redis.PingZone})
	if err != nil {
		return n, err
	}
	n.ends = append(n.ends, around.Close)
	leases, err := lease.New(around, lease.Options{})
	if err != nil {
		return n, err
	}
	denied, err := denycache.New(leases, denycache.Options{})
	if err != nil {
		return n, err
	}
	n.Engine, err = engine.New(engine.Options{Store: denied, Local: memory, Rules: engine.Fixed(s)})
	return n, err
}

// close closes what was opened, the last first.
func (n *node) close() {
	for i := range n.ends {
		n.ends[len(n.ends)-1-i]()
	}
}

func newCall(path, user string, cost int64) *penstock.Call {
	return &penstock.Call{Cost: cost, Attributes: []penstock.Attribute{{Name: "path", Value: path}, {Name: "user", Value: user}}}
}
