package traffic

import (
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/rules"
)

// A request under several rules may step over the bound of a shard. The next one still finds it full.
func TestFullShardIsCollected(t *testing.T) {
	traffic := New()
	traffic.Close() // nothing else collects
	of := &rules.Snapshot{Rules: []*rules.Rule{{Name: "a"}}}
	for i := range traffic.shards {
		s := &traffic.shards[i]
		s.rules, s.callers = of, make([]clientKey, maxCallers+1)
	}
	traffic.Observe(&engine.Observation{Call: new(penstock.Call), Rules: of, Verdict: new(penstock.Verdict)})
	for i := range traffic.shards {
		if len(traffic.shards[i].callers) < maxCallers {
			return
		}
	}
	t.Error("no shard was collected")
}
