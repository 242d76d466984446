package admin

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-io/penstock/internal/wire"
)

// A query is the query parameters of a request. Each is read once.
type query struct {
	given    url.Values
	mistakes wire.FieldErrors
}

func (x *apiRequest) query() *query { return &query{given: x.r.URL.Query()} }

// text returns a parameter, or "" if it is missing.
func (q *query) text(name string) string {
	values := q.given[name]
	delete(q.given, name)
	if len(values) > 1 {
		q.fail(name, "is there twice")
	}
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// number returns a numeric parameter within bounds.
func (q *query) number(name string, otherwise, least, most int64) int64 {
	text := q.text(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		q.fail(name, "invalid number %.32q: must be from %d to %d", text, least, most)
	}
	return n
}

func (q *query) flag(name string) bool {
	text := q.text(name)
	if text != "" && text != "true" && text != "false" {
		q.fail(name, "%.32q is not true or false", text)
	}
	return text == "true"
}

func (q *query) fail(name, format string, args ...any) {
	q.mistakes.Add(fmt.Sprintf("%.64s", name), format, args...)
}

// err returns all errors, including parameters that were never read.
func (q *query) err() error {
	for name := range q.given {
		if len(q.mistakes.List) < wire.MaxMistakes {
			q.fail(name, "unknown parameter")
		}
	}
	slices.SortFunc(q.mistakes.List, func(a, b wire.FieldError) int { return strings.Compare(a.At, b.At) })
	return q.mistakes.Err()
}
