package plan

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-io/penstock"
	_ "github.com/penstock-io/penstock/internal/fixedseed"
)

func same(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b), 1) }

// The textbook's figures, where they are right.
func TestTextbook(t *testing.T) {
	p, err := Make(Default(), DefaultCosts())
	if err != nil {
		t.Fatal(err)
	}
	for what, is := range map[string]bool{
		"50 billion requests a day": p.RequestsPerDay == 50e9,
		"25 billion counters":       p.AllCounters == 25e9,
		"50 TB a day":               p.BytesPerDay == 50e12,
		"579 MB/s":                  math.Round(p.Bandwidth/1e6) == 579,
		"579 K/s":                   math.Round(p.Average/1e3) == 579,
	} {
		if !is {
			t.Errorf("%s: %+v", what, p)
		}
	}
}

// For any input, totals are the sums of their parts, nothing is negative, more traffic never takes less, and the
// plan has enough servers.
func TestTotalsAddUp(t *testing.T) {
	amount := rapid.Float64Range(1, 1e6)
	share := rapid.Float64Range(0, 1)
	rapid.Check(t, func(t *rapid.T) {
		in := Default()
		in.DailyUsers, in.MonthlyUsers = amount.Draw(t, "users"), 0
		in.RequestsPerUser, in.Peak = amount.Draw(t, "requests"), rapid.Float64Range(1, 20).Draw(t, "peak")
		in.Denied, in.Leased = share.Draw(t, "denied"), share.Draw(t, "leased")
		in.Replicas = float64(rapid.IntRange(0, 3).Draw(t, "replicas"))
		in.Rules = nil
		for range rapid.IntRange(1, 5).Draw(t, "rules") {
			in.Rules = append(in.Rules, RuleInput{
				Count: float64(rapid.IntRange(1, 50).Draw(t, "count")), Share: share.Draw(t, "share"), Keys: amount.Draw(t, "keys"),
				Algorithm: rapid.SampledFrom(algorithms).Draw(t, "algorithm"), Window: time.Duration(rapid.Int64Range(1, 1e15).Draw(t, "window")), Limit: amount.Draw(t, "limit"),
			})
		}
		p, err := Make(in, DefaultCosts())
		if err != nil {
			t.Fatal(err)
		}
		var live, all, memory, redis float64
		for _, r := range p.Rules {
			if r.Live > r.All*(1+1e-9) || r.Live < 0 || r.Entries > r.Limit && r.Limit >= 1 {
				t.Fatalf("%+v", r)
			}
			live, all, memory, redis = live+r.Live, all+r.All, memory+r.Memory.InProcess, redis+r.Memory.Redis
		}
		if !same(live, p.Live) || !same(all, p.AllCounters) || !same(memory, p.Memory.InProcess) || !same(redis, p.Memory.Redis) {
			t.Fatalf("sums %v, %v, %v, %v of %+v", live, all, memory, redis, p)
		}
		if !same(p.Average*86400, p.RequestsPerDay) || !same(p.StoreAsks, p.Decisions*(1-p.Saved)) || p.Saved < 0 || p.Saved > 1 ||
			!same(p.RedisServers, p.Shards*(1+in.Replicas)) || p.Memory.Redis > p.AllMemory.Redis*(1+1e-9) {
			t.Fatalf("%+v", p)
		}
		if p.Shards*in.CPU < p.RedisCores*(1-1e-9) || p.Shards*in.ShardMemory*maxFill < p.Memory.Redis*(1-1e-9) || p.Gateways*in.Cores*in.CPU < p.GatewayCores*(1-1e-9) {
			t.Fatalf("too few servers: %+v", p)
		}
		more := in
		more.RequestsPerUser *= 2
		twice, err := Make(more, DefaultCosts())
		if err != nil || twice.Live < p.Live*(1-1e-9) || twice.Shards < p.Shards || twice.Gateways < p.Gateways {
			t.Fatalf("twice the requests: %v %+v", err, twice)
		}
	})
}

func TestValidate(t *testing.T) {
	_, err := Make(Input{DailyUsers: 10, MonthlyUsers: 5, Denied: 2, Rules: []RuleInput{{Name: "a", Algorithm: penstock.FixedWindow}}}, DefaultCosts())
	for _, want := range []string{"5 monthly users are fewer than 10 daily ones", "0 requests per user", "peak of 0", "denied share 2", "target CPU 0", "rule a: count, window and limit must be above 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 0.5: "0.5", 999: "999", 1234: "1,234", 12_345: "12.3 K", 999_999: "1 M", 50e9: "50 G", 2.5e12: "2.5 T", 578_703: "579 K"} {
		if got := Number(n); got != want {
			t.Errorf("Number(%v) = %s, want %s", n, got, want)
		}
	}
}
