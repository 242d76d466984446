package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

// Whatever a URL says, and wherever it redirects to, requests go only to the gateway.
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

// Two minutes of demo traffic, on a virtual clock, produce every kind of verdict of the sample rules.
func TestDemoCastShowsEverything(t *testing.T) {
	t.Parallel()
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
		Sources: func() []attribute.Source { return snapshot.Sources }, TrustedProxies: []netip.Prefix{netip.PrefixFrom(peer, 32)},
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
