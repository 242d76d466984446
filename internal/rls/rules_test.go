package rls_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/rls"
	"github.com/penstock-io/penstock/storage"
)

const ownRules = `
rules:
  - {name: per-user, match: {domain: mesh}, key: [user], limits: [{rate: 2/1m, algorithm: fixed_window}]}
  - {name: writes, match: {domain: mesh, op: write}, key: [user], limits: [{rate: 1/1h, algorithm: fixed_window}]}
  - {name: ten, match: {domain: mesh}, key: [ten], limits: [{rate: 3/10s, algorithm: fixed_window}]}
  - {name: bucket, match: {domain: mesh}, key: [bucket], limits: [{rate: 1/1s, burst: 5, algorithm: token_bucket}]}
  - {name: huge, match: {domain: mesh}, key: [huge], limits: [{rate: 900000000000/1h, algorithm: fixed_window}]}
  - {name: twice, match: {domain: mesh, attributes: {generic_key: a, generic_key_2: b}}, key: [], limits: [{rate: 1/1m, algorithm: fixed_window}]}
  - {name: tried, match: {domain: mesh}, key: [tried], mode: shadow, limits: [{rate: 0/1m, algorithm: fixed_window}]}
  - {name: strict, match: {domain: mesh}, key: [strict], on_store_error: deny, limits: [1/1m]}
lists:
  deny: [{who: evil}]
`

var ruleCases = []struct {
	name  string
	steps []step
}{
	{"rules of one descriptor go together", []step{
		{ask("user=u,op=write"), "OK | OK writes 1/HOUR 0 left for 1h0m0s"},
		{ask("user=u,op=write"), "OVER_LIMIT | OVER_LIMIT writes 1/HOUR 0 left for 1h0m0s"},
		{ask("user=u"), "OK | OK per-user 2/MINUTE 0 left for 1m0s"}, // the denied request was not charged
		{ask("user=u"), "OVER_LIMIT | OVER_LIMIT per-user 2/MINUTE 0 left for 1m0s"},
	}},
	{"and so do descriptors", []step{
		{ask("user=u", "ten=1"), "OK | OK per-user 2/MINUTE 1 left for 1m0s | OK ten 3/UNKNOWN 2 left for 10s"},
		{ask("who=evil", "user=u"), "OVER_LIMIT | OVER_LIMIT | OK per-user 2/MINUTE 1 left for 1m0s"},
		{ask("ten=1", "user=u", "ten=1", "ten=1"), "OVER_LIMIT | OVER_LIMIT ten 3/UNKNOWN 2 left for 10s | OK per-user 2/MINUTE 1 left for 1m0s | OVER_LIMIT ten 3/UNKNOWN 2 left for 10s | OVER_LIMIT ten 3/UNKNOWN 2 left for 10s"},
		{ask("ten=1", "user=u", "ten=1"), "OK | OK ten 3/UNKNOWN 0 left for 10s | OK per-user 2/MINUTE 0 left for 1m0s | OK ten 3/UNKNOWN 0 left for 10s"},
		{ask("bucket=1", "user=u"), "OVER_LIMIT | OK bucket 5/UNKNOWN 5 left for 0s | OVER_LIMIT per-user 2/MINUTE 0 left for 1m0s"},
	}},
	{"spaces around values", []step{
		{ask("user= u"), "OK | OK per-user 2/MINUTE 1 left for 1m0s"},
		{ask("user=u\t"), "OK | OK per-user 2/MINUTE 0 left for 1m0s"},
		{ask("user=\t u  "), "OVER_LIMIT | OVER_LIMIT per-user 2/MINUTE 0 left for 1m0s"},
		{ask("who= evil "), "OVER_LIMIT | OVER_LIMIT"},
	}},
	{"nothing applies", []step{
		{ask("other=1"), "OK | OK"},
		{&rlsv3.RateLimitRequest{Domain: "elsewhere", Descriptors: ask("user=u").Descriptors}, "OK | OK"},
	}},
	{"windows that Envoy has no unit for", []step{
		{ask("ten=1"), "OK | OK ten 3/UNKNOWN 2 left for 10s"},
		{ask("bucket=1"), "OK | OK bucket 5/UNKNOWN 4 left for 1s"},
	}},
	{"numbers that Envoy has no room for", []step{
		{ask("huge=1"), "OK | OK huge 4294967295/HOUR 4294967295 left for 1h0m0s"},
	}},
	{"hits", []step{
		{ask(costing(0, descriptor("user=u"))), "OK | OK per-user 2/MINUTE 2 left for 0s"},
		{ask(costing(2, descriptor("user=u"))), "OK | OK per-user 2/MINUTE 0 left for 1m0s"},
		{ask(costing(3, descriptor("user=v"))), "OVER_LIMIT | OVER_LIMIT per-user 2/MINUTE 2 left for 0s"}, // never allowed
	}},
	{"a key that is there twice", []step{
		{ask("generic_key=a,generic_key=b"), "OK | OK twice 1/MINUTE 0 left for 1m0s"},
		{ask("generic_key=b,generic_key=a"), "OK | OK"},
		{ask("generic_key=a"), "OK | OK"},
	}},
	{"a limit that comes with a descriptor", []step{
		{ask("user=u", limited(1, typev3.RateLimitUnit_HOUR, descriptor("user=u"))), "OK | OK per-user 2/MINUTE 1 left for 1m0s | OK  1/HOUR 0 left for 1h0m0s"},
		{ask(limited(1, typev3.RateLimitUnit_HOUR, descriptor("user=u")), "user=u"), "OVER_LIMIT | OVER_LIMIT  1/HOUR 0 left for 1h0m0s | OK per-user 2/MINUTE 0 left for 1m0s"},
	}},
}

func TestRules(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, newStore func(testing.TB) storage.FullStore) {
		for _, c := range ruleCases {
			t.Run(c.name, func(t *testing.T) { run(t, byRules(t, newStore(t), ownRules), c.steps) })
		}
	})
}

// With many concurrent requests, exactly the limit is allowed, by rules and by a file.
func TestExactlyTheLimit(t *testing.T) {
	t.Parallel()
	const clients, each, limit = 256, 4, 100
	onEveryStore(t, func(t *testing.T, newStore func(testing.TB) storage.FullStore) {
		for name, limiter := range map[string]rls.Limiter{
			"rules": byRules(t, newStore(t), "rules: [{name: all, match: {domain: mesh}, key: [user], limits: [{rate: 100/1h, algorithm: fixed_window}]}]"),
			"file":  byFile(t, "{domain: mesh, descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 100}}]}", testServer{Store: newStore(t)}),
		} {
			client := newClient(t, limiter)
			var passed atomic.Int64
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					for range each {
						r, err := client.ShouldRateLimit(patient(t), ask("user=u"))
						if err != nil {
							t.Error(err)
							return
						}
						if r.OverallCode == rlsv3.RateLimitResponse_OK {
							passed.Add(1)
						}
					}
				})
			}
			all.Wait()
			if got := passed.Load(); got != limit {
				t.Errorf("%s: %d of %d passed, want %d", name, got, clients*each, limit)
			}
		}
	})
}

func headersOf(headers []*corev3.HeaderValue) string {
	var b strings.Builder
	for _, h := range headers {
		b.WriteString(h.Key + ": " + h.Value + "\n")
	}
	return b.String()
}

func TestWhatClientsAreTold(t *testing.T) {
	client := newClient(t, byRules(t, newMemory(t), ownRules))
	r, err := client.ShouldRateLimit(patient(t), ask("user=u", "ten=1", "user=u"))
	want := `RateLimit: "per-user";r=0;t=60, "ten";r=2;t=10
RateLimit-Policy: "per-user";q=2;w=60, "ten";q=3;w=10
X-RateLimit-Limit: 2
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 60
`
	if got := headersOf(r.GetResponseHeadersToAdd()); err != nil || got != want || r.RawBody != nil || r.DynamicMetadata != nil {
		t.Errorf("allowed: %v, %q, %v, %v\ngot  %s\nwant %s", err, r.GetRawBody(), r.GetDynamicMetadata(), r.GetOverallCode(), got, want)
	}
	r, err = client.ShouldRateLimit(patient(t), ask("ten=1", "user=u"))
	if err != nil {
		t.Fatal(err)
	}
	got := headersOf(r.ResponseHeadersToAdd)
	for _, line := range []string{"Content-Type: application/problem+json\n", "Retry-After: 60\n", `RateLimit: "ten";r=2;t=10, "per-user";r=0;t=60`} {
		if !strings.Contains(got, line) {
			t.Errorf("denied: %q is not there:\n%s", line, got)
		}
	}
	if strings.Contains(got, "Content-Length") {
		t.Errorf("the length is Envoy's to say:\n%s", got)
	}
	if body := string(r.RawBody); !strings.Contains(body, `"violated-policies":["per-user"]`) || !strings.Contains(body, `"retry_after_seconds":60`) {
		t.Errorf("body: %s", body)
	}
	own := r.DynamicMetadata.AsMap()["penstock"].(map[string]any)
	if own["rule"] != "per-user" || own["reason"] != "over_limit" {
		t.Errorf("metadata: %v", own)
	}
	r, err = client.ShouldRateLimit(patient(t), ask("tried=1"))
	if err != nil || r.OverallCode != rlsv3.RateLimitResponse_OK || !strings.Contains(r.DynamicMetadata.String(), "tried") {
		t.Errorf("what is only tried: %v, %v", r, err)
	}
}

// Envoy adds the headers of a denial that it does not enforce to the upstream's response, and makes the body
// the message of a gRPC response, whose content type must stay.
func TestDenialsForEnvoy(t *testing.T) {
	const limits = `RateLimit: "per-user";r=0;t=60
RateLimit-Policy: "per-user";q=2;w=60
`
	const legacy = `X-RateLimit-Limit: 2
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 60
`
	const sentence = "Limit of 2 requests per 60 s (per-user) reached; retry in 60 s."
	for _, c := range []struct {
		body      rls.Body
		noHeaders bool
		headers   string
		want      string
	}{
		{rls.PlainBody, false, "Cache-Control: no-store\n" + limits + "Retry-After: 60\nX-Content-Type-Options: nosniff\n" + legacy, sentence},
		{rls.NoBody, false, "Cache-Control: no-store\n" + limits + "Retry-After: 60\nX-Content-Type-Options: nosniff\n" + legacy, ""},
		{rls.PlainBody, true, limits + legacy, sentence},
		{rls.ProblemBody, true, limits + legacy, `"status":429`},
	} {
		s := newServer(t, byRules(t, newMemory(t), ownRules), noRules)
		s.DenialBody, s.NoDenialHeaders = c.body, c.noHeaders
		client := rlsv3.NewRateLimitServiceClient(connect(t, s))
		var r *rlsv3.RateLimitResponse
		for range 3 {
			var err error
			if r, err = client.ShouldRateLimit(patient(t), ask("user=u")); err != nil {
				t.Fatal(err)
			}
		}
		body := string(r.RawBody)
		if got := headersOf(r.ResponseHeadersToAdd); got != c.headers || body != c.want && !strings.Contains(body, c.want) || (body == "") != (c.want == "") {
			t.Errorf("%+v:\n%s\n%s", c, got, body)
		}
	}
}

// Of several denials the client is told the longest wait, whichever comes first.
func TestLongestWait(t *testing.T) {
	client := newClient(t, byRules(t, newMemory(t), ownRules))
	minute, hour := "user=u", "user=w,op=write"
	for _, r := range []*rlsv3.RateLimitRequest{ask(minute, hour), ask(minute)} {
		if _, err := client.ShouldRateLimit(patient(t), r); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []*rlsv3.RateLimitRequest{ask(minute, hour), ask(hour, minute), ask("other=1", hour, minute, "other=2")} {
		got, err := client.ShouldRateLimit(patient(t), r)
		if err != nil || !strings.Contains(headersOf(got.ResponseHeadersToAdd), "Retry-After: 3600\n") {
			t.Errorf("%v: %v, %v", r, got, err)
		}
	}
	got, err := client.ShouldRateLimit(patient(t), ask(hour, "who=evil", minute))
	if err != nil || strings.Contains(headersOf(got.ResponseHeadersToAdd), "Retry-After") {
		t.Errorf("no wait helps: %v, %v", got, err)
	}
}

// The dynamic metadata has the format that filters and logs know from envoyproxy/ratelimit.
func TestMetadataOfFile(t *testing.T) {
	const file = `
domain: mesh
descriptors:
  - {key: a, metadata: {plan: gold, weights: [1, true], deep: {a: 1}}, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: b, metadata: {plan: silver, region: eu, deep: {a: 2, b: 2}}, rate_limit: {unlimited: true}}
  - {key: c, rate_limit: {unit: hour, requests_per_unit: 9}}
`
	const request = `"domain": "mesh", "descriptors": [{"entries": ["a=1"]}, {"entries": ["b=1", "x=y=z"]}, {"entries": ["b=1"], "hitsAddend": 2}]`
	all := ask("a=1", "b=1,x=y=z", costing(2, descriptor("b=1")))
	all.HitsAddend = 1
	for _, c := range []struct {
		name    string
		request bool
		ask     *rlsv3.RateLimitRequest
		want    []string // one after another
	}{
		{"metadata alone", false, ask("a=1", "b=1"), []string{
			`{"metadata": {"plan": "gold", "region": "eu", "weights": [1, true], "deep": {"a": 1, "b": 2}}}`,
			`{"metadata": {"plan": "silver", "region": "eu", "deep": {"a": 2, "b": 2}}, "penstock": {"rule": "mesh.a", "reason": "over_limit"}}`, // of what passes
		}},
		{"with the request", true, all, []string{
			`{` + request + `, "hitsAddend": 1, "metadata": {"plan": "gold", "region": "eu", "weights": [1, true], "deep": {"a": 1, "b": 2}}}`,
		}},
		{"nothing but the request", true, ask("c=1"), []string{`{"domain": "mesh", "descriptors": [{"entries": ["c=1"]}]}`}},
		{"nothing", false, ask("c=1"), []string{`null`}},
	} {
		s := newServer(t, byFile(t, file, testServer{Store: newMemory(t)}), noRules)
		s.RequestMetadata = c.request
		client := rlsv3.NewRateLimitServiceClient(connect(t, s))
		for i, text := range c.want {
			r, err := client.ShouldRateLimit(patient(t), c.ask)
			if err != nil {
				t.Fatal(err)
			}
			var want map[string]any
			if err := json.Unmarshal([]byte(text), &want); err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if r.DynamicMetadata != nil {
				got = r.DynamicMetadata.AsMap()
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %d:\ngot  %v\nwant %v", c.name, i, got, want)
			}
		}
	}
}

// Without metadata a response is that of envoyproxy/ratelimit, unless the request is asked for.
func TestNoMetadata(t *testing.T) {
	for asked, want := range map[bool]bool{false: false, true: true} {
		s := newServer(t, byFile(t, hourlyWithMetadata, testServer{Store: newMemory(t)}), noRules)
		s.NoMetadata, s.RequestMetadata = true, asked
		client := rlsv3.NewRateLimitServiceClient(connect(t, s))
		for range 2 { // allowed, then denied
			r, err := client.ShouldRateLimit(patient(t), ask("a=1"))
			if err != nil || (r.DynamicMetadata != nil) != want || asked && r.DynamicMetadata.Fields["domain"] == nil {
				t.Errorf("request metadata %t: %v, %v", asked, r, err)
			}
		}
	}
}

const hourlyWithMetadata = "domain: mesh\ndescriptors: [{key: a, metadata: {plan: gold}, rate_limit: {unit: hour, requests_per_unit: 1}}]"

// unavailableStore is a store that is unavailable.
type unavailableStore struct{}

func (unavailableStore) Take(context.Context, *storage.Ticket, *storage.Outcome) error {
	return penstock.ErrUnavailable
}

func TestStoreGone(t *testing.T) {
	client := newClient(t, byRules(t, unavailableStore{}, ownRules))
	for _, s := range []step{
		{ask("user=u"), "OK | OK"},
		{ask("strict=1"), "OVER_LIMIT | OVER_LIMIT"},
	} {
		if r, err := client.ShouldRateLimit(patient(t), s.ask); err != nil || brief(r) != s.want {
			t.Errorf("%v: %v, %v, want %s", s.ask, brief(r), err, s.want)
		}
	}
	if _, err := client.ShouldRateLimit(patient(t), ask(limited(1, typev3.RateLimitUnit_HOUR, descriptor("a=1")))); status.Code(err) != codes.Unavailable {
		t.Errorf("a limit for which nothing stands in: %v", err)
	}
	local := byFile(t, limits, testServer{Store: unavailableStore{}, Local: newMemory(t)})
	run(t, local, []step{
		{ask("blocked=1"), "OVER_LIMIT | OVER_LIMIT  0/SECOND 0 left for 1s"},
		{ask("ip=1"), "OK | OK per-ip 2/MINUTE 1 left for 1m0s"},
	})
}
