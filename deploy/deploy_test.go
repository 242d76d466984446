package deploy

import (
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// Every proxy behaves the same with the files of this folder, here with one of two nodes.
func TestProxies(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("clients are told apart by addresses of 127.0.0.0/8, which only Linux has without asking")
	}
	for name, p := range proxies {
		t.Run(name, func(t *testing.T) {
			service, backend := startPenstock(t), startBackend(t)
			site := "http://" + p.start(t, [2]string{service.Listener.Addr().String(), absent}, backend.Listener.Addr().String())
			t.Run("allowed", func(t *testing.T) { testAllowed(t, site, p.silent) })
			t.Run("denied", func(t *testing.T) { testDenied(t, site) })
			t.Run("forged", func(t *testing.T) { testForged(t, site, service) })
			t.Run("passed on", func(t *testing.T) { testPassedOn(t, site, service) })
			t.Run("other answers", func(t *testing.T) { testOtherAnswers(t, site) })
			t.Run("down", func(t *testing.T) {
				service.Close()
				r := ask(t, "127.0.0.2", "POST", site+"/limited/x", "body")
				if p.closed == "" {
					checkClosed(t, r)
				} else if r.status != 200 || r.body != "POST /limited/x body" {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// With the change that its file describes, a proxy lets no request pass while no node answers.
func TestFailClosed(t *testing.T) {
	for name, p := range proxies {
		if p.closed == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			service, backend := startPenstock(t), startBackend(t)
			p.changed = maps.Clone(p.changed)
			p.changed[p.closed] = p.closes
			site := "http://" + p.start(t, [2]string{service.Listener.Addr().String(), absent}, backend.Listener.Addr().String())
			service.Close()
			checkClosed(t, ask(t, "127.0.0.1", "POST", site+"/limited/x", "body"))
		})
	}
}

func checkClosed(t *testing.T, r response) {
	t.Helper()
	if r.status < 500 || r.header.Get("X-Backend") != "" {
		t.Errorf("a request passed without a node: %+v", r)
	}
}

// testAllowed sends requests that are allowed. A silent proxy cannot tell the client the rest of its limit.
func testAllowed(t *testing.T, site string, silent bool) {
	r := ask(t, "127.0.0.3", "GET", site+"/limited/x", "")
	told := strings.HasPrefix(r.header.Get("RateLimit"), `"per-ip";r=2`) && strings.HasPrefix(r.header.Get("RateLimit-Policy"), `"per-ip";q=3`)
	if r.status != 200 || r.body != "GET /limited/x " || told == silent {
		t.Errorf("limited: %+v", r)
	}
	r = ask(t, "127.0.0.3", "GET", site+"/free", "")
	if _, told := r.header["Ratelimit"]; r.status != 200 || told {
		t.Errorf("not limited: %+v", r)
	}
}

func testDenied(t *testing.T, site string) {
	for range limit {
		if r := ask(t, "127.0.0.2", "GET", site+"/limited/x", ""); r.status != 200 {
			t.Fatalf("%+v", r)
		}
	}
	r := ask(t, "127.0.0.2", "GET", site+"/limited/x", "")
	if r.status != 429 || r.header.Get("Retry-After") == "" || r.header.Get("X-Backend") != "" ||
		!strings.HasPrefix(r.header.Get("RateLimit"), `"per-ip";r=0`) || r.header.Get("RateLimit-Policy") == "" || r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%+v", r)
	}
	var problem struct {
		Title  string
		Status int
		Error  string
		Retry  int `json:"retry_after_seconds"`
	}
	if err := json.Unmarshal([]byte(r.body), &problem); err != nil || r.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%+v: %v", r, err)
	}
	if problem.Title != "Quota exceeded" || problem.Status != 429 || problem.Error != "rate_limited" || problem.Retry < 1 {
		t.Errorf("%+v", r)
	}
}

// A client that has used up its limit stays denied, whatever headers it sends.
func testForged(t *testing.T, site string, service *penstockServer) {
	for _, forged := range [][]string{
		{"X-Forwarded-For", "198.51.100.7"},
		{"X-Forwarded-For", "198.51.100.7, 127.0.0.1"},
		{"X-Real-IP", "198.51.100.7"},
		{"Forwarded", "for=198.51.100.7"},
		{"X_Forwarded_For", "198.51.100.7"},
		{"X-Forwarded-Uri", "/free"},
		{"X-Original-URI", "/free"},
		{"X-Original-URL", "/free"},
		{"X-Forwarded-Method", "POST"},
		{"X-Original-Method", "POST"},
		{"X-Forwarded-Host", "other.example"},
		{"Connection", "X-Forwarded-For, X-Forwarded-Uri"},
	} {
		r := ask(t, "127.0.0.2", "GET", site+"/limited/x", "", forged...)
		if r.status != 429 {
			t.Errorf("%q: %+v", forged, r)
		}
		if ip, _ := service.last(t).Attribute("ip"); ip != "127.0.0.2" {
			t.Errorf("%q: counted as %s", forged, ip)
		}
	}
}

// Rules match what the client sent, and the backend gets the same.
func testPassedOn(t *testing.T, site string, service *penstockServer) {
	r := ask(t, "127.0.0.4", "POST", site+"/a%2Fb/c%20d?page=x%26y&deny_status=200", "a body", "X-User", "u1", "Host", "shop.example", "Origin", "https://elsewhere.example", "Sec-Fetch-Site", "cross-site")
	if r.status != 200 || r.body != "POST /a%2Fb/c%20d?page=x%26y&deny_status=200 a body" {
		t.Errorf("%+v", r)
	}
	call := service.last(t)
	for name, want := range map[string]string{
		"path": "/a%2Fb/c%20d", "method": "POST", "host": "shop.example", "ip": "127.0.0.4", "page": "x&y", "user": "u1",
	} {
		if got, _ := call.Attribute(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func testOtherAnswers(t *testing.T, site string) {
	if r := ask(t, "127.0.0.4", "GET", site+"/", "", "X-User", "mallory"); r.status != 403 || r.header.Get("X-Backend") != "" {
		t.Errorf("on the deny list: %+v", r)
	}
	r := ask(t, "127.0.0.4", "GET", site+"/blocked", "")
	if r.status != 429 || r.header.Get("Retry-After") != "" || !json.Valid([]byte(r.body)) {
		t.Errorf("never: %+v", r)
	}
}

type response struct {
	status int
	header http.Header
	body   string
}

// ask sends a request from an address.
func ask(t *testing.T, from, method, url, body string, headers ...string) response {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			request.Host = headers[i+1]
			continue
		}
		request.Header[headers[i]] = []string{headers[i+1]}
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{answer.StatusCode, answer.Header, string(text)}
}

// Traefik is not always installed, but its file must be valid YAML.
func TestTraefikFile(t *testing.T) {
	text, err := os.ReadFile("traefik/dynamic.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		HTTP struct {
			Middlewares map[string]any
			Routers     map[string]struct {
				Rule, Service string
				EntryPoints   []string `yaml:"entryPoints"`
				Middlewares   []string
			}
			Services          map[string]any
			ServersTransports map[string]any `yaml:"serversTransports"`
		}
	}
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	for _, router := range file.HTTP.Routers {
		for _, name := range router.Middlewares {
			if file.HTTP.Middlewares[name] == nil {
				t.Errorf("no middleware %s", name)
			}
		}
		if file.HTTP.Services[router.Service] == nil {
			t.Errorf("no service %s", router.Service)
		}
	}
}
