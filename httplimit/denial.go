package httplimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock-io/penstock"
)

// Status returns the status that a denied call is answered with: 429, 403 for one on the deny list,
// and 503 where a failure policy denies.
func Status(v *penstock.Verdict) int {
	switch v.Reason {
	case penstock.ReasonDenyList:
		return http.StatusForbidden
	case penstock.ReasonStoreError:
		return http.StatusServiceUnavailable
	}
	return http.StatusTooManyRequests
}

// Deny answers a call that was denied: with a problem (RFC 9457), or with a page if that is what
// the client would rather have. It repeats nothing that the client sent.
func (w *Writer) Deny(rw http.ResponseWriter, req *http.Request, v *penstock.Verdict) {
	w.DenyWith(rw, req, v, Status(v))
}

// DenyWith is Deny with another status, for proxies that understand only some. Header
// X-Penstock-Status then has the true one; the body stays as it is.
func (w *Writer) DenyWith(rw http.ResponseWriter, req *http.Request, v *penstock.Verdict, status int) {
	h := rw.Header()
	w.Headers(h, v)
	p := denial(v)
	if status != p.Status {
		h.Set("X-Penstock-Status", strconv.Itoa(p.Status))
	}
	p.write(rw, req, status)
}

// unavailable answers a call for which there is no room.
func (w *Writer) unavailable(rw http.ResponseWriter, req *http.Request, why string) {
	v := &penstock.Verdict{Reason: penstock.ReasonStoreError}
	w.Headers(rw.Header(), v)
	p := denial(v)
	p.Detail = why + "; " + advice(v)
	p.write(rw, req, p.Status)
}

// Refuse answers a request that [Reader.Read] could not read, or about which nothing could be
// decided: with the status of a [*RequestError], else 400.
func (w *Writer) Refuse(rw http.ResponseWriter, req *http.Request, err error) {
	p := problem{Type: "about:blank", Status: http.StatusBadRequest, Detail: "The request is not one that can be decided about.", Error: "bad_request"}
	var bad *RequestError
	if errors.As(err, &bad) {
		p.Status, p.Detail = bad.Status, "The request was refused: "+bad.Detail+"."
	}
	if p.Status == http.StatusUnauthorized {
		rw.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
	}
	p.Title = http.StatusText(p.Status)
	p.Message = p.Title + "."
	p.write(rw, req, p.Status)
}

// A problem is the body of a denial.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Violated []string `json:"violated-policies,omitempty"`
	Error    string   `json:"error"`
	Message  string   `json:"message"`
	wait
}

// A wait is until a client may try again: not there if it may not, null if it may at no time.
type wait struct {
	Seconds *nullable `json:"retry_after_seconds,omitempty"`
	Millis  *nullable `json:"retry_after_ms,omitempty"`
}

// A nullable number is null where it is negative.
type nullable int64

func (n nullable) MarshalJSON() ([]byte, error) {
	if n < 0 {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, int64(n), 10), nil
}

const problemTypes = "https://iana.org/assignments/http-problem-types"

func denial(v *penstock.Verdict) *problem {
	p := &problem{Status: Status(v), Violated: violated(v)}
	switch {
	case p.Status == http.StatusForbidden:
		p.Type, p.Title, p.Error, p.Message = "about:blank", "Forbidden", "forbidden", "Access denied."
		p.Detail = "This caller is not served."
		return p
	case p.Status == http.StatusServiceUnavailable:
		p.Type, p.Title, p.Error = problemTypes+"#temporary-reduced-capacity", "Temporary reduced capacity", "unavailable"
		p.Message = "Service temporarily unavailable. Please try again."
		p.Detail = "The limits cannot be checked at the moment"
	case v.Reason == penstock.ReasonBanned:
		p.Type, p.Title, p.Error = problemTypes+"#abnormal-usage-detected", "Abnormal usage detected", "rate_limited"
		p.Message = "Too many requests. Please slow down."
		p.Detail = "Banned for a time after too many denied calls (" + v.Rule + ")"
	default:
		p.Type, p.Title, p.Error = problemTypes+"#quota-exceeded", "Quota exceeded", "rate_limited"
		p.Message = "Too many requests. Please slow down."
		p.Detail = reached(v)
	}
	p.wait, p.Detail = waitOf(v), p.Detail+"; "+advice(v)
	return p
}

// violated names the limits that deny.
func violated(v *penstock.Verdict) (names []string) {
	for i := range v.Limits {
		if l := &v.Limits[i]; !l.Shadow && !l.Allowed {
			names = append(names, l.Policy)
		}
	}
	return names
}

// reached names the limit that decided.
func reached(v *penstock.Verdict) string {
	for i := range v.Limits {
		l := &v.Limits[i]
		switch {
		case l.Shadow || l.Allowed || l.Rule != v.Rule || l.RetryAfter != v.Decision.RetryAfter:
		case l.Algorithm == penstock.Concurrency:
			return fmt.Sprintf("Limit of %s at the same time (%s) reached", requests(l.Limit), l.Policy)
		default:
			if seconds, ok := windowSeconds(l); ok {
				return fmt.Sprintf("Limit of %s per %d s (%s) reached", requests(l.Limit), seconds, l.Policy)
			}
			return fmt.Sprintf("Limit of %s (%s) reached", requests(l.Limit), l.Policy)
		}
	}
	return "Limit reached"
}

func advice(v *penstock.Verdict) string {
	if wait, ok := retryAfter(v); ok {
		return fmt.Sprintf("retry in %d s.", ceilSeconds(wait))
	}
	return "a call of this cost can never pass."
}

func waitOf(v *penstock.Verdict) wait {
	seconds, millis := nullable(-1), nullable(-1)
	if d, ok := retryAfter(v); ok {
		seconds, millis = nullable(ceilSeconds(d)), nullable(ceilDiv(d, time.Millisecond))
	}
	return wait{&seconds, &millis}
}

// write answers with the problem.
func (p *problem) write(rw http.ResponseWriter, req *http.Request, status int) {
	h := rw.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	var body []byte
	if prefersPage(req.Header.Get("Accept")) {
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", pagePolicy)
		body = p.page()
	} else {
		h.Set("Content-Type", "application/problem+json")
		body, _ = json.Marshal(p) // strings and numbers
		body = append(body, '\n')
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	rw.WriteHeader(status)
	if req.Method != http.MethodHead {
		_, _ = rw.Write(body) // a client that is gone needs no answer
	}
}

func requests(n int64) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}
