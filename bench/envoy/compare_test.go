package envoy

import (
	"cmp"
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
	done, err := lab.Run(lab.Bench{Context: t.Context()}, func(b *lab.Bench) *comparison { return compare(b, cmp.Or(*requests, 3000), *seed) })
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d requests with %d statuses: %d denied, %d refused; %d metrics compared", done.requests, done.statuses, done.denied, done.refused, done.metrics)
	if done.denied < done.requests/10 || done.refused < done.requests/300 || done.metrics < 100 {
		t.Error("the comparison is not worth much")
	}
	for _, d := range done.differences {
		t.Error(d)
	}
}

// workers send requests at the same time, each about its own domain.
const workers = 4

// maxDifferences is how many are reported.
const maxDifferences = 20

// A round compares under one pair of configurations.
type round struct {
	name    string
	headers string   // settings of our envoy.response_headers
	envoy   string   // of our envoy
	rules   string   // of our rules
	theirs  []string // their environment

	ourMetrics, theirMetrics string // URLs
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
	seed uint64
	bin  string

	mu                                  sync.Mutex
	requests, statuses, denied, refused int64 // refused requests got an error from both
	metrics                             int   // series of envoyproxy/ratelimit that have the same value
	differences                         []string
}

// compare sends the same random requests to Penstock and to envoyproxy/ratelimit.
func compare(b *lab.Bench, requests int, seed uint64) *comparison {
	c := &comparison{Bench: b, seed: seed, bin: b.TempDir("")}
	build(b, c.bin)
	for i := range rounds {
		n := requests*(i+1)/len(rounds) - requests*i/len(rounds)
		b.Step("%s: %d requests", rounds[i].name, n)
		b.Scope(func() { c.round(&rounds[i], n) })
		if len(c.differences) > 0 {
			break // later rounds have other counters, but would show the same differences
		}
	}
	return c
}

func (c *comparison) differ(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.differences) < maxDifferences {
		c.differences = append(c.differences, fmt.Sprintf(format, args...))
	}
}

// round starts both servers and sends them requests.
func (c *comparison) round(r *round, requests int) {
	ours := launch(c.Bench, c.bin, contestant{name: "Penstock", command: r.oursCommand(c.bin)})
	theirs := launch(c.Bench, c.bin, contestant{name: "envoyproxy/ratelimit", command: r.theirsCommand(c.bin)})
	var left atomic.Int64
	left.Store(int64(requests))
	lab.Check(lab.Parallel(workers, func(w int) error {
		made := newGenerator(c.seed, w)
		for left.Add(-1) >= 0 && c.Err() == nil {
			c.send(r, made.request(), ours.client(w), theirs.client(w))
		}
		return c.Err()
	}))
	if r.name == "as it comes" {
		c.compareMetrics(r)
	}
}

// send sends one request to both.
func (c *comparison) send(r *round, request *rlsv3.RateLimitRequest, ours, theirs rlsv3.RateLimitServiceClient) {
	got, gotErr := ours.ShouldRateLimit(c, request)
	want, wantErr := theirs.ShouldRateLimit(c, request)
	if (gotErr != nil) != (wantErr != nil) {
		c.differ("%s, %v: Penstock %v, envoyproxy/ratelimit %v", r.name, request, gotErr, wantErr)
	} else if gotErr == nil {
		if got, want := canonical(got), canonical(want); !same(got, want) {
			c.differ("%s, %v:\nPenstock %+v\nenvoyproxy/ratelimit %+v", r.name, request, got, want)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	c.statuses += int64(len(got.GetStatuses()))
	if gotErr != nil {
		c.refused++
	}
	if got.GetOverallCode() == rlsv3.RateLimitResponse_OVER_LIMIT {
		c.denied++
	}
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

// writeFiles writes the limits of all workers into a directory.
func writeFiles(dir string) {
	for w := range workers {
		lab.Write(dir, domainOf(w)+".yaml", fmt.Sprintf("domain: %s\n%s", domainOf(w), comparedLimits))
	}
}

const compareToken = "token-of-the-comparison"

func (r *round) oursCommand(bin string) func(dir, addr, redis string) *exec.Cmd {
	return func(dir, addr, redis string) *exec.Cmd {
		writeFiles(filepath.Join(dir, "config"))
		admin := lab.FreeAddr()
		r.ourMetrics = "http://" + admin + "/metrics"
		return ours(bin, dir, addr, redis, fmt.Sprintf(`listen: {grpc: %%q, http: "", gateway: "", admin: %q}
rules: {envoy_ratelimit: %%q%s}
headers: [none]
envoy: {denial_headers: false, denial_body: none, response_dynamic_metadata: true, response_headers: {enabled: true%s}%s}
metrics: {compat: envoy_ratelimit}
admin: {token: %s}
log: {decisions: none}
`, admin, r.rules, r.headers, r.envoy, compareToken))
	}
}

func (r *round) theirsCommand(bin string) func(dir, addr, redis string) *exec.Cmd {
	return func(dir, addr, redis string) *exec.Cmd {
		writeFiles(filepath.Join(dir, "ratelimit", "config"))
		prometheus := lab.FreeAddr()
		r.theirMetrics = "http://" + prometheus + "/metrics"
		return theirs(bin, dir, addr, redis, append(r.theirs, "RESPONSE_DYNAMIC_METADATA=true", "LIMIT_RESPONSE_HEADERS_ENABLED=true",
			"USE_PROMETHEUS=true", "PROMETHEUS_ADDR="+prometheus, "STATS_FLUSH_INTERVAL=1s", "GOSTATS_FLUSH_INTERVAL_SECONDS=1")...)
	}
}

// compareMetrics compares the Prometheus metrics of each limit. The other service flushes its counters at an interval.
func (c *comparison) compareMetrics(r *round) {
	ours := scrape(c.Bench, r.ourMetrics)
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		theirs := scrape(c.Bench, r.theirMetrics)
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

// comparedLimits are the limits of each domain for both services. Windows are long enough that none ends within a run.
const comparedLimits = `descriptors:
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
