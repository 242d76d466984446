package admin

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock/internal/fleet"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/trafficdb"
	"github.com/penstock-io/penstock/rules"
)

// markAnnotation is the kind of marks that people wrote.
const markAnnotation = "annotation"

// An Annotation is what a person wrote about an instant of the history.
type Annotation struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	Rule   string    `json:"rule,omitempty"` // "": all rules
	Text   Detail    `json:"text"`
	Author string    `json:"author"`
}

// Annotations are the annotations of a period.
type Annotations struct {
	Annotations []Annotation `json:"annotations"`       // newest first
	Problem     string       `json:"problem,omitempty"` // why some may be missing
}

// A DeletedAnnotation names an annotation that was deleted.
type DeletedAnnotation struct {
	ID string `json:"id"`
}

func annotationOf(n *ruledb.Annotation) Annotation {
	return Annotation{n.ID, n.At, n.Rule, Detail(n.Text), n.Author}
}

func (a *Admin) listAnnotations(x *apiRequest) (any, error) {
	q := x.query()
	ask := x.between(q)
	ask.Rule = q.text("rule")
	if err := q.err(); err != nil {
		return nil, err
	}
	found, err := a.Fleet.Annotations(x.r.Context(), &ask)
	if errors.Is(err, fleet.ErrNoHistory) {
		return nil, refuse(http.StatusServiceUnavailable, Unavailable, err.Error())
	}
	slices.SortFunc(found, func(a, b ruledb.Annotation) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID)) })
	told := Annotations{Annotations: each(found, annotationOf)}
	if err != nil {
		told.Problem = err.Error()
	}
	return told, nil
}

// annotate adds an annotation. What it is about may have happened at any time that the history reaches back to.
func (a *Admin) annotate(x *apiRequest, asked *struct {
	At   string `json:"at"`
	Rule string `json:"rule"`
	Text string `json:"text"`
}) (any, error) {
	n := ruledb.Annotation{ID: rand.Text()[:12], At: a.Now(), Rule: asked.Rule, Text: strings.TrimSpace(asked.Text), Author: x.who.String()}
	if asked.At != "" {
		at, err := a.annotatedTime(asked.At)
		if err != nil {
			return nil, err
		}
		n.At = at
	}
	n.At = n.At.UTC().Truncate(time.Millisecond)
	if err := a.Fleet.Annotate(x.r.Context(), &n); err != nil {
		return nil, annotationProblem(err)
	}
	a.record(x, "annotate", n.ID+": "+n.Text)
	return annotationOf(&n), nil
}

// annotatedTime reads a time that the history can have.
func (a *Admin) annotatedTime(text string) (time.Time, error) {
	const clocks = time.Minute // between the clock of the person and the node's
	at, err := time.Parse(time.RFC3339, text)
	if now := a.Now(); err != nil || at.After(now.Add(clocks)) || at.Before(now.Add(-trafficdb.Reach)) {
		return at, mistake("at", "invalid time %.40q: must be within the last %v, for example %s", text, rules.Duration(trafficdb.Reach), now.UTC().Format(time.RFC3339))
	}
	return at, nil
}

func (a *Admin) deleteAnnotation(x *apiRequest) (any, error) {
	id := x.r.PathValue("id")
	deleted, err := a.Fleet.DeleteAnnotation(x.r.Context(), id)
	if err != nil {
		return nil, annotationProblem(err)
	}
	if !deleted {
		return nil, refuse(http.StatusNotFound, NotFound, fmt.Sprintf("there is no annotation %.40q", id))
	}
	a.record(x, "delete-annotation", id)
	return DeletedAnnotation{id}, nil
}

// annotationProblem is the problem of an annotation that could not be changed.
func annotationProblem(err error) *Problem {
	if p := problemOf(err); p.Status != http.StatusInternalServerError {
		return p
	}
	return refuse(http.StatusServiceUnavailable, Unavailable, err.Error())
}
