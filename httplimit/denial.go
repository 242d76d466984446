package httplimit

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/problem"
)

// Status returns the HTTP status of a denied request: 429, 403 if it is on the deny list or a rule cannot be
// evaluated, and 503 if a failure policy denies.
func Status(v *penstock.Verdict) int {
	switch v.Reason {
	case penstock.ReasonDenyList, penstock.ReasonRuleError:
		return http.StatusForbidden
	case penstock.ReasonStoreError:
		return http.StatusServiceUnavailable
	}
	return http.StatusTooManyRequests
}

// Detail returns the sentence that tells the client of a denied request why it was denied and what to do.
// [Writer.Deny] writes it into the body.
func Detail(v *penstock.Verdict) string { return string(denial(v, nil).Detail) }

// Deny answers a denied request: with a problem document (RFC 9457), or with a page if the client prefers
// that. It repeats nothing that the client sent.
func (w *Writer) Deny(rw http.ResponseWriter, req *http.Request, v *penstock.Verdict) {
	w.DenyWith(rw, req, v, Status(v))
}

// DenyWith is Deny with another status, for proxies that understand only some. The header X-Penstock-Status
// then has the true one; the body does not change.
func (w *Writer) DenyWith(rw http.ResponseWriter, req *http.Request, v *penstock.Verdict, status int) {
	m := messages.Get().(*message)
	defer messages.Put(m)
	p := denial(v, m.detail[:0])
	m.detail = p.Detail[:0]
	if whole, ok := rw.(problem.WholeWriter); ok && status == p.Status && !w.legacy && m.writeTo(whole, w, req, v, &p) {
		return
	}
	h := rw.Header()
	w.Headers(h, v)
	if status != p.Status {
		h.Set("X-Penstock-Status", strconv.Itoa(p.Status))
	}
	p.write(rw, req, status)
}

// unavailable answers a request for which there is no room.
func (w *Writer) unavailable(rw http.ResponseWriter, req *http.Request, why string) {
	v := &penstock.Verdict{Reason: penstock.ReasonStoreError}
	w.Headers(rw.Header(), v)
	p := denial(v, nil)
	p.Detail = appendAdvice([]byte(why+"; "), v)
	p.write(rw, req, p.Status)
}

// Refuse answers a request that [Reader.Read] could not read, or that could not be decided: with the status
// of a [*RequestError], otherwise 400. A status that is not one of an error, from 400 to 599, counts as 400.
func (w *Writer) Refuse(rw http.ResponseWriter, req *http.Request, err error) {
	p := denialBody{Type: "about:blank", Status: http.StatusBadRequest, Detail: []byte("The request is invalid."), Error: "bad_request"}
	var bad *RequestError
	if errors.As(err, &bad) {
		p.Detail = []byte("The request was rejected: " + bad.Detail + ".")
		if bad.Status >= 400 && bad.Status <= 599 {
			p.Status = bad.Status
		}
	}
	if p.Status == http.StatusUnauthorized {
		rw.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
	}
	p.Title = http.StatusText(p.Status)
	p.Message = p.Title + "."
	p.write(rw, req, p.Status)
}

const problemTypes = "https://iana.org/assignments/http-problem-types"

// denial returns the body for a denied request. Its detail is appended to the buffer.
func denial(v *penstock.Verdict, detail []byte) denialBody {
	p := denialBody{Status: Status(v), Limits: v.Limits}
	switch {
	case p.Status == http.StatusForbidden:
		p.Type, p.Title, p.Error, p.Message = "about:blank", "Forbidden", "forbidden", "Access denied."
		p.Detail = append(detail, "Access denied."...)
		if v.Reason == penstock.ReasonRuleError {
			p.Detail = append(detail, "A rule cannot be evaluated for this request."...)
		}
		return p
	case p.Status == http.StatusServiceUnavailable:
		p.Type, p.Title, p.Error = problemTypes+"#temporary-reduced-capacity", "Temporary reduced capacity", "unavailable"
		p.Message = "Service temporarily unavailable. Please try again."
	case v.Reason == penstock.ReasonBlocked:
		p.Type, p.Title, p.Error = problemTypes+"#abnormal-usage-detected", "Abnormal usage detected", "blocked"
		p.Message = "Access is temporarily blocked."
	case v.Reason == penstock.ReasonBanned:
		p.Type, p.Title, p.Error = problemTypes+"#abnormal-usage-detected", "Abnormal usage detected", "rate_limited"
		p.Message = "Too many requests. Please slow down."
	default:
		p.Type, p.Title, p.Error = problemTypes+"#quota-exceeded", "Quota exceeded", "rate_limited"
		p.Message = "Too many requests. Please slow down."
	}
	p.Wait = penstock.Never
	if wait, ok := retryAfter(v); ok {
		p.Wait = wait
	}
	p.Detail = appendAdvice(append(appendCause(detail, v), "; "...), v)
	return p
}

// appendCause appends why the request was denied.
func appendCause(b []byte, v *penstock.Verdict) []byte {
	switch v.Reason {
	case penstock.ReasonStoreError:
		return append(b, "The limits cannot be checked right now"...)
	case penstock.ReasonBlocked:
		return append(b, "Blocked by an operator"...)
	case penstock.ReasonBanned:
		b = append(b, "Banned temporarily after too many denied requests ("...)
		return append(append(b, v.Rule...), ')')
	}
	for i := range v.Limits {
		l := &v.Limits[i]
		if !l.Shadow && !l.Allowed && l.Rule == v.Rule && l.RetryAfter == v.Decision.RetryAfter {
			return append(appendLimit(append(b, "Limit of "...), l), " reached"...)
		}
	}
	return append(b, "Limit reached"...)
}

// appendLimit appends a limit: 100 requests per 60 s (search), and a bucket's capacity besides its rate.
func appendLimit(b []byte, l *penstock.LimitVerdict) []byte {
	if !isBucket(l) || l.Count <= 0 {
		b = appendRequests(b, l.Limit)
	} else {
		b = appendRequests(b, l.Count)
	}
	if l.Algorithm == penstock.Concurrency {
		b = append(b, " at the same time"...)
	} else if !isBucket(l) || l.Count > 0 {
		b = append(strconv.AppendInt(append(b, " per "...), max(1, ceilSeconds(l.Window)), 10), " s"...)
	}
	switch {
	case l.Algorithm == penstock.LeakyBucket && l.Limit > 1:
		b = strconv.AppendInt(append(b, " with a queue of "...), l.Limit-1, 10)
	case l.Algorithm == penstock.TokenBucket && l.Count > 0 && l.Limit != l.Count:
		b = strconv.AppendInt(append(b, " with a burst of "...), l.Limit, 10)
	}
	return append(append(append(b, " ("...), l.Policy...), ')')
}

func appendRequests(b []byte, n int64) []byte {
	b = append(strconv.AppendInt(b, n, 10), " request"...)
	if n != 1 {
		b = append(b, 's')
	}
	return b
}

// appendAdvice appends what the client can do.
func appendAdvice(b []byte, v *penstock.Verdict) []byte {
	if wait, ok := retryAfter(v); ok {
		return append(strconv.AppendInt(append(b, "retry in "...), ceilSeconds(wait), 10), " s."...)
	}
	return append(b, "the cost exceeds the limit."...)
}
