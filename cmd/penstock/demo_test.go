package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/nodetest"
)

const demoToken = "demo-0123456789abcdef"

// admin sends a request to the admin API of a process, as an operator, and returns the status.
func (p *process) admin(t *testing.T, method, path, body string, into any) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.addresses["admin"]+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+demoToken)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if into != nil && answer.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("%s %s: %v: %s", method, path, err, text)
		}
	}
	return answer.StatusCode
}

// ends sends SIGTERM to the process and waits for its end.
func (p *process) ends(t *testing.T) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.exited:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(nodetest.Timeout):
		t.Error("it did not end")
	}
}

func TestDemoTraffic(t *testing.T) {
	t.Parallel()
	p := startProcessWith(t, []string{"PENSTOCK_ADMIN_TOKEN=" + demoToken}, onFreePorts...)
	var status admin.DemoStatus
	var stats admin.Stats
	total := func() int64 {
		p.admin(t, "GET", "/v1/stats", "", &stats)
		return stats.Total.Allowed + stats.Total.Denied
	}
	if code := p.admin(t, "GET", "/v1/demo", "", &status); code != http.StatusOK || status.Running || total() != 0 {
		t.Fatalf("at first: %d %+v %+v", code, status, stats.Total)
	}
	if code := p.admin(t, "PUT", "/v1/demo", `{"running":true}`, &status); code != http.StatusOK || !status.Running || status.Since == nil {
		t.Fatalf("on: %d %+v", code, status)
	}
	nodetest.Eventually(t, "some are allowed, and some denied", func() bool {
		total()
		return stats.Total.Allowed > 0 && stats.Total.Denied > 0
	})
	if code := p.admin(t, "PUT", "/v1/demo", `{"running":false}`, &status); code != http.StatusOK || status.Running || status.Allowed == 0 || status.Denied == 0 {
		t.Errorf("off: %d %+v", code, status)
	}
	// Requests that were cut off when it was turned off may still be in the gateway.
	before := total()
	if got := before - status.Allowed - status.Denied; got < 0 || got > 8+status.Failed {
		t.Errorf("%d calls were decided, and %d answered", before, status.Allowed+status.Denied)
	}
	if code := p.admin(t, "PUT", "/v1/demo", `{"running":true}`, &status); code != http.StatusOK || !status.Running {
		t.Errorf("on again: %d %+v", code, status)
	}
	p.ends(t) // while requests are in flight
}

func TestDemoTrafficFromTheStart(t *testing.T) {
	t.Parallel()
	p := startProcessWith(t, []string{"PENSTOCK_ADMIN_TOKEN=" + demoToken}, append(onFreePorts, "--traffic")...)
	nodetest.Eventually(t, "calls are made", func() bool {
		var status admin.DemoStatus
		p.admin(t, "GET", "/v1/demo", "", &status)
		return status.Running && status.Allowed > 0
	})
	p.ends(t)
}

// With a real upstream behind the gateway, there is no demo traffic.
func TestDemoTrafficIsForDemosOnly(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	p := startProcessWith(t, []string{"PENSTOCK_ADMIN_TOKEN=" + demoToken}, append(onFreePorts, "--upstream", upstream.URL)...)
	for _, method := range []string{"GET", "PUT"} {
		if code := p.admin(t, method, "/v1/demo", `{"running":true}`, nil); code != http.StatusNotFound {
			t.Errorf("%s: %d", method, code)
		}
	}
	for _, args := range [][]string{
		{"serve", "--traffic", "--demo", "--upstream", upstream.URL},
		{"serve", "--traffic", "--demo", "--listen-gateway="},
		{"serve", "--traffic", "--rules", "rules.yaml", "--upstream", upstream.URL},
	} {
		var errs strings.Builder
		a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &errs}
		if code := a.run(t.Context(), args); code != exitNo || !strings.Contains(errs.String(), "--traffic") {
			t.Errorf("%q: %d %s", args, code, errs.String())
		}
	}
}
