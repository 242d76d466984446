package rls_test

import (
	"maps"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/penstock-io/penstock/internal/rls"
)

// The headers are those of the limit that is closest to being exceeded, as envoyproxy/ratelimit has them.
func TestLimitHeaders(t *testing.T) {
	server := newServerWith(t, byFile(t, limits, testServer{Store: newMemory(t)}), noRules, rls.Options{
		LimitHeaders: &rls.LimitHeaders{Limit: "X-My-Limit", Remaining: "X-My-Remaining", Reset: "X-My-Reset"},
	})
	client := rlsv3.NewRateLimitServiceClient(connect(t, server))
	for _, c := range []struct {
		request                 *rlsv3.RateLimitRequest
		limit, remaining, reset string // empty: no headers
	}{
		{ask("ip=1"), "2", "1", "60"},
		{ask("ip=10.0.0.1", "ip=2"), "2", "1", "60"},
		{ask("ip=3", "fifteen=1"), "2", "1", "60"},
		{ask("other=1"), "", "", ""},
		{ask("free=1"), "", "", ""},
		{ask("blocked=1"), "0", "0", "1"},
		{ask("blocked=1", "blocked=2", "ip=4"), "0", "0", "1"},
		{ask("month=1", "week=1"), "1", "0", "475200"},                         // the first of those with the least
		{ask("month=1", "week=1"), "1", "0", "561600"},                         // the last of those that deny
		{ask("quota=a", "quota=b", "ip=5"), "1", "0", "60"},                    // the first with the least
		{ask("fifteen=1", "quota=a", "year=1"), "1", "0", "60"},                // a quota does not deny, but is closest
		{ask("quota=a", "year=1", "quota=b", "other=1"), "1", "0", "30283200"}, // this one denies
	} {
		out, err := client.ShouldRateLimit(patient(t), c.request)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, h := range out.ResponseHeadersToAdd {
			switch h.Key {
			case "X-My-Limit", "X-My-Remaining", "X-My-Reset":
				got[h.Key] += h.Value
			}
		}
		want := map[string]string{"X-My-Limit": c.limit, "X-My-Remaining": c.remaining, "X-My-Reset": c.reset}
		if c.limit == "" {
			want = map[string]string{}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%v: got %v, want %v", c.request, got, want)
		}
	}
}

// In global shadow mode every request is allowed, and statuses report which limits are exceeded.
func TestShadow(t *testing.T) {
	server := newServerWith(t, byFile(t, limits, testServer{Store: newMemory(t)}), noRules, rls.Options{Shadow: true})
	client := rlsv3.NewRateLimitServiceClient(connect(t, server))
	for _, request := range []*rlsv3.RateLimitRequest{ask("blocked=1"), ask("blocked=1", "ip=10.0.0.1")} {
		out, err := client.ShouldRateLimit(patient(t), request)
		if err != nil {
			t.Fatal(err)
		}
		if out.OverallCode != rlsv3.RateLimitResponse_OK || out.Statuses[0].Code != rlsv3.RateLimitResponse_OVER_LIMIT || len(out.RawBody) > 0 {
			t.Errorf("got %s with the body %q", brief(out), out.RawBody)
		}
		for _, h := range out.ResponseHeadersToAdd {
			if h.Key == "Retry-After" || h.Key == "Content-Type" {
				t.Errorf("an allowed response has %v", h)
			}
		}
	}
	if n := server.Shadowed(); n != 2 {
		t.Errorf("%d requests counted that would have been denied, want 2", n)
	}
}

// A limit of 0 has headers, too.
func TestHeadersOfZeroLimit(t *testing.T) {
	client := newClient(t, byFile(t, limits, testServer{Store: newMemory(t)}))
	out, err := client.ShouldRateLimit(patient(t), ask("blocked=1"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, h := range out.ResponseHeadersToAdd {
		got[h.Key] = h.Value
	}
	if got["X-RateLimit-Limit"] != "0" || got["X-RateLimit-Remaining"] != "0" || got["X-RateLimit-Reset"] != "1" {
		t.Errorf("got %v", got)
	}
}
