package httplimit

import (
	"net/http"
	"strconv"
	"sync"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/problem"
)

// A message is the memory for one denial that is written as a whole.
type message struct {
	detail, body []byte
	text         []byte // of the numbers in the header
	fields       [8]problem.Field
}

var messages = sync.Pool{New: func() any { return new(message) }}

// Values of fields that are always the same.
var (
	noStore     = []byte("no-store")
	noSniff     = []byte("nosniff")
	problemType = []byte(problem.MediaType)
)

// writeTo writes a denial as DenyWith does otherwise, with the same header in the same order, but without collecting
// that in a map. It returns false, and has written nothing, if the response must be written the other way.
func (m *message) writeTo(rw problem.WholeWriter, w *Writer, req *http.Request, v *penstock.Verdict, p *denialBody) bool {
	if prefersPage(req.Header.Get("Accept")) {
		return false
	}
	m.body = p.appendJSON(m.body[:0])
	fields := append(m.fields[:0], problem.Field{Name: "Cache-Control", Value: noStore})
	text := m.text[:0]
	add := func(name string, longer []byte) {
		if n := len(text); len(longer) > n {
			fields = append(fields, problem.Field{Name: name, Value: longer[n:]})
		}
		text = longer
	}
	add("Content-Length", strconv.AppendInt(text, int64(len(m.body)), 10))
	fields = append(fields, problem.Field{Name: "Content-Type", Value: problemType})
	if w.ietf {
		add("RateLimit", appendField(text, stateField, v))
		add("RateLimit-Policy", appendField(text, policyField, v))
	}
	if wait, ok := retryAfter(v); ok {
		add("Retry-After", strconv.AppendInt(text, ceilSeconds(wait), 10))
	}
	fields = append(fields, problem.Field{Name: "X-Content-Type-Options", Value: noSniff})
	m.text = text
	return rw.WriteWhole(p.Status, fields, m.body, 0)
}
