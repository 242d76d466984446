package httplimit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/usage"
)

// A metered is what rules take from the body of a response while it is written.
type metered struct {
	*penstock.Metering
	limiter     *Limiter
	req         *http.Request
	reservation string
	prompt      int64 // tokens of the request by its length, at most what is reserved

	meter   *usage.Meter // nil until the response begins
	status  int
	plain   bool // the body is not compressed: an event can be added
	between bool // what was sent ends with an event

	granted int64 // what may be used: reserved, and more that was granted
	charged int64 // of that, in addition to what is reserved
	cut     bool
}

// newMetered returns nil if rules take nothing from the body.
func (l *Limiter) newMetered(req *http.Request, v *penstock.Verdict) *metered {
	if v.Metering == nil {
		return nil
	}
	bytes := req.ContentLength
	if b, ok := req.Body.(*bufferedBody); ok && bytes < 0 {
		bytes = int64(len(b.read))
	}
	return &metered{
		Metering: v.Metering, limiter: l, req: req, reservation: v.Reservation,
		prompt: min(usage.PromptTokens(bytes), v.Metering.Reserved), granted: v.Metering.Reserved,
	}
}

// readable returns the request for the next handler, with an Accept-Encoding whose responses can be read. A response
// that may be cut must not be compressed, so that an event can tell the client.
func (m *metered) readable(req *http.Request) *http.Request {
	if m == nil || len(req.Header["Accept-Encoding"]) == 0 {
		return req
	}
	copied := *req
	copied.Header = req.Header.Clone()
	if copied.Header.Del("Accept-Encoding"); m.Cut == "" && acceptsGzip(req.Header["Accept-Encoding"]) {
		copied.Header.Set("Accept-Encoding", "gzip")
	}
	return &copied
}

func acceptsGzip(lines []string) bool {
	for coding := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		q, isWeight := strings.CutPrefix(strings.TrimSpace(weight), "q=")
		n, err := strconv.ParseFloat(q, 64)
		return !isWeight || err == nil && n > 0
	}
	return false
}

// begin prepares for the body of a response with this header.
func (m *metered) begin(status int, h http.Header) {
	if m == nil || status == http.StatusSwitchingProtocols {
		return
	}
	encoding := h.Get("Content-Encoding")
	m.status, m.plain = status, encoding == "" || strings.EqualFold(encoding, "identity")
	m.meter = usage.New(m.Fields, h.Get("Content-Type"), encoding)
	m.between = true
}

// errBudget is what a handler gets whose response is cut.
var errBudget = errors.New("the response was cut: the limits allow no more")

// admit reads the next part of the body before it is sent, and returns how much of it may be. With an error the
// response ends there.
func (m *metered) admit(p []byte) (int, error) {
	switch {
	case m == nil || m.meter == nil:
		return len(p), nil
	case m.cut:
		return 0, errBudget
	case m.Cut == "" || !m.meter.IsStream() || m.status >= http.StatusBadRequest:
		m.meter.Write(p)
		return len(p), nil
	}
	fits := 0 // the end of the last event that may be sent
	for rest := p; len(rest) > 0; {
		part := rest
		if end := bytes.IndexByte(rest, '\n'); m.plain && end >= 0 {
			part = rest[:end+1]
		}
		m.meter.Write(part)
		rest = rest[len(part):]
		used := m.meter.Streamed(m.Cut, m.prompt)
		if used > m.granted && !m.chargeMore(used-m.granted) {
			m.cut, m.between = true, m.plain && (m.between || fits > 0)
			return fits, errBudget
		}
		if m.meter.IsBetweenEvents() {
			fits = len(p) - len(rest)
		}
	}
	m.between = m.meter.IsBetweenEvents()
	return len(p), nil
}

// endCut ends a response that was cut with an event, if it can.
func (m *metered) endCut(w http.ResponseWriter) {
	if m.between {
		_, _ = io.WriteString(w, budgetEvent)
		_ = http.NewResponseController(w).Flush() // the handler may abort the response
		m.between = false
	}
}

// budgetEvent ends a stream that is cut, so that clients of OpenAI and Anthropic report an error instead of an answer
// that seems complete.
const budgetEvent = "event: error\n" +
	`data: {"type":"error","error":{"type":"rate_limit_error","code":"rate_limit_exceeded","message":"The token budget is exhausted; the response was cut."}}` + "\n\n"

// usualStep is how much is asked for in advance, so that a stream does not ask the store for every event. What is not
// used is refunded from the first reservation, so a step is at most half of that.
const usualStep = 64

// chargeMore charges what a stream needs in addition, with some in advance if that is allowed. If the store does not
// answer, the stream continues: what it used is settled at the end.
func (m *metered) chargeMore(needs int64) bool {
	step := max(m.Reserved/4, min(usualStep, m.Reserved/2))
	for _, n := range []int64{needs + step, needs} {
		allowed, err := m.limiter.extend(m.req, m.reservation, n)
		if err != nil {
			m.limiter.onError(m.req, err)
			m.granted += n
			return true
		}
		if allowed {
			m.granted, m.charged = m.granted+n, m.charged+n
			return true
		}
	}
	return false
}

// extend charges more to the rules that cut.
func (l *Limiter) extend(req *http.Request, reservation string, cost int64) (bool, error) {
	if l.concluder == nil {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), concludeWithin)
	defer cancel()
	var v penstock.Verdict
	err := l.concluder.Conclude(ctx, &penstock.Conclusion{Reservation: reservation, Verb: penstock.Renew, Cost: cost}, &v)
	return v.Allowed, err
}

// end ends the body. It returns what the response cost, for a settlement. The handler has returned if isWhole, and
// otherwise panicked because the client or the upstream server has disconnected.
func (m *metered) end(isWhole, isUnknown bool) func(field string) (int64, bool) {
	if m == nil || m.meter == nil {
		return nil
	}
	m.close()
	isWhole = isWhole && !m.cut
	if isWhole && !isUnknown && m.status/100 == 2 && slices.ContainsFunc(m.Fields, m.isMissing) {
		m.limiter.reader.warn(m.req, &BodyError{Reason: BodyNoUsage})
	}
	return func(field string) (int64, bool) {
		if isUnknown {
			return 0, false
		}
		return m.cost(field, isWhole)
	}
}

// close frees what the meter uses. It may be called at any time, and again.
func (m *metered) close() {
	if m != nil && m.meter != nil {
		m.meter.Close()
	}
}

func (m *metered) isMissing(field string) bool {
	_, known := m.meter.Field(field)
	return !known
}

// cost returns what the response cost, or that the estimate stays.
//
//	the response reports it           that
//	it is an error and does not       nothing
//	it was cut                        what was granted
//	it ended early                    what was streamed by then
//	it never reports it               what was streamed, if that is more than the estimate
func (m *metered) cost(field string, isWhole bool) (int64, bool) {
	n, known := m.meter.Field(field)
	switch streamed := m.meter.Streamed(field, m.prompt); {
	case isWhole && known:
		return n, true
	case isWhole && m.status/100 != 2:
		return 0, true
	case !usage.IsTokens(field):
		return n, known
	case m.cut && field == m.Cut:
		return min(streamed, m.granted), true // the rest was not sent
	case !isWhole:
		return streamed, true
	default:
		return streamed, streamed > m.Reserved
	}
}
