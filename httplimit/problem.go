package httplimit

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/problem"
)

// A denialBody is the body of a denial: RFC 9457, and the fields that clients of older limiters expect. A
// flood of requests means a flood of these, so they are encoded by hand, with the same result as
// encoding/json.
type denialBody struct {
	Type, Title    string // constant text, as are Error and Message
	Status         int
	Detail         []byte // may contain names that the operator chose
	Error, Message string
	Limits         []penstock.LimitVerdict // those that deny are listed
	Wait           time.Duration           // until the client may retry; penstock.Never: it cannot; 0: unknown
}

// write writes the response.
func (p *denialBody) write(rw http.ResponseWriter, req *http.Request, status int) {
	h := rw.Header()
	body := bodies.Get().(*[]byte)
	if prefersPage(req.Header.Get("Accept")) {
		h["Content-Security-Policy"] = pagePolicy
		*body = p.appendPage((*body)[:0])
		problem.Header(h, pageType)
	} else {
		*body = p.appendJSON((*body)[:0])
		problem.Header(h, problem.JSON)
	}
	h["Content-Length"] = []string{strconv.Itoa(len(*body))}
	rw.WriteHeader(status)
	if req.Method != http.MethodHead {
		_, _ = rw.Write(*body) // the client may have disconnected
	}
	bodies.Put(body)
}

var bodies = sync.Pool{New: func() any { return new([]byte) }}

var pageType = []string{"text/html; charset=utf-8"}

func (p *denialBody) appendJSON(b []byte) []byte {
	b = append(append(b, `{"type":"`...), p.Type...)
	b = append(append(b, `","title":"`...), p.Title...)
	b = strconv.AppendInt(append(b, `","status":`...), int64(p.Status), 10)
	b = appendText(append(b, `,"detail":`...), p.Detail)
	b = p.appendViolated(b)
	b = append(append(b, `,"error":"`...), p.Error...)
	b = append(append(b, `","message":"`...), p.Message...)
	b = append(b, '"')
	switch p.Wait {
	case 0:
	case penstock.Never:
		b = append(b, `,"retry_after_seconds":null,"retry_after_ms":null`...)
	default:
		b = strconv.AppendInt(append(b, `,"retry_after_seconds":`...), ceilSeconds(p.Wait), 10)
		b = strconv.AppendInt(append(b, `,"retry_after_ms":`...), ceilDiv(p.Wait, time.Millisecond), 10)
	}
	return append(b, "}\n"...)
}

func (p *denialBody) appendViolated(b []byte) []byte {
	const name = `,"violated-policies":[`
	separator := name
	for i := range p.Limits {
		if l := &p.Limits[i]; !l.Shadow && !l.Allowed {
			b = appendText(append(b, separator...), l.Policy)
			separator = ","
		}
	}
	if separator != name {
		b = append(b, ']')
	}
	return b
}

func appendText[T string | []byte](b []byte, s T) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(string(s)) // marshalling a string cannot fail
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
