package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/child"
)

// evilPage sends what a page can to the decision API at $API, in every way that needs no preflight and
// some that do, and then tells that it is done.
const evilPage = `<!doctype html><script>
const check = '{"attributes": {"user": "victim"}}'
const paths = {'/v1/check': check, '/v1/reserve': check, '/v1/check/batch': '{"calls": [' + check + ']}',
  '/json': '{"domain": "default", "descriptors": [{"entries": [{"key": "user", "value": "victim"}]}]}'}
const sent = []
for (const [path, body] of Object.entries(paths)) {
  const to = '$API' + path
  const send = (o) => sent.push(fetch(to, {method: 'POST', body, ...o}).catch(() => {}))
  send({mode: 'no-cors'})
  send({mode: 'no-cors', headers: {'Content-Type': 'text/plain'}})
  send({mode: 'no-cors', body: new Blob([body], {type: ''})})
  send({mode: 'cors', headers: {'Content-Type': 'application/json'}})
  send({mode: 'cors', credentials: 'include', headers: {'Content-Type': 'application/json; charset=utf-8'}})
  navigator.sendBeacon(to, new Blob([body], {type: 'text/plain'}))
}
sent.push(fetch('$API/v1/auth', {headers: {'X-Forwarded-Uri': '/', 'X-Forwarded-Method': 'GET', 'X-User': 'victim'}}).catch(() => {}))
sent.push(fetch('$API/v1/auth', {mode: 'no-cors'}).catch(() => {}))
Promise.all(sent).then(() => fetch('/done', {method: 'POST'}))
</script>`

// A page of another site, in a real browser, cannot have anybody charged at a decision API on loopback:
// neither from its own origin nor after its name was rebound to the API's address.
func TestPagesCannotCharge(t *testing.T) {
	t.Parallel()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("no chromium; apt-get install chromium")
	}
	n := start(t, newUpstream(t).config(), rulesFile(t, "attributes: {user: {header: X-User}}\nrules: [{name: per-user, key: [user], limits: [{rate: 100/1d, algorithm: fixed_window}]}]"))
	to, err := url.Parse(n.url("http", ""))
	if err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	done := make(chan struct{}, 2)
	// The attacker's server, which also plays the API after a DNS rebinding: it forwards requests unchanged, so that
	// they arrive as they would from the browser itself.
	var page string
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host }}
	attacker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, page)
		case "/done":
			done <- struct{}{}
		default:
			if r.Method == "POST" {
				sent.Add(1)
			}
			pass.ServeHTTP(w, r)
		}
	}))
	defer attacker.Close()
	at := strings.TrimPrefix(attacker.URL, "http://127.0.0.1")
	for name, api := range map[string]string{"cross-origin": attacker.URL, "rebound": ""} {
		page = strings.ReplaceAll(evilPage, "$API", api)
		sent.Store(0)
		browser, err := child.Start(exec.Command(chromium, "--headless", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--user-data-dir="+t.TempDir(),
			"--host-resolver-rules=MAP evil.example 127.0.0.1", "http://evil.example"+at+"/"), filepath.Join(n.dir, "chromium"))
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
		case <-time.After(patient):
			t.Errorf("%s: the page is not done:\n%s", name, child.LogTail(filepath.Join(n.dir, "chromium")))
		}
		browser.Kill()
		if sent.Load() < 12 { // three of each path without preflight
			t.Errorf("%s: the browser sent %d requests", name, sent.Load())
		}
		if used := n.peek("victim").used("per-user"); used != 0 {
			t.Errorf("%s: %d requests of the victim were charged", name, used)
		}
	}
	if n.check(callOf("victim")); n.peek("victim").used("per-user") != 1 {
		t.Error("a program's request was not charged")
	}
}
