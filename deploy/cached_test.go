package deploy

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
)

const cachePage = "../docs/how-to/cache-denials.md"

// cachedRules deny for days. Only the first depends on nothing but the address.
const cachedRules = `
attributes:
  user: {header: X-User}
rules:
  - {name: all, key: [ip], limits: [{rate: 20/300d, burst: 20, algorithm: token_bucket}]}
  - {name: once, match: {path: /once}, key: [ip], limits: [{rate: 1/300d, burst: 1, algorithm: token_bucket}]}
  - {name: per-user, key: [user], limits: [{rate: 2/300d, burst: 2, algorithm: token_bucket}]}
`

// cachingProxies returns the proxies with the lines of the page that cache denials by the address.
func cachingProxies(t *testing.T) map[string]proxy {
	t.Helper()
	page, err := os.ReadFile(cachePage)
	if err != nil {
		t.Fatal(err)
	}
	blocks := func(kind string, n int) (all []string) {
		for _, m := range regexp.MustCompile("(?ms)^```"+kind+"\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
			all = append(all, m[1])
		}
		if len(all) != n {
			t.Fatalf("%s has %d blocks of %s", cachePage, len(all), kind)
		}
		return all
	}
	nginx, haproxy := blocks("nginx", 6), blocks("haproxy", 4)
	nginx[0] = strings.Replace(nginx[0], "/dev/shm/penstock", "denials", 1)
	return map[string]proxy{
		"nginx": proxies["nginx"].with(map[string]string{
			"upstream penstock {": nginx[0] + "upstream penstock {",
			"        proxy_pass http://penstock/v1/auth?deny_status=403;\n": nginx[1],
		}),
		"nginx with Lua": proxies["nginx"].with(map[string]string{
			"upstream penstock {":                                           nginx[2] + "upstream penstock {",
			"        auth_request     /_penstock;":                          nginx[3] + "        auth_request     /_penstock;",
			"        proxy_pass http://penstock/v1/auth?deny_status=403;\n": nginx[4],
			"location @penstock_deny {":                                     "location @penstock_deny {\n" + nginx[5],
		}).withLua(),
		"haproxy": proxies["haproxy"].with(map[string]string{
			"frontend web":                    haproxy[0] + "frontend web",
			"    http-request lua.penstock\n": haproxy[1],
		}),
		byUser: proxies["haproxy"].with(map[string]string{
			"frontend web":                    replaceLines(t, haproxy[0], haproxy[2]) + "frontend web",
			"    http-request lua.penstock\n": replaceLines(t, haproxy[1], haproxy[3]),
		}),
	}
}

// byUser is HAProxy with a key of the address and the user.
const byUser = "haproxy by user"

// replaceLines replaces each line of a configuration by the one that begins with the same two words. Lines that replace
// none are put in front of the next one.
func replaceLines(t *testing.T, config, lines string) string {
	t.Helper()
	ahead := ""
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		same := regexp.MustCompile(`(?m)^ +` + regexp.QuoteMeta(words[0]) + " +" + regexp.QuoteMeta(words[1]) + " .*\n")
		if at := same.FindStringIndex(config); at == nil {
			ahead += line
		} else {
			config, ahead = config[:at[0]]+ahead+line+config[at[1]:], ""
		}
	}
	if ahead != "" {
		t.Fatalf("%q replaces no line of %q", ahead, config)
	}
	return config
}

// with returns the proxy with further changes of its files.
func (p proxy) with(changes map[string]string) proxy {
	p.changed = maps.Clone(p.changed)
	maps.Copy(p.changed, changes)
	return p
}

// withLua returns nginx with the modules for Lua, where Debian has them.
func (p proxy) withLua() proxy {
	const dir = "/usr/lib/nginx/modules/"
	p.module = dir + "ngx_http_lua_module.so"
	p.extra = map[string]string{"nginx.conf": "load_module " + dir + "ndk_http_module.so;\nload_module " + p.module + ";\n" + nginxConfig}
	return p
}

// The lines change nothing for clients.
func TestCachingProxies(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("clients are told apart by addresses of 127.0.0.0/8, which only Linux has without asking")
	}
	for name, p := range cachingProxies(t) {
		if name == byUser {
			continue // like the other, with another key
		}
		t.Run(name, func(t *testing.T) {
			service, backend := startPenstock(t), startBackend(t)
			site := "http://" + p.start(t, [2]string{service.Listener.Addr().String(), absent}, backend.Listener.Addr().String())
			t.Run("allowed", func(t *testing.T) { testAllowed(t, site, p.silent) })
			t.Run("denied", func(t *testing.T) { testDenied(t, site) })
			t.Run("forged", func(t *testing.T) { testForged(t, site, service) })
			t.Run("passed on", func(t *testing.T) { testPassedOn(t, site, service) })
			t.Run("other answers", func(t *testing.T) { testOtherAnswers(t, site) })
		})
	}
}

// A proxy answers a client that is over its limit without asking, and no other request.
func TestCachedDenials(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("clients are told apart by addresses of 127.0.0.0/8, which only Linux has without asking")
	}
	for name, p := range cachingProxies(t) {
		t.Run(name, func(t *testing.T) {
			service, backend := startPenstockWith(t, cachedRules), startBackend(t)
			site := "http://" + p.start(t, [2]string{service.Listener.Addr().String(), absent}, backend.Listener.Addr().String())
			t.Run("flood", func(t *testing.T) { testFlood(t, site, service, "127.0.0.2") })
			t.Run("another client", func(t *testing.T) { testFlood(t, site, service, "127.0.0.3") })
			t.Run("by path", func(t *testing.T) { testUncached(t, site, service, "127.0.0.4", "/once", 1) })
			if name == byUser {
				t.Run("cached by user", func(t *testing.T) { testCachedByUser(t, site, service, "127.0.0.5") })
			} else {
				t.Run("by user", func(t *testing.T) { testUncached(t, site, service, "127.0.0.5", "/", 2, "X-User", "u1") })
			}
			t.Run("forged key", func(t *testing.T) {
				testUncached(t, site, service, "127.0.0.6", "/once", 1, "X-Penstock-Cache-Key", "127.0.0.7")
			})
		})
	}
}

// testFlood sends more requests than are allowed. Exactly those are, and Penstock is asked about few others: the proxy
// caches a denial for at least three seconds.
func testFlood(t *testing.T, site string, service *penstockServer, from string) {
	const allowed, denied = 20, 200
	begin := time.Now()
	for i := range allowed + denied {
		r := ask(t, from, "POST", site+"/limited/"+strconv.Itoa(i), "body")
		if i < allowed {
			if r.status != 200 {
				t.Fatalf("request %d: %+v", i, r)
			}
			continue
		}
		checkCached(t, r)
	}
	most := allowed + 2 + int(time.Since(begin)/(3*time.Second))
	if n := service.asks(from); n <= allowed || n > most {
		t.Errorf("asked %d times about %d requests, want at most %d", n, allowed+denied, most)
	}
}

// checkCached checks a denial for 15 days, which may be cached. A cached Retry-After must not be too short.
func checkCached(t *testing.T, r response) {
	t.Helper()
	const day = 86_400
	retry, err := strconv.Atoi(r.header.Get("Retry-After"))
	if r.status != 429 || err != nil || retry > 15*day || retry < 14*day || r.header.Get("Cache-Control") != "no-store" ||
		r.header.Get("Content-Type") != "application/problem+json" || r.header.Get("X-Accel-Expires") != "" || r.header.Get("X-Backend") != "" {
		t.Fatalf("%+v: %v", r, err)
	}
	var problem struct {
		Status int
		Error  string
		Retry  int `json:"retry_after_seconds"`
	}
	if err := json.Unmarshal([]byte(r.body), &problem); err != nil || problem.Status != 429 || problem.Error != "rate_limited" || problem.Retry != retry {
		t.Fatalf("%+v: %v", r, err)
	}
}

// testUncached sends requests that a rule denies by more than the address. Penstock is asked about each of them, and
// other requests of the client pass.
func testUncached(t *testing.T, site string, service *penstockServer, from, path string, allowed int, headers ...string) {
	for i := range 2 * (allowed + 1) {
		want := 200
		if i >= allowed {
			want = 429
		}
		if r := ask(t, from, "GET", site+path, "", headers...); r.status != want {
			t.Fatalf("request %d: %+v", i, r)
		}
		if n := service.asks(from); n != 2*i+1 {
			t.Fatalf("asked %d times about %d requests", n, 2*i+1)
		}
		if r := ask(t, from, "GET", site+"/other", ""); r.status != 200 {
			t.Fatalf("another request: %+v", r)
		}
	}
}

// testCachedByUser sends more requests of a user than are allowed. The proxy answers those that are denied, and no
// request of another user, whatever its name looks like.
func testCachedByUser(t *testing.T, site string, service *penstockServer, from string) {
	const allowed, denied = 2, 100
	begin := time.Now()
	for i := range allowed + denied {
		r := ask(t, from, "GET", site+"/", "", "X-User", "u1")
		if want := i < allowed; want != (r.status == 200) || !want && r.status != 429 {
			t.Fatalf("request %d: %+v", i, r)
		}
	}
	most := allowed + 2 + int(time.Since(begin)/(3*time.Second))
	if n := service.asks(from); n <= allowed || n > most {
		t.Errorf("asked %d times about %d requests, want at most %d", n, allowed+denied, most)
	}
	for _, user := range []string{"u2", "u1|", "|u1"} {
		if r := ask(t, from, "GET", site+"/", "", "X-User", user); r.status != 200 {
			t.Errorf("another user, %q: %+v", user, r)
		}
	}
	if r := ask(t, from, "GET", site+"/", ""); r.status != 200 {
		t.Errorf("no user: %+v", r)
	}
}

// asks returns how often Penstock was asked about requests of a client.
func (p *penstockServer) asks(ip string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.asked {
		if p.asked[i].Attributes[0] == (penstock.Attribute{Name: "ip", Value: ip}) {
			n++
		}
	}
	return n
}
