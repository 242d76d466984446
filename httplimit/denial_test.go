package httplimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/problem"
)

func overLimit() *penstock.Verdict {
	d := penstock.Decision{Limit: 100, Used: 100, RetryAfter: 11740 * time.Millisecond, ResetAfter: time.Minute}
	return &penstock.Verdict{
		Reason: penstock.ReasonOverLimit, Rule: "search-per-user", Decision: d,
		Limits: []penstock.LimitVerdict{
			{Rule: "tried", Policy: "tried", Shadow: true, Algorithm: penstock.FixedWindow, Window: time.Minute},
			{Rule: "other", Policy: "other", Algorithm: penstock.FixedWindow, Window: time.Minute, Decision: penstock.Decision{Allowed: true, Limit: 5}},
			{Rule: "search-per-user", Policy: "search-per-user", Algorithm: penstock.SlidingWindowCounter, Count: 100, Window: time.Minute, Decision: d},
		},
	}
}

func TestDenialBodies(t *testing.T) {
	never := overLimit()
	never.Decision.RetryAfter, never.Limits[2].RetryAfter = penstock.Never, penstock.Never
	concurrent := overLimit()
	concurrent.Limits[2].Algorithm = penstock.Concurrency
	banned := overLimit()
	banned.Reason, banned.BannedUntil = penstock.ReasonBanned, 1
	for _, test := range []struct {
		name    string
		verdict *penstock.Verdict
		status  int
		retry   string
		body    string
	}{
		{"over limit", overLimit(), 429, "12", `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,` +
			`"detail":"Limit of 100 requests per 60 s (search-per-user) reached; retry in 12 s.",` +
			`"violated-policies":["search-per-user"],"error":"rate_limited","message":"Too many requests. Please slow down.",` +
			`"retry_after_seconds":12,"retry_after_ms":11740}`},
		{"never", never, 429, "", `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,` +
			`"detail":"Limit of 100 requests per 60 s (search-per-user) reached; the cost exceeds the limit.",` +
			`"violated-policies":["search-per-user"],"error":"rate_limited","message":"Too many requests. Please slow down.",` +
			`"retry_after_seconds":null,"retry_after_ms":null}`},
		{"concurrency", concurrent, 429, "12", `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,` +
			`"detail":"Limit of 100 requests at the same time (search-per-user) reached; retry in 12 s.",` +
			`"violated-policies":["search-per-user"],"error":"rate_limited","message":"Too many requests. Please slow down.",` +
			`"retry_after_seconds":12,"retry_after_ms":11740}`},
		{"banned", banned, 429, "12", `{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected","title":"Abnormal usage detected","status":429,` +
			`"detail":"Banned temporarily after too many denied requests (search-per-user); retry in 12 s.",` +
			`"violated-policies":["search-per-user"],"error":"rate_limited","message":"Too many requests. Please slow down.",` +
			`"retry_after_seconds":12,"retry_after_ms":11740}`},
		{"store error", &penstock.Verdict{Reason: penstock.ReasonStoreError, Rule: "a"}, 503, "1", `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary reduced capacity","status":503,` +
			`"detail":"The limits cannot be checked right now; retry in 1 s.","error":"unavailable","message":"Service temporarily unavailable. Please try again.",` +
			`"retry_after_seconds":1,"retry_after_ms":1000}`},
		{"blocked", &penstock.Verdict{Reason: penstock.ReasonBlocked, Decision: penstock.Decision{RetryAfter: 12 * time.Second}}, 429, "12", `{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected","title":"Abnormal usage detected","status":429,` +
			`"detail":"Blocked by an operator; retry in 12 s.","error":"blocked","message":"Access is temporarily blocked.",` +
			`"retry_after_seconds":12,"retry_after_ms":12000}`},
		{"deny list", &penstock.Verdict{Reason: penstock.ReasonDenyList}, 403, "", `{"type":"about:blank","title":"Forbidden","status":403,"detail":"Access denied.","error":"forbidden","message":"Access denied."}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			rec := httptest.NewRecorder()
			newWriter(t).Deny(rec, request("/"), test.verdict)
			if rec.Code != test.status || Status(test.verdict) != test.status {
				t.Errorf("status %d", rec.Code)
			}
			if rec.Body.String() != test.body+"\n" {
				t.Errorf("got  %s\nwant %s", rec.Body, test.body)
			}
			h := rec.Header()
			if h.Get("Retry-After") != test.retry || h.Get("Cache-Control") != "no-store" || h.Get("Content-Type") != "application/problem+json" {
				t.Error(h)
			}
			if h.Get("Content-Length") != fmt.Sprint(rec.Body.Len()) {
				t.Errorf("length %s of %d", h.Get("Content-Length"), rec.Body.Len())
			}
		})
	}
}

// Proxies that know only 403 get that, and the true status in a header.
func TestDenyWith(t *testing.T) {
	rec := httptest.NewRecorder()
	newWriter(t).DenyWith(rec, request("/"), overLimit(), 403)
	h := rec.Header()
	if rec.Code != 403 || h.Get("X-Penstock-Status") != "429" || h.Get("Retry-After") != "12" || len(lines(h, "RateLimit")) != 1 || !strings.Contains(rec.Body.String(), `"status":429`) {
		t.Errorf("%d %v %s", rec.Code, h, rec.Body)
	}
	rec = httptest.NewRecorder()
	newWriter(t).DenyWith(rec, request("/"), overLimit(), 429)
	if _, there := rec.Header()["X-Penstock-Status"]; there {
		t.Error("a status beside the true one")
	}
}

func TestPage(t *testing.T) {
	req := request("/<script>?x=<script>")
	req.Header.Set("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	rec := httptest.NewRecorder()
	v := overLimit()
	v.Limits[2].Policy = "<script>" // such as from a remote decider
	newWriter(t).Deny(rec, req, v)
	body, h := rec.Body.String(), rec.Header()
	if rec.Code != 429 || h.Get("Content-Type") != "text/html; charset=utf-8" || h.Get("Cache-Control") != "no-store" || h.Get("Retry-After") != "12" {
		t.Errorf("%d %v", rec.Code, h)
	}
	if !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-") {
		t.Error(h)
	}
	for _, has := range []string{"<!doctype html>", "<h1>Too many requests. Please slow down.</h1>", "&lt;script&gt;", "retry in 12 s."} {
		if !strings.Contains(body, has) {
			t.Errorf("no %s in\n%s", has, body)
		}
	}
	for _, not := range []string{"<script", "http://", "https://", "src=", "url("} {
		if strings.Contains(body, not) {
			t.Errorf("%s in\n%s", not, body)
		}
	}
}

func TestPrefersPage(t *testing.T) {
	for accept, want := range map[string]bool{
		"":                                  false,
		"*/*":                               false,
		"text/html":                         true,
		"TEXT/HTML; charset=utf-8":          true,
		"text/*, application/json;q=0.5":    true,
		"text/html;q=0.5, application/json": false,
		"application/problem+json":          false,
		"text/html, */*":                    false,
		"text/html, */*;q=0.1":              true,
		"text/html;q=0, */*":                false,
		"application/*, text/html;q=0.9":    false,
		"text/html;q=x":                     true,
		"text/html;q=NaN":                   false,
		", ,;;/":                            false,
		strings.Repeat("a/b,", 1000) + "text/html": false,
	} {
		if got := prefersPage(accept); got != want {
			t.Errorf("%.60q: %v", accept, got)
		}
	}
}

func TestHeadHasNoBody(t *testing.T) {
	req := request("/")
	req.Method = "HEAD"
	rec := httptest.NewRecorder()
	newWriter(t).Deny(rec, req, overLimit())
	if rec.Code != 429 || rec.Body.Len() != 0 || rec.Header().Get("Retry-After") != "12" {
		t.Errorf("%d %v %q", rec.Code, rec.Header(), rec.Body)
	}
}

func TestRefuse(t *testing.T) {
	for _, test := range []struct {
		err    error
		status int
		detail string
	}{
		{refuse(431, "the header X has 9000 bytes; at most 8192"), 431, "The request was rejected: the header X has 9000 bytes; at most 8192."},
		{fmt.Errorf("wrapped: %w", &RequestError{Status: 401, Detail: "the token is not valid", Err: errors.New("internal")}), 401, "The request was rejected: the token is not valid."},
		{errors.New("internal"), 400, "The request is invalid."},
		{&RequestError{Detail: "no"}, 400, "The request was rejected: no."},
		{&RequestError{Status: 200, Detail: "no"}, 400, "The request was rejected: no."},
		{&RequestError{Status: 399, Detail: "no"}, 400, "The request was rejected: no."},
		{&RequestError{Status: 503, Detail: "no"}, 503, "The request was rejected: no."},
		{&RequestError{Status: 599, Detail: "no"}, 599, "The request was rejected: no."},
		{&RequestError{Status: 600, Detail: "no"}, 400, "The request was rejected: no."},
	} {
		rec := httptest.NewRecorder()
		newWriter(t).Refuse(rec, request("/"), test.err)
		var body problem.Document
		if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil || rec.Code != test.status || body.Status != test.status || body.Detail != test.detail {
			t.Errorf("%d %s, %v", rec.Code, rec.Body, err)
		}
		if strings.Contains(rec.Body.String(), "internal") {
			t.Errorf("internals: %s", rec.Body)
		}
		if has := rec.Header().Get("WWW-Authenticate") != ""; has != (test.status == 401) {
			t.Error(rec.Header())
		}
	}
}
