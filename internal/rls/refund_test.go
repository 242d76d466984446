package rls_test

import (
	"fmt"
	"testing"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine/denycache"
	"github.com/penstock-io/penstock/internal/rls"
	"github.com/penstock-io/penstock/storage"
)

// back makes the hits of a descriptor negative.
func back(hits uint64, text string) *descriptorv3.RateLimitDescriptor {
	d := costing(hits, descriptor(text))
	d.IsNegativeHits = true
	return d
}

// refunding serves a limiter with negative hits, and with request IDs in id entries.
func refunding(t *testing.T, limiter rls.Limiter) rlsv3.RateLimitServiceClient {
	t.Helper()
	return rlsv3.NewRateLimitServiceClient(connect(t, newServerWith(t, limiter, noRules, rls.Options{NegativeHits: true, RequestIDKey: "id"})))
}

func (s step) check(t *testing.T, client rlsv3.RateLimitServiceClient) {
	t.Helper()
	out, err := client.ShouldRateLimit(patient(t), s.ask)
	if err != nil {
		t.Fatalf("%v: %v", s.ask, err)
	}
	if got := brief(out); got != s.want {
		t.Errorf("%v\n got %s\nwant %s", s.ask, got, s.want)
	}
}

var refundCases = []struct {
	name  string
	by    testServer
	steps []step
}{
	{name: "of what the window holds", steps: []step{
		{ask(back(3, "ip=1")), "OK | OK per-ip 2/MINUTE 2 left for 1m0s"},
		{withHits(5, "ip=1"), "OVER_LIMIT | OVER_LIMIT per-ip 2/MINUTE 0 left for 1m0s"},
		{ask("ip=1"), "OVER_LIMIT | OVER_LIMIT per-ip 2/MINUTE 0 left for 1m0s"},
		{ask(back(2, "ip=1")), "OK | OK per-ip 2/MINUTE 0 left for 1m0s"}, // it never denies
		{ask(back(3, "ip=1"), back(1, "ip=2")), "OK | OK per-ip 2/MINUTE 1 left for 1m0s | OK per-ip 2/MINUTE 2 left for 1m0s"},
		{ask("ip=1"), "OK | OK per-ip 2/MINUTE 0 left for 1m0s"},
		{ask(back(1<<63, "ip=1")), "OK | OK per-ip 2/MINUTE 2 left for 1m0s"},
		{ask("ip=1"), "OK | OK per-ip 2/MINUTE 1 left for 1m0s"},
	}},
	{name: "in the order of the descriptors", steps: []step{
		{ask("ip=1", back(1, "ip=1"), "ip=1", "ip=1", back(3, "ip=1")), "OK | OK per-ip 2/MINUTE 1 left for 1m0s | OK per-ip 2/MINUTE 2 left for 1m0s | OK per-ip 2/MINUTE 1 left for 1m0s | OK per-ip 2/MINUTE 0 left for 1m0s | OK per-ip 2/MINUTE 2 left for 1m0s"},
	}},
	{name: "of limits in other modes", steps: []step{
		{ask("tried=1", "quota=a"), "OK | OK  1/DAY 0 left for 12h0m0s | OK  1/MINUTE 0 left for 1m0s"},
		{ask(back(1, "tried=1"), back(1, "quota=a"), back(1, "free=1"), back(1, "other=1")), "OK | OK  1/DAY 1 left for 12h0m0s | OK  1/MINUTE 1 left for 1m0s | OK 4294967295 left | OK"},
		{ask(limited(4, typev3.RateLimitUnit_HOUR, descriptor("ip=7"))), "OK | OK  4/HOUR 3 left for 1h0m0s"},
		{ask(limited(4, typev3.RateLimitUnit_HOUR, back(1, "ip=7"))), "OK | OK  4/HOUR 4 left for 1h0m0s"},
	}},
	{name: "beside charges that are made unless over", by: testServer{UnlessOver: true}, steps: []step{
		{withHits(13, "fifteen=1", "fourteen=1"), "OK | OK  15/HOUR 2 left for 1h0m0s | OK  14/HOUR 1 left for 1h0m0s"},
		{ask(costing(2, descriptor("fifteen=1")), costing(2, descriptor("fourteen=1")), back(1, "fifteen=1")), "OVER_LIMIT | OK  15/HOUR 2 left for 1h0m0s | OVER_LIMIT  14/HOUR 0 left for 1h0m0s | OK  15/HOUR 3 left for 1h0m0s"},
	}},
	{name: "by the id of the request", steps: []step{
		{ask("ip=1,id=a"), "OK | OK per-ip 2/MINUTE 1 left for 1m0s"},
		{ask("id=b,ip=1"), "OK | OK per-ip 2/MINUTE 0 left for 1m0s"},
		{ask("ip=1,id=c"), "OVER_LIMIT | OVER_LIMIT per-ip 2/MINUTE 0 left for 1m0s"},
		{ask(back(1, "ip=1,id=c")), "OK | OK per-ip 2/MINUTE 0 left for 1m0s"}, // denied requests were counted, too
		{ask(back(1, "ip=1,id=a")), "OK | OK per-ip 2/MINUTE 1 left for 1m0s"},
		{ask(back(1, "ip=1,id=a")), "OK | OK per-ip 2/MINUTE 1 left for 1m0s"}, // once
		{ask(back(1, "ip=1,id=x")), "OK | OK"},                                 // unknown
		{ask(back(1, "ip=2,id=b")), "OK | OK"},                                 // another client's
		{ask("ip=1"), "OK | OK per-ip 2/MINUTE 0 left for 1m0s"},
	}},
}

func TestRefunds(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, newStore func(testing.TB) storage.FullStore) {
		for _, c := range refundCases {
			t.Run(c.name, func(t *testing.T) {
				c.by.Store, c.by.Refunds = newStore(t), true
				client := refunding(t, byFile(t, limits, c.by))
				for _, s := range c.steps {
					s.check(t, client)
				}
			})
		}
	})
}

// Under rules, permits are released by the request's ID, and windows are refunded.
func TestRefundsByRules(t *testing.T) {
	t.Parallel()
	const text = `
rules:
  - {name: running, match: {domain: mesh}, key: [user], limits: [{concurrent: 1, ttl: 10m}]}
  - {name: hourly, match: {domain: mesh}, key: [ip], limits: [2/1h]}
`
	onEveryStore(t, func(t *testing.T, newStore func(testing.TB) storage.FullStore) {
		client := refunding(t, byRulesWith(t, newStore(t), text, true))
		for _, s := range []step{
			{ask("user=u,id=1"), "OK | OK running 1/UNKNOWN 0 left for 10m0s"},
			{ask("user=u,id=2"), "OVER_LIMIT | OVER_LIMIT running 1/UNKNOWN 0 left for 10m0s"},
			{ask(back(1, "user=u,id=2")), "OK | OK running 1/UNKNOWN 0 left for 10m0s"},
			{ask("user=u,id=3"), "OVER_LIMIT | OVER_LIMIT running 1/UNKNOWN 0 left for 10m0s"},
			{ask(back(1, "user=u,id=1")), "OK | OK running 1/UNKNOWN 1 left for 0s"},
			{ask("user=u,id=3"), "OK | OK running 1/UNKNOWN 0 left for 10m0s"},
			{ask("ip=1"), "OK | OK hourly 2/HOUR 1 left for 2h0m0s"},
			{ask(back(1, "ip=1")), "OK | OK hourly 2/HOUR 2 left for 0s"},
		} {
			s.check(t, client)
		}
	})
}

// Envoy charges a login first and gives the hit back with the response, or none if metadata says that it failed.
func TestHitsOfTheResponse(t *testing.T) {
	t.Parallel()
	const text = `
rules:
  - {name: logins, match: {domain: mesh}, key: [ip], limits: [{rate: 2/1h, algorithm: token_bucket, burst: 2}]}
  - {name: log, match: {domain: mesh}, key: [user], limits: [{rate: 2/1h, algorithm: sliding_window_log}]}
`
	onEveryStore(t, func(t *testing.T, newStore func(testing.TB) storage.FullStore) {
		client := refunding(t, byRulesWith(t, newStore(t), text, true))
		const failed, correct = 0, 1
		const ok, over = rlsv3.RateLimitResponse_OK, rlsv3.RateLimitResponse_OVER_LIMIT
		for _, entry := range []string{"ip=1", "user=1"} {
			for i, login := range []struct {
				hits uint64 // that the response gives back
				want rlsv3.RateLimitResponse_Code
			}{{correct, ok}, {correct, ok}, {correct, ok}, {failed, ok}, {correct, ok}, {failed, ok}, {correct, over}} {
				id := fmt.Sprintf("%s,id=%s%d", entry, entry[:2], i)
				out, err := client.ShouldRateLimit(patient(t), ask(id))
				if err != nil || out.OverallCode != login.want {
					t.Fatalf("%s %d: %v, %v", entry, i, out, err)
				}
				for range 2 { // sent again, it takes effect once
					if out, err := client.ShouldRateLimit(patient(t), ask(back(login.hits, id))); err != nil || out.OverallCode != ok {
						t.Fatalf("%s %d: %v, %v", entry, i, out, err)
					}
				}
			}
		}
	})
}

// A denial under a limit that can be refunded is not cached: another node may have refunded it.
func TestRefundsEndDenials(t *testing.T) {
	store := newMemory(t)
	cached := func() penstock.Store {
		c, err := denycache.New(store, denycache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	here := refunding(t, byFile(t, limits, testServer{Store: cached(), Refunds: true}))
	there := refunding(t, byFile(t, limits, testServer{Store: cached(), Refunds: true}))
	for _, s := range []struct {
		on rlsv3.RateLimitServiceClient
		step
	}{
		{here, step{withHits(3, "ip=1"), "OVER_LIMIT | OVER_LIMIT per-ip 2/MINUTE 0 left for 1m0s"}},
		{here, step{ask("ip=1"), "OVER_LIMIT | OVER_LIMIT per-ip 2/MINUTE 0 left for 1m0s"}},
		{there, step{ask(back(3, "ip=1")), "OK | OK per-ip 2/MINUTE 1 left for 1m0s"}},
		{here, step{ask("ip=1"), "OK | OK per-ip 2/MINUTE 0 left for 1m0s"}},
	} {
		s.check(t, s.on)
	}
}
