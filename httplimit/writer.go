package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
)

// WriterOptions configure how clients learn about limits.
type WriterOptions struct {
	// Headers are the styles, by default "ietf"; several may be given:
	//
	//	ietf              RateLimit and RateLimit-Policy, as draft-ietf-httpapi-ratelimit-headers-11 has them
	//	x-ratelimit       X-RateLimit-Limit, -Remaining and -Reset, the last in seconds from now, as Envoy has it
	//	x-ratelimit-unix  the same, with X-RateLimit-Reset in Unix time, as GitHub and express-rate-limit have it
	//	none              none of them
	Headers []string

	Now func() time.Time // the clock for Unix time; nil: time.Now
}

// The styles of headers.
const (
	StyleIETF           = "ietf"
	StyleXRateLimit     = "x-ratelimit"
	StyleXRateLimitUnix = "x-ratelimit-unix"
	StyleNone           = "none"
)

var styles = []string{StyleIETF, StyleXRateLimit, StyleXRateLimitUnix, StyleNone}

// A Writer tells clients what was decided. It is safe for concurrent use.
type Writer struct {
	ietf, legacy bool
	now          func() time.Time // nil: reset times are in seconds from now
}

// NewWriter returns a writer.
func NewWriter(o WriterOptions) (*Writer, error) {
	if len(o.Headers) == 0 {
		return &Writer{ietf: true}, nil
	}
	w := &Writer{
		ietf:   slices.Contains(o.Headers, StyleIETF),
		legacy: slices.Contains(o.Headers, StyleXRateLimit),
	}
	if slices.Contains(o.Headers, StyleXRateLimitUnix) {
		if w.now = o.Now; w.now == nil {
			w.now = time.Now
		}
	}
	var errs []error
	for i, style := range o.Headers {
		switch {
		case !slices.Contains(styles, style):
			errs = append(errs, fmt.Errorf("unknown style %.64q; one of %s", style, strings.Join(styles, ", ")))
		case slices.Contains(o.Headers[:i], style):
			errs = append(errs, fmt.Errorf("the style %q twice", style))
		case style == StyleNone && len(o.Headers) > 1:
			errs = append(errs, errors.New(`"none" beside other styles`))
		}
	}
	if w.legacy && w.now != nil {
		errs = append(errs, fmt.Errorf("both %s and %s, which set the same fields", StyleXRateLimit, StyleXRateLimitUnix))
	}
	w.legacy = w.legacy || w.now != nil
	if len(errs) > 0 {
		return nil, fmt.Errorf("write headers: %w: %w", penstock.ErrInvalid, errors.Join(errs...))
	}
	return w, nil
}

// Headers adds the headers for a verdict: the limits in the writer's styles, and with a denial Retry-After,
// unless waiting would not help. RateLimit fields of an upstream server stay beside ours. If it has set any of
// the older X-RateLimit fields, they stay alone, because clients do not read two.
func (w *Writer) Headers(h http.Header, v *penstock.Verdict) {
	if w.legacy && (v.Decision.Limit > 0 || v.Reason == penstock.ReasonOverLimit) {
		w.addLegacy(h, &v.Decision)
	}
	var buffer [512]byte // the text of all fields, which then share one string
	text, policies, states := buffer[:0], 0, 0
	if w.ietf {
		text = appendField(text, policyField, v)
		policies = len(text)
		text = appendField(text, stateField, v)
		states = len(text)
	}
	if wait, ok := retryAfter(v); ok {
		text = strconv.AppendInt(text, ceilSeconds(wait), 10)
	}
	if len(text) == 0 {
		return
	}
	all := string(text)
	lines := &[...]string{all[:policies], all[policies:states], all[states:]}
	if policies > 0 { // spelled as in the draft, which Set would not do; HTTP treats both alike
		h["RateLimit-Policy"] = added(h["RateLimit-Policy"], lines[0:1:1])
		h["RateLimit"] = added(h["RateLimit"], lines[1:2:2])
	}
	if lines[2] != "" {
		h["Retry-After"] = lines[2:3:3]
	}
}

// added returns the lines with one more. It does not copy a single line.
func added(lines, line []string) []string {
	if len(lines) == 0 {
		return line
	}
	return append(lines, line...)
}

func (w *Writer) addLegacy(h http.Header, d *penstock.Decision) {
	after := d.ResetAfter
	if !d.Allowed && d.RetryAfter != penstock.Never {
		after = d.RetryAfter
	}
	reset := ceilSeconds(after)
	if w.now != nil {
		at := w.now().Add(max(after, 0))
		reset = at.Unix()
		if at.Nanosecond() > 0 { // a client that returns earlier would be denied
			reset++
		}
	}
	fields := [...]struct {
		name  string
		value int64
	}{
		{"X-RateLimit-Limit", d.Limit},
		{"X-RateLimit-Remaining", d.Remaining},
		{"X-RateLimit-Reset", reset},
	}
	for _, field := range fields {
		if h.Get(field.name) != "" || len(h[field.name]) > 0 {
			return // theirs and ours together would describe neither limit
		}
	}
	for _, field := range fields {
		h[field.name] = []string{strconv.FormatInt(max(field.value, 0), 10)}
	}
}

// retryAfter returns when a denied client may retry; not ok if there is nothing to wait for.
func retryAfter(v *penstock.Verdict) (_ time.Duration, ok bool) {
	wait := v.Decision.RetryAfter
	switch {
	case v.Allowed, v.Reason == penstock.ReasonDenyList, wait == penstock.Never:
		return 0, false
	case wait <= 0: // unknown
		return time.Second, true
	}
	return wait, true
}

func ceilSeconds(d time.Duration) int64 { return ceilDiv(d, time.Second) }

func ceilDiv(d, unit time.Duration) int64 {
	n := d / unit
	if d%unit > 0 {
		n++
	}
	return int64(n)
}
