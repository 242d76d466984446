package server

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/nodetest"
)

// askAdmin sends a request to the admin API as an operator, and decodes the response.
func (n *node) askAdmin(method, path, body string, into any) int {
	n.t.Helper()
	answer, text := n.send(method, n.url("admin", path), body, "Authorization", "Bearer "+n.token, "Content-Type", "application/json")
	if into != nil {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			n.t.Fatalf("%s %s: %s %v: %s", method, path, answer.Status, err, text)
		}
	}
	return answer.StatusCode
}

// A rule is saved through the admin API and decides on every listener.
func TestRulesAreSavedAtTheAdminDoor(t *testing.T) {
	t.Parallel()
	n := startNode(t, "")
	document := "attributes: {user: {header: X-User}}\nrules: [{name: once, key: [user], limits: [{rate: 1/1d, algorithm: sliding_window_log}]}]\n"
	body, err := json.Marshal(map[string]any{"document": document, "base": 1, "message": "once a day"})
	if err != nil {
		t.Fatal(err)
	}
	var saved admin.SaveResult
	if code := n.askAdmin("PUT", "/v1/rules", string(body), &saved); code != http.StatusOK || saved.Version.Number != 2 {
		t.Fatalf("%d %+v", code, saved)
	}
	nodetest.Eventually(t, "the rules are served", func() bool { return n.statusNow().Rules.Version == 2 })
	if first, second := n.check(`{"user": "u1"}`), n.check(`{"user": "u1"}`); !first.Allowed || second.Allowed || second.Rule != "once" {
		t.Errorf("%+v %+v", first, second)
	}
	var stats admin.Stats
	if n.askAdmin("GET", "/v1/stats", "", &stats); stats.Total.Denied != 1 || stats.Total.Allowed != 1 {
		t.Errorf("%+v", stats)
	}
}

func TestViewerToken(t *testing.T) {
	t.Parallel()
	n := startNode(t, "admin: {viewer_token: 0123456789abcdef}")
	n.check(`{"path": "/", "method": "GET", "ip": "192.0.2.1"}`)
	viewer := []string{"Authorization", "Bearer 0123456789abcdef"}
	if answer, body := n.get(n.url("admin", "/metrics"), viewer...); answer.StatusCode != http.StatusOK || !strings.Contains(body, "penstock_") {
		t.Errorf("%s %.200s", answer.Status, body)
	}
	if answer, _ := n.get(n.url("admin", "/metrics")); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("metrics without a token: %s", answer.Status)
	}
	if answer, _ := n.send("POST", n.url("admin", "/v1/keys/reset"), "{}", viewer...); answer.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer resets: %s", answer.Status)
	}
	if _, body := n.get(n.url("admin", "/v1/events/recent"), viewer...); strings.Contains(body, "192.0.2.1") || !strings.Contains(body, `"ip":"#`) {
		t.Errorf("a viewer sees who calls: %.500s", body)
	}
	if answer, _ := n.get(n.url("admin", "/v1/stats"), "Authorization", "Bearer nonsense"); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong token: %s", answer.Status)
	}
	const refused = `penstock_admin_logins_refused_total{reason="wrong_token"} 1`
	if _, body := n.get(n.url("admin", "/metrics"), viewer...); !strings.Contains(body, refused) {
		t.Errorf("the metrics lack %s", refused)
	}
}

// Open streams do not keep the server from ending.
func TestStreamsEndWithTheServer(t *testing.T) {
	t.Parallel()
	n := startNode(t, "")
	r, err := http.NewRequestWithContext(t.Context(), "GET", n.url("admin", "/v1/events"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+n.token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Scan() // it has begun
	n.check(`{"path": "/", "method": "GET", "ip": "192.0.2.1"}`)
	for lines.Scan() && lines.Text() != "event: verdict" {
	}
	n.stop()
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream: %v", err)
	}
	if err := <-n.done; err != nil {
		t.Errorf("the server: %v", err)
	}
}

// Files of envoyproxy/ratelimit are shown as they are.
func TestAdminDoorShowsEnvoyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const text = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: 3}}]\n"
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n := startNode(t, "rules: {envoy_ratelimit: "+dir+"}")
	var set admin.RuleSet
	if n.askAdmin("GET", "/v1/rules", "", &set); set.Kind != admin.Envoy || set.Editable || set.Document != text {
		t.Errorf("%+v", set)
	}
	var p admin.Problem
	if code := n.askAdmin("PUT", "/v1/rules", `{"document": "rules: []", "base": 0}`, &p); code != http.StatusConflict || !strings.Contains(p.Detail, dir) {
		t.Errorf("%d %+v", code, p)
	}
}
