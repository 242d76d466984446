package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/internal/trafficdb"
)

// History is what the nodes counted over a period, by step, those that have ended included.
type History struct {
	traffic.Query
	Now   time.Time // a step that ends later is not complete
	Nodes []Node    // that were asked, this one first
	Past  []*trafficdb.Past
	Err   error // why some of it may be missing

	Annotations []ruledb.Annotation // in no order; of all nodes
}

// ErrNoHistory is returned if a node keeps none.
var ErrNoHistory = errors.New("this node keeps no history: data_dir is not writable")

// History returns the history of all nodes, or of those with a name or an ID. Nodes with a database of their own are
// asked for it.
func (f *Fleet) History(ctx context.Context, q traffic.Query, node string) (*History, error) {
	if f.options.History == nil {
		return nil, ErrNoHistory
	}
	all := &History{Query: q, Now: time.Now().UTC(), Nodes: []Node{f.Self()}}
	all.Past, all.Err = f.options.History.Read(ctx, q, nil)
	written := annotations{}
	own, err := f.options.History.Annotations(ctx, &q)
	if all.Err == nil {
		all.Err = err
	}
	written.add(own)
	have := map[string]int64{}
	for _, p := range all.Past {
		have[p.Node] = p.Last
	}
	others, _ := f.selected("")
	f.askNodes(ctx, others, &question{Past: &q, Have: have, Annotations: &q}, func(_ *Node, a *answer) {
		written.add(a.Annotations)
		for _, p := range a.Past {
			if p != nil && p.Fits(q.Steps()) {
				all.Past = append(all.Past, p)
			}
		}
	})
	all.Nodes = append(all.Nodes, others...)
	all.Annotations = slices.Collect(maps.Values(written))
	if node != "" {
		all.Past = slices.DeleteFunc(all.Past, func(p *trafficdb.Past) bool { return p.Node != node && p.Name != node })
		all.Nodes = slices.DeleteFunc(all.Nodes, func(n Node) bool { return n.ID != node && n.Name != node })
	}
	return all, nil
}
