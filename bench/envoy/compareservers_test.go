package envoy

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/penstock-io/penstock/bench/lab"
)

// writeFiles writes the limits of all workers into a directory.
func writeFiles(dir string) {
	for w := range workers {
		lab.Write(dir, domainOf(w)+".yaml", fileOf(domainOf(w)))
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
