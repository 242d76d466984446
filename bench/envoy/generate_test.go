package envoy

import (
	"fmt"
	"math/rand/v2"
	"strings"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func domainOf(worker int) string { return fmt.Sprint("compare", worker) }

// fileOf returns the limits of a domain for both services. Windows are long enough that none ends within a run.
func fileOf(domain string) string {
	return `domain: ` + domain + `
descriptors:
  - {key: plain, rate_limit: {unit: day, requests_per_unit: 20}}
  - {key: plain, value: exact, rate_limit: {unit: week, requests_per_unit: 700}}
  - {key: named, rate_limit: {unit: year, requests_per_unit: 10, name: my-limit}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: month, requests_per_unit: 10}}
  - {key: zero, rate_limit: {unit: year, requests_per_unit: 0}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: pass}
  - {key: wild, value: a-*, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: wild, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: shared, value: b-*, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 300}}
  - {key: replacing, rate_limit: {unit: week, requests_per_unit: 50, replaces: [{name: my-limit}]}}
  - key: user
    descriptors:
      - {key: op, value: write, rate_limit: {unit: day, requests_per_unit: 15}}
      - {key: op, rate_limit: {unit: month, requests_per_unit: 30}}
`
}

// A generator makes random requests, most of them about few keys so that limits are reached.
type generator struct {
	r      *rand.Rand
	domain string
	made   int
}

func newGenerator(seed uint64, worker int) *generator {
	return &generator{r: rand.New(rand.NewPCG(seed, uint64(worker))), domain: domainOf(worker)}
}

func (g *generator) often(percent int) bool { return g.r.IntN(100) < percent }

func pick[T any](g *generator, from ...T) T { return from[g.r.IntN(len(from))] }

func (g *generator) request() *rlsv3.RateLimitRequest {
	g.made++
	r := &rlsv3.RateLimitRequest{Domain: g.domain}
	switch {
	case g.often(1):
		r.Domain = pick(g, "", "elsewhere")
	case g.often(1):
		return r // without descriptors
	}
	if g.often(40) {
		r.HitsAddend = pick[uint32](g, 0, 1, 2, 3, 7, 1000)
	}
	for range 1 + g.r.IntN(4) {
		r.Descriptors = append(r.Descriptors, g.descriptor())
	}
	return r
}

// ways are descriptors that match the limits, or nearly match.
var ways = [][]string{
	{"plain"}, {"plain"}, {"named"}, {"shadow"}, {"zero"}, {"free"}, {"pass"}, {"wild"}, {"wild"}, {"shared"}, {"replacing"},
	{"user", "op"}, {"user", "op"}, {"user"}, {"user", "op", "more"}, {"unknown"}, {"", "op"}, {},
}

func (g *generator) descriptor() *descriptorv3.RateLimitDescriptor {
	d := &descriptorv3.RateLimitDescriptor{}
	for _, key := range pick(g, ways...) {
		d.Entries = append(d.Entries, &descriptorv3.RateLimitDescriptor_Entry{Key: key, Value: g.value(key)})
	}
	if g.often(25) {
		d.HitsAddend = wrapperspb.UInt64(pick[uint64](g, 0, 0, 1, 2, 5, 40, 1e9))
	}
	if n := len(d.Entries); n > 0 && g.often(6) {
		d.Limit = &descriptorv3.RateLimitDescriptor_RateLimitOverride{
			RequestsPerUnit: pick[uint32](g, 0, 1, 5, 50, 4294967295),
			Unit:            pick(g, typev3.RateLimitUnit_DAY, typev3.RateLimitUnit_MONTH, typev3.RateLimitUnit_YEAR),
		}
		// Each limit has its own counters: Penstock does not count requests that its deny cache denies, which another
		// limit on the same counter would show.
		d.Entries[n-1].Value += fmt.Sprint(" under ", d.Limit.RequestsPerUnit)
	}
	return d
}

func (g *generator) value(key string) string {
	epoch := g.made / 400 // new keys from time to time, because the others stay over their limits
	switch {
	case g.often(1):
		return strings.Repeat("long-value-", 1000) + fmt.Sprint(epoch)
	case g.often(1):
		return ""
	case key == "plain" && g.often(30):
		return "exact"
	case key == "op":
		return pick(g, "read", "write", "other")
	case key == "wild" || key == "shared":
		return pick(g, "a-", "b-", "") + fmt.Sprintf("%d-%d", epoch, g.r.IntN(2))
	}
	return fmt.Sprintf("%d-%d", epoch, g.r.IntN(3))
}
