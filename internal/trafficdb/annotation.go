package trafficdb

import (
	"context"

	"github.com/penstock-io/penstock/internal/ruledb"
)

// Annotate saves an annotation in this node's database.
func (r *Recorder) Annotate(ctx context.Context, n *ruledb.Annotation) error {
	db, err := r.options.Database(ctx)
	if err != nil {
		return err
	}
	return db.Annotate(ctx, n)
}

// Annotations returns the annotations of a period in this node's database.
func (r *Recorder) Annotations(ctx context.Context, q *Query) ([]ruledb.Annotation, error) {
	db, err := r.options.Database(ctx)
	if err != nil {
		return nil, err
	}
	return db.Annotations(ctx, q.From, q.To, q.Rule)
}

// DeleteAnnotation deletes an annotation from this node's database, and reports whether there was one.
func (r *Recorder) DeleteAnnotation(ctx context.Context, id string) (bool, error) {
	db, err := r.options.Database(ctx)
	if err != nil {
		return false, err
	}
	return db.DeleteAnnotation(ctx, id)
}
