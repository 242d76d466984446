package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

const demoToken = "demo-0123456789abcdef"

// admin asks the admin door of a process, as an operator, and returns the status.
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

// ends tells the process to end, which it does.
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
	t.Setenv("PENSTOCK_ADMIN_TOKEN", demoToken)
	p := startProcess(t, onFreePorts...)
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
	// Calls that were cut off when it was turned off may still be on their way through the gateway.
	before := total()
	if got := before - status.Allowed - status.Denied; got < 0 || got > demoAtATime+status.Failed {
		t.Errorf("%d calls were decided, and %d answered", before, status.Allowed+status.Denied)
	}
	if code := p.admin(t, "PUT", "/v1/demo", `{"running":true}`, &status); code != http.StatusOK || !status.Running {
		t.Errorf("on again: %d %+v", code, status)
	}
	p.ends(t) // while calls are made
}

func TestDemoTrafficFromTheStart(t *testing.T) {
	t.Setenv("PENSTOCK_ADMIN_TOKEN", demoToken)
	p := startProcess(t, append(onFreePorts, "--traffic")...)
	nodetest.Eventually(t, "calls are made", func() bool {
		var status admin.DemoStatus
		p.admin(t, "GET", "/v1/demo", "", &status)
		return status.Running && status.Allowed > 0
	})
	p.ends(t)
}

// Where there is something real behind the gateway, nobody is made up.
func TestDemoTrafficIsForDemosOnly(t *testing.T) {
	t.Setenv("PENSTOCK_ADMIN_TOKEN", demoToken)
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	p := startProcess(t, append(onFreePorts, "--upstream", upstream.URL)...)
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

// Whatever a URL says, and wherever it redirects to, the gateway is called and nobody else.
func TestDemoTrafficStaysHere(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://192.0.2.1:1")
	var hosts []string
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts = append(hosts, r.Host)
		http.Redirect(w, r, "http://192.0.2.2/", http.StatusFound)
	}))
	defer gateway.Close()
	d := newDemoTraffic(netip.MustParseAddrPort(gateway.Listener.Addr().String()), netip.Addr{})
	answer, err := d.client.Get("http://192.0.2.3/")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusFound || fmt.Sprint(hosts) != "[192.0.2.3]" {
		t.Errorf("%s %q", answer.Status, hosts)
	}
	d.client.CloseIdleConnections()
}

// Two minutes of the made-up callers, on a clock of their own, meet all that the sample rules can say.
func TestDemoCastShowsEverything(t *testing.T) {
	snapshot, _, err := rules.CompileFiles([]rules.File{{Name: "sample.yaml", Data: sample}}, rules.Options{Secret: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	store, err := memstore.New(memstore.Options{MaxBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := penstock.InstantOf(begun)
	decider, err := engine.New(engine.Options{Store: store, Rules: engine.Fixed(snapshot), Now: func() penstock.Instant { return now }})
	if err != nil {
		t.Fatal(err)
	}
	peer := netip.MustParseAddr("127.0.0.9")
	reader, err := httplimit.NewReader(httplimit.ReaderOptions{
		Sources: func() []penstock.Source { return snapshot.Sources }, TrustedProxies: []netip.Prefix{netip.PrefixFrom(peer, 32)},
	})
	if err != nil {
		t.Fatal(err)
	}
	cast, seen, rulesSeen := newDemoCast(), map[string]int{}, map[string]bool{}
	for after := time.Duration(0); after < 2*time.Minute; after += time.Second / demoRate {
		c, ok := cast.next(after)
		if !ok {
			continue
		}
		r := httptest.NewRequest(c.method, c.path, nil)
		r.RemoteAddr = peer.String() + ":1"
		for name, value := range c.header {
			r.Header.Set(name, value)
		}
		var call penstock.Call
		if err := reader.Read(r, &call); err != nil {
			t.Fatal(err)
		}
		now = penstock.InstantOf(begun.Add(after))
		var v penstock.Verdict
		if err := decider.Decide(t.Context(), &call, &v); err != nil {
			t.Fatal(err)
		}
		seen[v.Reason.String()]++
		for _, l := range v.Limits {
			rulesSeen[l.Rule] = true
			if l.Shadow && !l.Allowed {
				seen["shadow"]++
			}
		}
	}
	for _, want := range []string{"ok", "no_rule", "over_limit", "banned", "shadow"} {
		if seen[want] == 0 {
			t.Errorf("nothing was %s: %v", want, seen)
		}
	}
	if len(rulesSeen) != len(snapshot.Rules) {
		t.Errorf("not all rules were met: %v", rulesSeen)
	}
	t.Log(seen)
}
