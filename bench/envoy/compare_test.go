package envoy

import (
	"cmp"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/penstock-io/penstock/bench/lab"
)

func response() *rlsv3.RateLimitResponse {
	return &rlsv3.RateLimitResponse{
		OverallCode:          rlsv3.RateLimitResponse_OVER_LIMIT,
		Statuses:             []*rlsv3.RateLimitResponse_DescriptorStatus{{Code: rlsv3.RateLimitResponse_OVER_LIMIT, DurationUntilReset: durationpb.New(time.Second)}},
		ResponseHeadersToAdd: []*corev3.HeaderValue{{Key: "limit", Value: "1"}, {Key: "remaining", Value: "2"}, {Key: "reset", Value: "3000"}},
		DynamicMetadata:      &structpb.Struct{Fields: map[string]*structpb.Value{"domain": structpb.NewStringValue("a")}},
	}
}

// Every part of an answer that must be the same makes a difference.
func TestDifferencesAreSeen(t *testing.T) {
	for name, spoil := range map[string]func(*rlsv3.RateLimitResponse){
		"code":      func(r *rlsv3.RateLimitResponse) { r.OverallCode = 0 },
		"status":    func(r *rlsv3.RateLimitResponse) { r.Statuses[0].Code = 0 },
		"remaining": func(r *rlsv3.RateLimitResponse) { r.Statuses[0].LimitRemaining++ },
		"statuses":  func(r *rlsv3.RateLimitResponse) { r.Statuses = append(r.Statuses, r.Statuses[0]) },
		"header":    func(r *rlsv3.RateLimitResponse) { r.ResponseHeadersToAdd[0].Value += "0" },
		"reset":     func(r *rlsv3.RateLimitResponse) { r.ResponseHeadersToAdd[2].Value += "0" },
		"body":      func(r *rlsv3.RateLimitResponse) { r.RawBody = []byte("x") },
		"metadata":  func(r *rlsv3.RateLimitResponse) { r.DynamicMetadata.Fields["domain"] = structpb.NewStringValue("x") },
	} {
		other := response()
		if !same(canonical(response()), canonical(other)) {
			t.Error("an answer differs from itself")
		}
		if spoil(other); same(canonical(response()), canonical(other)) {
			t.Errorf("another %s is not seen", name)
		}
	}
}

var (
	requests = flag.Int("requests", 0, "how many the comparison sends, of all settings")
	seed     = flag.Uint64("seed", 2, "of the random requests")
)

// Penstock answers as envoyproxy/ratelimit does.
func TestCompare(t *testing.T) {
	if *requests == 0 && os.Getenv("PENSTOCK_TEST_LONG") == "" {
		t.Skip("builds two servers and runs them: with -requests 3000, or PENSTOCK_TEST_LONG=1")
	}
	sent := int64(cmp.Or(*requests, 3000))
	var c comparison
	if err := (lab.Bench{Context: t.Context()}).Run(func(b *lab.Bench) {
		c.Bench, c.bin = b, b.TempDir("")
		build(b, c.bin)
		for _, r := range rounds {
			b.Step("%s", r.name)
			b.Scope(func() { c.round(r, sent/int64(len(rounds))) })
			if len(c.differences) > 0 {
				break // later rounds have other counters, but would show the same differences
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	denied, refused := c.denied.Load(), c.refused.Load()
	t.Logf("%d requests with %d statuses: %d denied, %d refused; %d metrics compared", sent, c.statuses.Load(), denied, refused, c.metrics)
	if denied < sent/10 || refused < sent/300 || c.metrics < 100 {
		t.Error("the comparison is not worth much")
	}
	for _, d := range c.differences[:min(20, len(c.differences))] {
		t.Error(d)
	}
}

// workers send requests at the same time, each about its own domain.
const workers = 4

// A round compares under one pair of configurations.
type round struct {
	name    string
	headers string   // settings of our envoy.response_headers
	envoy   string   // of our envoy
	rules   string   // of our rules
	theirs  []string // their environment
}

// rounds are all configurations that both services have. The version of envoyproxy/ratelimit that the benchmarks are
// built with has no negative hits, no metadata of limits and another quota mode.
var rounds = []round{
	{name: "as it comes"},
	{name: "local cache", theirs: []string{"LOCAL_CACHE_SIZE_IN_BYTES=1000000"}},
	{name: "shadow mode, other header names", headers: ", limit: X-L, remaining: X-R, reset: X-S", envoy: ", shadow_mode: true",
		theirs: []string{"SHADOW_MODE=true", "LIMIT_LIMIT_HEADER=X-L", "LIMIT_REMAINING_HEADER=X-R", "LIMIT_RESET_HEADER=X-S"}},
	{name: "stop increments when over limit", rules: ", charge: unless_over", theirs: []string{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true"}},
}

// A comparison is the number of comparisons, and every difference.
type comparison struct {
	*lab.Bench
	bin string

	statuses, denied, refused atomic.Int64 // refused requests got an error from both
	metrics                   int          // series of envoyproxy/ratelimit that have the same value

	mu          sync.Mutex
	differences []string
}

// round starts both servers and sends them the same random requests.
func (c *comparison) round(r round, requests int64) {
	admin, prometheus := lab.FreeAddr(), lab.FreeAddr()
	ours := launch(c.Bench, c.bin, func(dir, addr, redis string) *exec.Cmd {
		writeLimits(filepath.Join(dir, "config"))
		return ours(c.bin, dir, addr, redis, fmt.Sprintf(`listen: {grpc: %%q, http: "", gateway: "", admin: %q}
rules: {envoy_ratelimit: %%q%s}
headers: [none]
envoy: {denial_headers: false, denial_body: none, response_dynamic_metadata: true, response_headers: {enabled: true%s}%s}
metrics: {compat: envoy_ratelimit}
admin: {token: %s}
log: {decisions: none}
`, admin, r.rules, r.headers, r.envoy, compareToken))
	})
	theirs := launch(c.Bench, c.bin, func(dir, addr, redis string) *exec.Cmd {
		writeLimits(filepath.Join(dir, "ratelimit", "config"))
		return theirs(c.bin, dir, addr, redis, append(r.theirs, "RESPONSE_DYNAMIC_METADATA=true", "LIMIT_RESPONSE_HEADERS_ENABLED=true",
			"USE_PROMETHEUS=true", "PROMETHEUS_ADDR="+prometheus, "STATS_FLUSH_INTERVAL=1s", "GOSTATS_FLUSH_INTERVAL_SECONDS=1")...)
	})
	var left atomic.Int64
	left.Store(requests)
	lab.Check(lab.Parallel(workers, func(w int) error {
		made := generator{r: rand.New(rand.NewPCG(*seed, uint64(w))), domain: domainOf(w)}
		for left.Add(-1) >= 0 && c.Err() == nil {
			if d := c.send(made.request(), ours.client(w), theirs.client(w)); d != "" {
				c.mu.Lock()
				c.differences = append(c.differences, r.name+", "+d)
				c.mu.Unlock()
			}
		}
		return c.Err()
	}))
	if r.name == "as it comes" {
		c.compareMetrics("http://"+admin+"/metrics", "http://"+prometheus+"/metrics")
	}
}

// send sends one request to both, and returns how the answers differ.
func (c *comparison) send(request *rlsv3.RateLimitRequest, ours, theirs rlsv3.RateLimitServiceClient) (difference string) {
	got, gotErr := ours.ShouldRateLimit(c, request)
	want, wantErr := theirs.ShouldRateLimit(c, request)
	c.statuses.Add(int64(len(got.GetStatuses())))
	if got.GetOverallCode() == rlsv3.RateLimitResponse_OVER_LIMIT {
		c.denied.Add(1)
	}
	if gotErr != nil {
		c.refused.Add(1)
	}
	if (gotErr != nil) != (wantErr != nil) || gotErr == nil && !same(canonical(got), canonical(want)) {
		return fmt.Sprintf("%v:\nPenstock %v, %+v\nenvoyproxy/ratelimit %v, %+v", request, gotErr, got, wantErr, want)
	}
	return ""
}

// An answer is a response without the parts that may differ: the seconds left in a window, and fields that one of
// the services does not have.
type answer struct {
	text   string  // everything else
	resets []int64 // seconds, of statuses and of a header
}

// omitted are fields of the dynamic metadata that only one service has: ours, and the older quota mode of the
// version that the benchmarks are built with.
var omitted = []string{"penstock", "quotaModeEnabled", "quotaModeViolations"}

func canonical(r *rlsv3.RateLimitResponse) (a answer) {
	r = proto.CloneOf(r)
	for _, s := range r.Statuses {
		if s.DurationUntilReset != nil {
			a.resets = append(a.resets, s.DurationUntilReset.Seconds)
			s.DurationUntilReset = nil
		}
	}
	if h := r.ResponseHeadersToAdd; len(h) > 2 {
		if seconds, err := strconv.ParseInt(h[2].Value, 10, 64); err == nil {
			a.resets = append(a.resets, seconds)
			h[2].Value = ""
		}
	}
	for _, name := range omitted {
		delete(r.DynamicMetadata.GetFields(), name)
	}
	a.text = strings.ReplaceAll(protojson.Format(r), " ", "") // texts of protobuf contain random spaces
	return a
}

// same reports whether answers differ by no more than the time between two requests.
func same(a, b answer) bool {
	const patience = 60 // seconds: the machine may be busy
	return a.text == b.text && slices.EqualFunc(a.resets, b.resets, func(a, b int64) bool { return a-b <= patience && b-a <= patience })
}

// writeLimits writes the limits of all workers into a directory.
func writeLimits(dir string) {
	for w := range workers {
		lab.Write(dir, domainOf(w)+".yaml", fmt.Sprintf("domain: %s\n%s", domainOf(w), comparedLimits))
	}
}

//go:embed config/compare.yaml
var comparedLimits string

const compareToken = "token-of-the-comparison"

// compareMetrics compares the Prometheus metrics of each limit. The other service flushes its counters at an interval.
func (c *comparison) compareMetrics(ourURL, theirURL string) {
	ours := scrape(c.Bench, ourURL)
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		theirs := scrape(c.Bench, theirURL)
		var differences []string
		for name, want := range theirs {
			if ours[name] != want {
				differences = append(differences, fmt.Sprintf("metric %s: Penstock %q, envoyproxy/ratelimit %q", name, ours[name], want))
			}
		}
		if c.metrics = len(theirs) - len(differences); c.metrics == len(theirs) && c.metrics > 0 || time.Now().After(end) {
			c.differences = append(c.differences, differences...)
			return
		}
	}
}

// compared are the series of limits that both have. Label values may contain spaces.
var compared = regexp.MustCompile(`(?m)^(ratelimit_service_rate_limit_(?:total_hits|within_limit|near_limit|over_limit|shadow_mode)\{.*) (\S+)$`)

// scrape returns the compared series, by name and labels.
func scrape(b *lab.Bench, url string) map[string]string {
	request := lab.Must(http.NewRequestWithContext(b, http.MethodGet, url, nil))
	request.Header.Set("Authorization", "Bearer "+compareToken)
	response := lab.Must(http.DefaultClient.Do(request))
	defer response.Body.Close()
	text := lab.Must(io.ReadAll(response.Body))
	if response.StatusCode != http.StatusOK {
		lab.Check(fmt.Errorf("%s: %s %.1000s", url, response.Status, text))
	}
	series := map[string]string{}
	for _, m := range compared.FindAllStringSubmatch(string(text), -1) {
		series[strings.Replace(m[1], `,key2=""`, "", 1)] = m[2] // an empty label is the same as none
	}
	return series
}

func domainOf(worker int) string { return fmt.Sprint("compare", worker) }

// A generator makes random requests, most of them about few keys so that limits are reached.
type generator struct {
	r      *rand.Rand
	domain string
	made   int
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
