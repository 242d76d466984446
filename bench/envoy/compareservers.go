package envoy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// writeFiles writes the limits of all workers into a directory.
func (r *round) writeFiles(dir string) error {
	for w := range workers {
		if err := writeFile(filepath.Join(dir, domainOf(w)+".yaml"), fileOf(domainOf(w), r.model.newest)); err != nil {
			return err
		}
	}
	return nil
}

func (r *round) oursCommand(bin string) func(dir, addr, redis string) (*exec.Cmd, error) {
	return func(dir, addr, redis string) (*exec.Cmd, error) {
		config := filepath.Join(dir, "config")
		if err := r.writeFiles(config); err != nil {
			return nil, err
		}
		admin, err := freeAddr()
		if err != nil {
			return nil, err
		}
		settings := r.ours
		if !strings.Contains(settings, "rules:") {
			settings += "rules: {envoy_ratelimit: %q}\n"
		}
		file := filepath.Join(dir, "penstock.yaml")
		r.ourMetrics = "http://" + admin + "/metrics"
		return exec.Command(filepath.Join(bin, "penstock"), "serve", "--config", file), writeFile(file, fmt.Sprintf(settings, config)+fmt.Sprintf(`listen: {grpc: %q, http: "", gateway: "", admin: %q}
store: {redis: {addresses: [%q], timeout: 10s}}
key_secret: of the comparison, which is not one
admin: {token: %s}
data_dir: %q
log: {decisions: none}
`, addr, admin, redis, compareToken, dir))
	}
}

const compareToken = "token-of-the-comparison"

func (r *round) theirsCommand(bin string) func(dir, addr, redis string) (*exec.Cmd, error) {
	return func(dir, addr, redis string) (*exec.Cmd, error) {
		prometheus, err := freeAddr()
		if err != nil {
			return nil, err
		}
		r.theirMetrics = "http://" + prometheus + "/metrics"
		settings := append([]string{"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=" + prometheus, "STATS_FLUSH_INTERVAL=1s", "GOSTATS_FLUSH_INTERVAL_SECONDS=1"}, r.theirs...)
		cmd, err := theirs(bin, dir, addr, redis, settings...)
		if err != nil {
			return nil, err
		}
		return cmd, r.writeFiles(filepath.Join(dir, "ratelimit", "config"))
	}
}

// metrics compares the Prometheus metrics of each limit. The other service flushes its counters at an interval.
func (c *comparison) metrics(r *round) error {
	ours, err := scrape(c.ctx, r.ourMetrics)
	if err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); ; {
		theirs, err := scrape(c.ctx, r.theirMetrics)
		if err != nil {
			return err
		}
		var differences []string
		equal := 0
		for name, want := range theirs {
			if ours[name] != want {
				differences = append(differences, fmt.Sprintf("metric %s: Penstock %q, envoyproxy/ratelimit %q", name, ours[name], want))
			} else {
				equal++
			}
		}
		if len(differences) == 0 && equal > 0 || time.Now().After(end) {
			c.all.Metrics = equal
			for _, d := range differences {
				c.differ("%s", d)
			}
			return nil
		}
		time.Sleep(time.Second)
	}
}

// compared are the metrics of limits that both have.
var compared = []string{"total_hits", "within_limit", "near_limit", "over_limit", "shadow_mode"}

// scrape returns the series of compared metrics, by name and labels.
func scrape(ctx context.Context, url string) (map[string]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+compareToken)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000)) // only explains the status
		return nil, fmt.Errorf("%s: %s %s", url, response.Status, text)
	}
	series := map[string]string{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		at := strings.LastIndexByte(lines.Text(), ' ') // label values may contain spaces
		if at < 0 {
			continue
		}
		name, value := lines.Text()[:at], lines.Text()[at+1:]
		for _, metric := range compared {
			if strings.HasPrefix(name, "ratelimit_service_rate_limit_"+metric+"{") {
				series[strings.Replace(name, `,key2=""`, "", 1)] = value // an empty label is the same as none
			}
		}
	}
	return series, nil
}
