package wire

import (
	"math"
	"net/textproto"
	"strconv"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/bounds"
	"github.com/penstock-io/penstock/storage"
)

// A Report says how a request ended. The request is named by its reservation or by its request id.
type Report struct {
	Reservation, RequestID string
	Response               penstock.Response
}

// MaxRequestID bounds the length of a request id.
const MaxRequestID = 128

// ParseReport parses the body of /v1/report.
func ParseReport(body []byte) (r Report, err error) {
	r.Response.Bytes = penstock.UnknownBytes
	err = parseOne(body, func(p *parser, v value) {
		p.object(v, "", []field{
			{name: "reservation", read: func(v value, at string) { r.Reservation = p.text(v, at, 1, MaxBody) }},
			{name: "request_id", read: func(v value, at string) { r.RequestID = p.text(v, at, 1, MaxRequestID) }},
			{name: "status", read: func(v value, at string) { r.Response.Status = int(p.integer(v, at, 100, 599)) }},
			{name: "headers", read: func(v value, at string) { r.Response.Header = p.headers(v, at) }},
			{name: "duration_ms", read: func(v value, at string) { r.Response.Duration = p.milliseconds(v, at, 0, storage.MaxReserve) }},
			{name: "bytes", read: func(v value, at string) { r.Response.Bytes = p.integer(v, at, 0, math.MaxInt64) }},
		})
		if (r.Reservation == "") == (r.RequestID == "") && len(p.List) == 0 {
			p.Add("reservation", "set either reservation or request_id")
		}
	})
	return r, err
}

// AppendReport writes the body of /v1/report for a reservation, with those of the response's headers that are named.
func AppendReport(b []byte, reservation string, r *penstock.Response, headers []string) []byte {
	b = appendText(append(b, `{"reservation":`...), reservation)
	if r.Status >= 100 && r.Status <= 599 {
		b = strconv.AppendInt(append(b, `,"status":`...), int64(r.Status), 10)
	}
	b = strconv.AppendInt(append(b, `,"duration_ms":`...), min(r.Duration, storage.MaxReserve).Milliseconds(), 10)
	if r.Bytes >= 0 {
		b = strconv.AppendInt(append(b, `,"bytes":`...), r.Bytes, 10)
	}
	b = append(b, `,"headers":{`...)
	first := true
	for _, name := range headers {
		if r.Header == nil || r.Header(name) == "" {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = appendText(append(appendText(b, name), ':'), r.Header(name))
	}
	return append(b, '}', '}')
}

// maxHeaders bounds how many headers a report has.
const maxHeaders = 64

// headers reads the headers of a response and returns a function that finds them by their names.
func (p *parser) headers(v value, at string) func(name string) string {
	if v[0] != '{' {
		p.Add(at, "must be an object of strings, is %s", v.kind())
		return nil
	}
	found := map[string]string{}
	for rawName, member := range v.members() {
		if p.More {
			return nil
		}
		if len(found) == maxHeaders {
			p.Add(at, "at most %d headers", maxHeaders)
			return nil
		}
		name := textproto.CanonicalMIMEHeaderKey(p.text(rawName, at, 1, bounds.AttributeName))
		if _, twice := found[name]; twice {
			p.Add(memberPath(at, name), "is given twice")
		}
		found[name] = p.text(member, memberPath(at, name), 0, bounds.AttributeValue)
	}
	return func(name string) string { return found[textproto.CanonicalMIMEHeaderKey(name)] }
}
