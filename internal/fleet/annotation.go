package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/traffic"
)

// Annotate saves an annotation in the database of this node, which may be that of all.
func (f *Fleet) Annotate(ctx context.Context, n *ruledb.Annotation) error {
	if f.options.History == nil {
		return ErrNoHistory
	}
	return f.options.History.Annotate(ctx, n)
}

// Annotations returns the annotations of a period from the databases of all nodes, in no order. The error is of this
// node's database; there may be annotations of other nodes.
func (f *Fleet) Annotations(ctx context.Context, q *traffic.Query) ([]ruledb.Annotation, error) {
	if f.options.History == nil {
		return nil, ErrNoHistory
	}
	found := annotations{}
	own, err := f.options.History.Annotations(ctx, q)
	found.add(own)
	others, _ := f.selected("")
	f.askNodes(ctx, others, &question{Annotations: q}, func(_ *Node, a *answer) { found.add(a.Annotations) })
	return slices.Collect(maps.Values(found)), err
}

// DeleteAnnotation deletes an annotation from the databases of all nodes, and reports whether there was one.
func (f *Fleet) DeleteAnnotation(ctx context.Context, id string) (deleted bool, err error) {
	if f.options.History == nil {
		return false, ErrNoHistory
	}
	if deleted, err = f.options.History.DeleteAnnotation(ctx, id); deleted {
		return true, nil
	}
	others, _ := f.selected("")
	f.askNodes(ctx, others, &question{DeleteAnnotation: id}, func(_ *Node, a *answer) { deleted = deleted || a.Deleted })
	for _, n := range others {
		if !n.Answered && !deleted {
			err = errors.Join(err, errors.New("node "+n.Name+": "+n.Problem))
		}
	}
	if deleted {
		return true, nil
	}
	return false, err
}

// annotations are those of several databases, by ID: nodes can share one.
type annotations map[string]ruledb.Annotation

func (all annotations) add(some []ruledb.Annotation) {
	for _, n := range some {
		if n.Validate() == nil { // another node may have sent it
			all[n.ID] = n
		}
	}
}
