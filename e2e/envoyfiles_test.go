package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/redistest"
)

// envoyFiles is the configuration of a node that serves a file of envoyproxy/ratelimit. A year has no end
// within a test.
func envoyFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), `
domain: mesh
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 10, name: per-user}}
  - {key: tried, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 0}}
  - {key: free, rate_limit: {unlimited: true}}
`)
	return fmt.Sprintf("rules: {envoy_ratelimit: %q}\nlog: {decisions: all}", dir)
}

// describe asks about one descriptor. It returns the status and what decided.
func (n *node) describe(key, value string) (status int, quality string) {
	n.t.Helper()
	body := fmt.Sprintf(`{"domain": "mesh", "descriptors": [{"entries": [{"key": %q, "value": %q}]}]}`, key, value)
	a := n.send(http.MethodPost, "http", "/json", body, "Content-Type: application/json")
	if a.StatusCode != http.StatusOK && a.StatusCode != http.StatusTooManyRequests {
		n.t.Fatalf("%s: %s", a.Status, a.body)
	}
	var told struct {
		DynamicMetadata struct {
			Penstock struct{ Quality string }
		}
	}
	if err := json.Unmarshal(a.body, &told); err != nil {
		n.t.Fatalf("%v: %s", err, a.body)
	}
	if quality = told.DynamicMetadata.Penstock.Quality; quality == "" {
		quality = "exact"
	}
	return a.StatusCode, quality
}

// figure is one of the node's metrics; 0 if it is not there.
func (n *node) figure(name string) (value float64) {
	n.t.Helper()
	_, rest, _ := strings.Cut(string(n.get("admin", "/metrics", "Authorization: Bearer "+adminToken).body), name)
	_, _ = fmt.Sscan(rest, &value)
	return value
}

// logged reports whether the node has logged a text.
func (n *node) logged(text string) bool {
	n.t.Helper()
	log, err := os.ReadFile(filepath.Join(n.dir, "log"))
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.Contains(string(log), text)
}

// Files of envoyproxy/ratelimit are decided by the same engine as rules: its deny cache, metrics and
// status.
func TestEnvoyFilesAreMeasured(t *testing.T) {
	t.Parallel()
	n := start(t, onRedis("single", redistest.Start(t).Addr), newUpstream(t).config(), envoyFiles(t))
	n.awaitStore()
	for i := range 10 {
		if status, quality := n.describe("user", "u"); status != http.StatusOK || quality != "exact" {
			t.Errorf("request %d: %d %s", i, status, quality)
		}
	}
	if status, _ := n.describe("user", "u"); status != http.StatusTooManyRequests {
		t.Errorf("the eleventh: %d", status)
	}
	n.describe("tried", "t")
	n.describe("free", "f")
	eventually(t, "the deny cache answers", func() bool {
		status, _ := n.describe("user", "u")
		return status == http.StatusTooManyRequests && n.figure("\npenstock_deny_cache_hits_total ") > 0
	})
	eventually(t, "what was decided is counted", func() bool {
		return n.figure(`penstock_rule_decisions_total{quality="exact",result="allowed",rule="per-user"} `) == 10
	})
	for name, least := range map[string]float64{
		"\npenstock_rules ":                                                                        2,
		"\npenstock_decision_duration_seconds_count ":                                              12,
		"\npenstock_deny_cache_entries ":                                                           1,
		"\npenstock_shadow_denied_total ":                                                          1,
		"\npenstock_store_round_trips_total ":                                                      12,
		`penstock_decisions_total{quality="exact",reason="ok",result="allowed"} `:                  10,
		`penstock_decisions_total{quality="exact",reason="over_limit",result="denied"} `:           2,
		`penstock_rule_decisions_total{quality="exact",result="denied",rule="per-user"} `:          2,
		`penstock_rule_decisions_total{quality="exact",result="shadow_denied",rule="mesh.tried"} `: 1,
	} {
		if got := n.figure(name); got < least {
			t.Errorf("%s: %v, want at least %v", strings.TrimSpace(name), got, least)
		}
	}
	if s := n.status(); s.Rules.Checksum == "" || s.Rules.Refused != "" {
		t.Errorf("status: %+v", s.Rules)
	}
	eventually(t, "decisions are logged with their key", func() bool {
		return n.logged(`"rule":"per-user","reason":"over_limit","key_hash":"`)
	})
}

// When Redis is killed, a node that serves files of envoyproxy/ratelimit allows what was left at its last exact
// answer, and no more. Afterwards Redis is charged with what was allowed.
func TestEnvoyFilesInAnOutage(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	config := []string{onRedis("single", redis.Addr), newUpstream(t).config(), envoyFiles(t)}
	n, other := start(t, config...), start(t, config...)
	n.awaitStore()
	other.awaitStore()
	for range 4 {
		other.describe("user", "u")
	}
	n.describe("user", "u") // and hears of 5
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	passed := 0
	for range 30 {
		switch status, quality := n.describe("user", "u"); {
		case quality != "local":
			t.Fatalf("%s while Redis is down", quality)
		case status == http.StatusOK:
			passed++
		}
	}
	if passed != 5 {
		t.Errorf("%d passed without Redis, want the 5 that were left", passed)
	}
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Redis is charged", func() bool { return n.figure("\npenstock_late_charges_total ") > 0 })
	eventually(t, "the other node decides by Redis, which denies", func() bool {
		status, quality := other.describe("user", "u")
		if quality == "exact" && status != http.StatusTooManyRequests {
			t.Fatal("Redis admits what the node has given away")
		}
		return quality == "exact"
	})
}
