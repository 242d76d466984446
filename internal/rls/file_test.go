package rls_test

import (
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/penstock-io/penstock/storage"
)

// limits has some of everything.
const limits = `
domain: mesh
descriptors:
  - {key: ip, rate_limit: {unit: minute, requests_per_unit: 2, name: per-ip}}
  - {key: ip, value: 10.0.0.1, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: blocked, rate_limit: {unit: second, requests_per_unit: 0}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: pass}
  - {key: tried, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: month, rate_limit: {unit: month, requests_per_unit: 1}}
  - {key: year, rate_limit: {unit: YEAR, requests_per_unit: 1}}
  - {key: week, rate_limit: {unit: week, requests_per_unit: 1}}
  - {key: tenant, value: shared-*, share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: tenant, value: own-*, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: quota, value: a, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: quota, value: b, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: huge, rate_limit: {unit: hour, requests_per_unit: 4294967295}}
  - {key: special, rate_limit: {unit: minute, requests_per_unit: 9, replaces: [{name: per-ip}]}}
  - {key: tens, rate_limit: {unit: second, unit_multiplier: 10, requests_per_unit: 1}}
  - {key: bucket, rate_limit: {unit: minute, requests_per_unit: 60, algorithm: token_bucket, burst: 2}}
  - {key: sliding, rate_limit: {unit: minute, requests_per_unit: 1, algorithm: sliding_window_log}}
  - {key: fifteen, rate_limit: {unit: hour, requests_per_unit: 15}}
  - {key: fourteen, rate_limit: {unit: hour, requests_per_unit: 14}}
  - key: user
    descriptors:
      - {key: op, value: write, rate_limit: {unit: minute, requests_per_unit: 1}}
`

var fileCases = []struct {
	name  string
	by    testServer
	steps []step
}{
	{name: "one counter for each value", steps: []step{
		{ask("ip=1"), "OK | OK per-ip 2/MINUTE 1 left for 1m0s"},
		{ask("ip=1"), "OK | OK per-ip 2/MINUTE 0 left for 1m0s"},
		{ask("ip=1"), "OVER_LIMIT | OVER_LIMIT per-ip 2/MINUTE 0 left for 1m0s"},
		{ask("ip=2"), "OK | OK per-ip 2/MINUTE 1 left for 1m0s"},
		{ask("ip=10.0.0.1"), "OK | OK  5/HOUR 4 left for 1h0m0s"},
	}},
	{name: "nothing applies", steps: []step{
		{ask("other=1"), "OK | OK"},
		{ask("pass=1"), "OK | OK"},
		{ask("user=u"), "OK | OK"},
		{ask("ip=1,op=write"), "OK | OK"},
		{&rlsv3.RateLimitRequest{Domain: "elsewhere", Descriptors: ask("ip=1").Descriptors}, "OK | OK"},
		{&rlsv3.RateLimitRequest{Domain: "elsewhere", Descriptors: ask(limited(0, typev3.RateLimitUnit_HOUR, descriptor("ip=1"))).Descriptors}, "OK | OK"},
	}},
	{name: "depth", steps: []step{
		{ask("user=u,op=write"), "OK | OK  1/MINUTE 0 left for 1m0s"},
		{ask("user=u,op=write"), "OVER_LIMIT | OVER_LIMIT  1/MINUTE 0 left for 1m0s"},
		{ask("user=v,op=write"), "OK | OK  1/MINUTE 0 left for 1m0s"},
		{ask("user=u,op=read"), "OK | OK"},
		{ask("op=write"), "OK | OK"},
		{ask("user=u,op=write,more=1"), "OK | OK"},
	}},
	{name: "every descriptor is charged, whatever the others say", steps: []step{
		{ask("blocked=x", "ip=1"), "OVER_LIMIT | OVER_LIMIT  0/SECOND 0 left for 1s | OK per-ip 2/MINUTE 1 left for 1m0s"},
		{ask("ip=1", "other=1", "blocked=x"), "OVER_LIMIT | OK per-ip 2/MINUTE 0 left for 1m0s | OK | OVER_LIMIT  0/SECOND 0 left for 1s"},
		{ask("ip=1"), "OVER_LIMIT | OVER_LIMIT per-ip 2/MINUTE 0 left for 1m0s"},
		{ask("ip=2", "ip=2"), "OK | OK per-ip 2/MINUTE 1 left for 1m0s | OK per-ip 2/MINUTE 0 left for 1m0s"},
	}},
	{name: "charged together", by: testServer{Together: true}, steps: []step{
		{ask("blocked=x", "ip=1"), "OVER_LIMIT | OVER_LIMIT  0/SECOND 0 left for 1s | OK per-ip 2/MINUTE 2 left for 1m0s"},
		{ask("ip=1", "month=x"), "OK | OK per-ip 2/MINUTE 1 left for 1m0s | OK  1/MONTH 0 left for 132h0m0s"},
		{ask("ip=1", "month=x"), "OVER_LIMIT | OK per-ip 2/MINUTE 1 left for 1m0s | OVER_LIMIT  1/MONTH 0 left for 132h0m0s"},
		{ask("ip=1", "tried=x"), "OK | OK per-ip 2/MINUTE 0 left for 1m0s | OK  1/DAY 0 left for 12h0m0s"},
		{ask("ip=1", "tried=x"), "OVER_LIMIT | OVER_LIMIT per-ip 2/MINUTE 0 left for 1m0s | OK  1/DAY 0 left for 12h0m0s"},
		{ask("ip=2", "ip=2"), "OK | OK per-ip 2/MINUTE 1 left for 1m0s | OK per-ip 2/MINUTE 0 left for 1m0s"},
		{ask(limited(1, typev3.RateLimitUnit_HOUR, descriptor("ip=3"))), "OK | OK  1/HOUR 0 left for 1h0m0s"},
	}},
	{name: "charged unless over", by: testServer{UnlessOver: true}, steps: []step{
		{withHits(13, "fifteen=1", "fourteen=1"), "OK | OK  15/HOUR 2 left for 1h0m0s | OK  14/HOUR 1 left for 1h0m0s"},
		{withHits(2, "fifteen=1", "fourteen=1"), "OVER_LIMIT | OK  15/HOUR 2 left for 1h0m0s | OVER_LIMIT  14/HOUR 0 left for 1h0m0s"},
		{ask("fourteen=1"), "OVER_LIMIT | OVER_LIMIT  14/HOUR 0 left for 1h0m0s"}, // it was charged, and has 16
		{ask(costing(2, descriptor("fifteen=1")), "other=1", "free=1"), "OK | OK  15/HOUR 0 left for 1h0m0s | OK | OK 4294967295 left"},
		{ask("fifteen=2", "tried=1", "tried=1"), "OK | OK  15/HOUR 14 left for 1h0m0s | OK  1/DAY 0 left for 12h0m0s | OK  1/DAY 0 left for 12h0m0s"},
		{ask("fifteen=2", "tried=1"), "OK | OK  15/HOUR 14 left for 1h0m0s | OK  1/DAY 0 left for 12h0m0s"}, // shadow mode is over, too
		{ask("fifteen=2", "ip=2", "ip=2", "ip=2"), "OVER_LIMIT | OK  15/HOUR 13 left for 1h0m0s | OK per-ip 2/MINUTE 1 left for 1m0s | OK per-ip 2/MINUTE 0 left for 1m0s | OVER_LIMIT per-ip 2/MINUTE 0 left for 1m0s"},
	}},
	{name: "global quota mode", by: testServer{Quota: true}, steps: []step{
		{ask("blocked=1", "ip=1"), "OK | OVER_LIMIT  0/SECOND 0 left for 1s | OK per-ip 2/MINUTE 1 left for 1m0s"},
		{ask("blocked=1"), "OVER_LIMIT | OVER_LIMIT  0/SECOND 0 left for 1s"},
		{ask("blocked=1", "other=1"), "OK | OVER_LIMIT  0/SECOND 0 left for 1s | OK"},
		{ask("blocked=1", "free=1"), "OVER_LIMIT | OVER_LIMIT  0/SECOND 0 left for 1s | OK 4294967295 left"},
	}},
	{name: "windows and algorithms that are ours", steps: []step{
		{ask("tens=1"), "OK | OK  1/UNKNOWN 0 left for 10s"},
		{ask("tens=1"), "OVER_LIMIT | OVER_LIMIT  1/UNKNOWN 0 left for 10s"},
		{withHits(2, "bucket=1"), "OK | OK  2/UNKNOWN 0 left for 2s"},
		{withHits(2, "bucket=1"), "OVER_LIMIT | OVER_LIMIT  2/UNKNOWN 0 left for 2s"}, // and was not charged
		{ask("bucket=1"), "OVER_LIMIT | OVER_LIMIT  2/UNKNOWN 0 left for 1s"},
		{ask("sliding=1", "bucket=2"), "OK | OK  1/MINUTE 0 left for 1m0s | OK  2/UNKNOWN 1 left for 1s"},
		{ask("sliding=1", "bucket=2"), "OVER_LIMIT | OVER_LIMIT  1/MINUTE 0 left for 1m0s | OK  2/UNKNOWN 0 left for 2s"},
	}},
	{name: "hits", steps: []step{
		{ask(costing(0, descriptor("ip=1"))), "OK | OK per-ip 2/MINUTE 2 left for 1m0s"},
		{&rlsv3.RateLimitRequest{Domain: "mesh", HitsAddend: 2, Descriptors: ask("ip=1", costing(1, descriptor("ip=2"))).Descriptors},
			"OK | OK per-ip 2/MINUTE 0 left for 1m0s | OK per-ip 2/MINUTE 1 left for 1m0s"},
		{ask(costing(0, descriptor("ip=1"))), "OK | OK per-ip 2/MINUTE 0 left for 1m0s"},
		{ask("ip=1"), "OVER_LIMIT | OVER_LIMIT per-ip 2/MINUTE 0 left for 1m0s"},
		{ask(costing(0, descriptor("ip=1"))), "OVER_LIMIT | OVER_LIMIT per-ip 2/MINUTE 0 left for 1m0s"},
	}},
	{name: "a cost that is more than the limit is counted", steps: []step{
		{ask(costing(1<<63, descriptor("ip=1"))), "OVER_LIMIT | OVER_LIMIT per-ip 2/MINUTE 0 left for 1m0s"},
		{ask("ip=1"), "OVER_LIMIT | OVER_LIMIT per-ip 2/MINUTE 0 left for 1m0s"},
	}},
	{name: "hits are not cut", steps: []step{
		{&rlsv3.RateLimitRequest{Domain: "mesh", HitsAddend: 2_000_000_000, Descriptors: ask("huge=1").Descriptors}, "OK | OK  4294967295/HOUR 2294967295 left for 1h0m0s"},
		{ask(costing(2_294_967_295, descriptor("huge=1"))), "OK | OK  4294967295/HOUR 0 left for 1h0m0s"},
		{ask("huge=1"), "OVER_LIMIT | OVER_LIMIT  4294967295/HOUR 0 left for 1h0m0s"},
	}},
	{name: "unlimited", steps: []step{
		{ask("free=1"), "OK | OK 4294967295 left"},
		{ask("free=1", "blocked=1"), "OVER_LIMIT | OK 4294967295 left | OVER_LIMIT  0/SECOND 0 left for 1s"},
	}},
	{name: "shadow mode", steps: []step{
		{ask("tried=1"), "OK | OK  1/DAY 0 left for 12h0m0s"},
		{ask("tried=1"), "OK | OK  1/DAY 0 left for 12h0m0s"},
		{ask(limited(1, typev3.RateLimitUnit_DAY, descriptor("tried=1"))), "OVER_LIMIT | OVER_LIMIT  1/DAY 0 left for 12h0m0s"},
	}},
	{name: "share_threshold", steps: []step{
		{ask("tenant=shared-1"), "OK | OK  1/MINUTE 0 left for 1m0s"},
		{ask("tenant=shared-2"), "OVER_LIMIT | OVER_LIMIT  1/MINUTE 0 left for 1m0s"},
		{ask(limited(1, typev3.RateLimitUnit_MINUTE, descriptor("tenant=shared-*"))), "OK | OK  1/MINUTE 0 left for 1m0s"}, // the value, not the pattern
		{ask("tenant=own-1"), "OK | OK  1/MINUTE 0 left for 1m0s"},
		{ask("tenant=own-2"), "OK | OK  1/MINUTE 0 left for 1m0s"},
		{ask("tenant=own-1"), "OVER_LIMIT | OVER_LIMIT  1/MINUTE 0 left for 1m0s"},
	}},
	{name: "quota mode", steps: []step{
		{ask("quota=a", "quota=b"), "OK | OK  1/MINUTE 0 left for 1m0s | OK  2/MINUTE 1 left for 1m0s"},
		{ask("quota=a", "quota=b"), "OK | OVER_LIMIT  1/MINUTE 0 left for 1m0s | OK  2/MINUTE 0 left for 1m0s"},
		{ask("quota=a", "quota=b"), "OVER_LIMIT | OVER_LIMIT  1/MINUTE 0 left for 1m0s | OVER_LIMIT  2/MINUTE 0 left for 1m0s"},
		{ask("quota=a", "ip=1"), "OVER_LIMIT | OVER_LIMIT  1/MINUTE 0 left for 1m0s | OK per-ip 2/MINUTE 1 left for 1m0s"},
	}},
	{name: "replaces", steps: []step{
		{ask("ip=1", "special=1"), "OK | OK | OK  9/MINUTE 8 left for 1m0s"},
		{ask("ip=1"), "OK | OK per-ip 2/MINUTE 1 left for 1m0s"},
	}},
	{name: "limits that come with descriptors", steps: []step{
		{ask(limited(1, typev3.RateLimitUnit_HOUR, descriptor("ip=1"))), "OK | OK  1/HOUR 0 left for 1h0m0s"},
		{ask(limited(1, typev3.RateLimitUnit_HOUR, descriptor("ip=1"))), "OVER_LIMIT | OVER_LIMIT  1/HOUR 0 left for 1h0m0s"},
		{ask(limited(0, typev3.RateLimitUnit_DAY, descriptor("nothing=1"))), "OVER_LIMIT | OVER_LIMIT  0/DAY 0 left for 12h0m0s"},
	}},
	{name: "a month has 30 days and a year 365", steps: []step{
		{ask("month=1", "year=1", "week=1"), "OK | OK  1/MONTH 0 left for 132h0m0s | OK  1/YEAR 0 left for 8412h0m0s | OK  1/WEEK 0 left for 156h0m0s"},
	}},
	{name: "keys are not joined", steps: []step{
		{ask("tenant=own-1"), "OK | OK  1/MINUTE 0 left for 1m0s"},
		{ask(limited(1, typev3.RateLimitUnit_MINUTE, descriptor("tenant_own=1"))), "OK | OK  1/MINUTE 0 left for 1m0s"},
		{ask(limited(1, typev3.RateLimitUnit_MINUTE, descriptor("tenant=own_1"))), "OK | OK  1/MINUTE 0 left for 1m0s"},
	}},
}

func TestFile(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, newStore func(testing.TB) storage.FullStore) {
		for _, c := range fileCases {
			t.Run(c.name, func(t *testing.T) {
				c.by.Store = newStore(t)
				run(t, byFile(t, limits, c.by), c.steps)
			})
		}
	})
}
