package ruledb

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/penstock-io/penstock"
)

// An Annotation is what a person wrote about an instant of the history.
type Annotation struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	Rule   string    `json:"rule,omitempty"` // "": all rules
	Text   string    `json:"text"`
	Author string    `json:"author"`
}

// Bounds of annotations.
const (
	MaxAnnotations    = 1000 // in a database
	MaxAnnotationText = 500  // bytes
	maxAnnotationName = 256  // bytes of a rule, and of an author
)

// ErrManyAnnotations is returned if the database has as many annotations as it can have.
var ErrManyAnnotations = fmt.Errorf("%w: there are %d annotations, which is the most: delete one, or wait until the oldest are pruned", ErrRefused, MaxAnnotations)

// Validate reports whether the database accepts an annotation.
func (n *Annotation) Validate() error {
	switch {
	case strings.TrimSpace(n.Text) == "" || len(n.Text) > MaxAnnotationText:
		return fmt.Errorf("%w: the text of the annotation has %d bytes, must have from 1 to %d", penstock.ErrInvalid, len(n.Text), MaxAnnotationText)
	case !utf8.ValidString(n.Text) || strings.ContainsRune(n.Text, 0):
		return fmt.Errorf("%w: the text of the annotation is not valid UTF-8", penstock.ErrInvalid)
	case len(n.Rule) > maxAnnotationName || len(n.Author) > maxAnnotationName:
		return fmt.Errorf("%w: the rule of the annotation has %d bytes and its author %d, must have at most %d", penstock.ErrInvalid, len(n.Rule), len(n.Author), maxAnnotationName)
	}
	return nil
}

// Annotate adds an annotation.
func (db *DB) Annotate(ctx context.Context, n *Annotation) error {
	if err := n.Validate(); err != nil {
		return err
	}
	added, err := changes(ctx, db.sql, `
		INSERT INTO traffic_annotations (id, at, rule, body, author)
		SELECT $1, $2, $3, $4, $5 WHERE (SELECT count(*) FROM traffic_annotations) < $6`,
		n.ID, n.At.UnixMicro(), n.Rule, n.Text, n.Author, MaxAnnotations)
	if err == nil && !added {
		return ErrManyAnnotations
	}
	return db.failed("annotate in", err)
}

// Annotations returns the annotations from one time to before another, the oldest first. With a rule, it returns those
// of this rule and of all rules.
func (db *DB) Annotations(ctx context.Context, from, to time.Time, rule string) ([]Annotation, error) {
	return readAll(ctx, db, "read annotations of", `SELECT id, at, rule, body, author FROM traffic_annotations
		WHERE at >= $1 AND at < $2 AND ($3 = '' OR rule = '' OR rule = $3) ORDER BY at, id LIMIT $4`, []any{from.UnixMicro(), to.UnixMicro(), rule, MaxAnnotations},
		func(n *Annotation) []any { return []any{&n.ID, timeColumn(&n.At), &n.Rule, &n.Text, &n.Author} })
}

// DeleteAnnotation deletes an annotation, and reports whether there was one.
func (db *DB) DeleteAnnotation(ctx context.Context, id string) (bool, error) {
	deleted, err := changes(ctx, db.sql, `DELETE FROM traffic_annotations WHERE id = $1`, id)
	return deleted, db.failed("delete an annotation of", err)
}
