package doors

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/report"
)

const (
	gatewayName   = "Penstock gateway"
	nginxName     = "nginx limit_req"
	haproxyName   = "HAProxy stick table"
	nginxCached   = "nginx, denials of Penstock cached"
	nginxLua      = "nginx with Lua, denials of Penstock cached"
	haproxyCached = "HAProxy, denials of Penstock cached"
	bareProxy     = "bare httputil.ReverseProxy"
	bareHandler   = "bare net/http handler"
	bareJSON      = "bare net/http JSON handler"
)

// proxies are the contestants in front of an upstream.
var proxies = []struct {
	name   string
	role   report.Role
	denies bool // has a limiter
	start  func(b *bench, allow bool) *lab.Server
}{
	{gatewayName, report.Ours, true, func(b *bench, allow bool) *lab.Server { return b.startGateway(b.upstream.Addr, allow) }},
	{bareProxy, report.Ceiling, false, func(b *bench, _ bool) *lab.Server { return b.startBare("proxy", b.upstream.Addr) }},
	{nginxName, report.Peer, true, (*bench).startNginx},
	{haproxyName, report.Peer, true, (*bench).startHAProxy},
	{"Caddy, without a limiter", report.Peer, false, (*bench).startCaddy},
}

// Settings of Penstock's listeners, to be formatted with an address.
const (
	listenHTTP    = "listen: {http: %q, gateway: \"\", grpc: \"\", admin: \"\"}\n"
	listenGRPC    = "listen: {grpc: %q, gateway: \"\", http: \"\", admin: \"\"}\n"
	listenGateway = "listen: {gateway: %q, http: \"\", grpc: \"\", admin: \"\"}\n"
	behindProxy   = "trusted_proxies: [127.0.0.0/8]\n"
)

func (b *bench) startGateway(upstream string, allow bool) *lab.Server {
	return b.servePenstock(allow, listenGateway+fmt.Sprintf("upstreams: [{path: /, url: \"http://%s\"}]\n", upstream))
}

func rulesOf(rate string) string {
	return fmt.Sprintf("rules:\n  - {name: per-ip, key: [ip], limits: [{rate: %s, algorithm: token_bucket}]}\n", rate)
}

func (b *bench) servePenstock(allow bool, config string) *lab.Server {
	addr, rate := lab.FreeAddr(), "1/1h"
	if allow {
		rate = "1000000000/1m"
	}
	name := "penstock-" + strings.ReplaceAll(addr, ":", "-")
	rules := lab.Write(b.dir, name+".rules.yaml", rulesOf(rate))
	config = fmt.Sprintf(config, addr) + fmt.Sprintf("rules: {file: %q}\ndata_dir: %q\nkey_secret: a secret of benchmarks\nlog: {level: warn, decisions: none}\n", rules, b.dir)
	return b.Start(b.dir, name, addr, exec.Command(b.penstock, "serve", "--config", lab.Write(b.dir, name+".yaml", config)))
}

// startUpstream starts a server that answers every request at once.
func (b *bench) startUpstream() *lab.Server {
	return b.nginx("upstream", "server { listen ADDRESS; location / { default_type text/plain; return 200 \"hello\\n\"; } }")
}

func (b *bench) startNginx(allow bool) *lab.Server {
	rate, burst := "1r/m", ""
	if allow {
		rate, burst = "1000000r/s", "burst=100000 nodelay"
	}
	return b.nginx(fmt.Sprint("nginx-allow-", allow), fmt.Sprintf(`limit_req_zone $binary_remote_addr zone=ip:10m rate=%s;
upstream app { server %s; keepalive 128; }
server {
  listen ADDRESS;
  limit_req zone=ip %s;
  limit_req_status 429;
  limit_req_log_level info;
  location / { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; }
}`, rate, b.upstream.Addr, burst))
}

// nginx starts nginx with a configuration of http in which ADDRESS is where it listens.
func (b *bench) nginx(name, http string) *lab.Server { return b.nginxWith("", name, http) }

// nginxWith is nginx with modules.
func (b *bench) nginxWith(modules, name, http string) *lab.Server {
	addr := lab.FreeAddr()
	config := lab.Write(b.dir, name+".conf", modules+fmt.Sprintf(`daemon off;
pid %s.pid;
worker_processes auto;
error_log stderr crit;
events { worker_connections 4096; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path %[2]s/body; proxy_temp_path %[2]s/proxy; fastcgi_temp_path %[2]s/f; uwsgi_temp_path %[2]s/u; scgi_temp_path %[2]s/s;
  %[3]s
}
`, filepath.Join(b.dir, name), b.dir, strings.ReplaceAll(http, "ADDRESS", addr)))
	return b.Start(b.dir, name, addr, exec.Command("nginx", "-p", b.dir, "-e", "stderr", "-c", config))
}

func (b *bench) startHAProxy(allow bool) *lab.Server {
	addr, most, name := lab.FreeAddr(), "0", "haproxy-deny"
	if allow {
		most, name = "1000000000", "haproxy-allow"
	}
	config := lab.Write(b.dir, name+".cfg", fmt.Sprintf(`global
  maxconn 4096
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  http-reuse always
frontend in
  bind %s
  stick-table type ip size 1m expire 1m store http_req_rate(1m)
  http-request track-sc0 src
  http-request deny deny_status 429 if { sc_http_req_rate(0) gt %s }
  default_backend app
backend app
  server app %s
`, addr, most, b.upstream.Addr))
	return b.Start(b.dir, name, addr, exec.Command("haproxy", "-db", "-q", "-f", config))
}

func (b *bench) startCaddy(bool) *lab.Server {
	addr := lab.FreeAddr()
	config := lab.Write(b.dir, "Caddyfile", fmt.Sprintf("{\n  admin off\n  auto_https off\n}\nhttp://%s {\n  reverse_proxy %s\n}\n", addr, b.upstream.Addr))
	cmd := exec.Command("caddy", "run", "--adapter", "caddyfile", "--config", config)
	cmd.Env = append(cmd.Environ(), "HOME="+b.dir, "XDG_DATA_HOME="+b.dir, "XDG_CONFIG_HOME="+b.dir)
	return b.Start(b.dir, "caddy", addr, cmd)
}

// cached compares proxies that answer known denials of Penstock with their own limiters.
func (b *bench) cached(s *report.Section) {
	penstock := b.servePenstock(false, listenHTTP+behindProxy)
	t := b.compete(s, fmt.Sprintf("Proxies that answer known denials, with Penstock's processor time (%d connections)", connections), nginxName,
		newContestant(nginxName, report.Peer, false, b.startNginx(false)),
		newContestant(nginxCached, report.Ours, false, b.cachingNginx(penstock.Addr), penstock),
		newContestant(nginxLua, report.Ours, false, b.cachingNginxLua(penstock.Addr), penstock),
		newContestant(haproxyName, report.Peer, false, b.startHAProxy(false)),
		newContestant(haproxyCached, report.Ours, false, b.cachingHAProxy(penstock.Addr), penstock))
	for _, pair := range [][2]string{{nginxLua, nginxName}, {haproxyCached, haproxyName}} {
		atMost(s, t, pair[0]+": processor time vs "+pair[1], pair[0], pair[1], 1.3)
	}
}

// cachingNginx starts nginx with the file in deploy and the lines that cache denials.
func (b *bench) cachingNginx(asks string) *lab.Server {
	denials, lines := b.TempDir("/dev/shm"), cachingLines("nginx")
	lab.Check(os.Chmod(denials, 0o755)) // nginx workers run as another user
	return b.askingNginx("nginx-cached", "", asks,
		"upstream penstock {", strings.Replace(lines[0], "/dev/shm/penstock", filepath.Join(denials, "nginx"), 1)+"upstream penstock {",
		"proxy_pass http://penstock/v1/auth?deny_status=403;", lines[1])
}

// cachingNginxLua does the same with the lines that keep denials in Lua's shared memory.
func (b *bench) cachingNginxLua(asks string) *lab.Server {
	lines := cachingLines("nginx")[2:]
	const modules = "load_module /usr/lib/nginx/modules/ndk_http_module.so;\nload_module /usr/lib/nginx/modules/ngx_http_lua_module.so;\n"
	return b.askingNginx("nginx-lua", modules, asks,
		"upstream penstock {", lines[0]+"upstream penstock {",
		"auth_request     /_penstock;", lines[1]+"auth_request     /_penstock;",
		"proxy_pass http://penstock/v1/auth?deny_status=403;", lines[2],
		"location @penstock_deny {", "location @penstock_deny {\n"+lines[3])
}

// askingNginx starts nginx with the file in deploy, changed, which asks at an address.
func (b *bench) askingNginx(name, modules, asks string, changes ...string) *lab.Server {
	return b.nginxWith(modules, name, strings.NewReplacer(append(changes,
		"listen 80;", "listen ADDRESS;", "127.0.0.1:8090", asks, "127.0.0.1:8190", asks, "127.0.0.1:3000", b.upstream.Addr, "50ms", "5s",
	)...).Replace(string(lab.Must(os.ReadFile("../deploy/nginx/penstock.conf")))))
}

// cachingHAProxy starts HAProxy with the files in deploy and the lines that cache denials.
func (b *bench) cachingHAProxy(asks string) *lab.Server {
	lines, addr, inside := cachingLines("haproxy"), lab.FreeAddr(), lab.FreeAddr()
	files := strings.NewReplacer(
		"frontend web", lines[0]+"frontend web", "    http-request lua.penstock\n", lines[1],
		"bind :80", "bind "+addr, "127.0.0.1:8089", inside, "127.0.0.1:8090", asks, "127.0.0.1:8190", asks, "127.0.0.1:3000", b.upstream.Addr, "50ms", "5s",
	)
	for _, name := range []string{"haproxy.cfg", "penstock.lua"} {
		lab.Write(b.dir, name, files.Replace(string(lab.Must(os.ReadFile("../deploy/haproxy/"+name)))))
	}
	return b.Start(b.dir, "haproxy-cached", addr, exec.Command("haproxy", "-db", "-q", "-f", "haproxy.cfg"))
}

// cachingLines returns the lines that the page about caching denials adds to the two places of a configuration.
func cachingLines(kind string) (all []string) {
	const page = "../docs/how-to/cache-denials.md"
	blocks := regexp.MustCompile("(?ms)^```"+kind+"\n(.*?)^```$").FindAllStringSubmatch(string(lab.Must(os.ReadFile(page))), -1)
	for _, block := range blocks {
		all = append(all, block[1])
	}
	return all
}

const alone = "application alone"

// places are where an application's requests can be limited.
var places = []struct {
	name  string
	start func(b *bench) *lab.Server
}{
	{alone, func(b *bench) *lab.Server { return b.startBare("app", "") }},
	{"middleware, in process", func(b *bench) *lab.Server { return b.startBare("app-inside", "") }},
	{"application asks over gRPC", func(b *bench) *lab.Server {
		return b.startBare("app-grpc", b.servePenstock(true, listenGRPC).Addr)
	}},
	{"application asks over HTTP", func(b *bench) *lab.Server {
		return b.startBare("app-http", b.servePenstock(true, listenHTTP).Addr)
	}},
	{"gateway in front", func(b *bench) *lab.Server { return b.startGateway(b.startBare("app", "").Addr, true) }},
	{"nginx in front, no limits", func(b *bench) *lab.Server { return b.nginxInFront("front", "", "", "") }},
	{"nginx with forward-auth", func(b *bench) *lab.Server {
		asks := b.servePenstock(true, listenHTTP+behindProxy).Addr
		return b.nginxInFront("front-asking", fmt.Sprintf("upstream penstock { server %s; keepalive 16; }", asks), "auth_request /_penstock;", `location = /_penstock {
    internal;
    proxy_pass http://penstock/v1/auth?deny_status=403;
    proxy_pass_request_body off; proxy_set_header Content-Length "";
    proxy_http_version 1.1; proxy_set_header Connection "";
    proxy_set_header X-Original-URI $request_uri;
    proxy_set_header X-Original-Method $request_method;
    proxy_set_header X-Forwarded-Host $host;
    proxy_set_header X-Forwarded-For $remote_addr;
  }`)
	}},
}

// nginxInFront starts an application and nginx in front of it, with further parts of its configuration.
func (b *bench) nginxInFront(name, upstreams, auth, location string) *lab.Server {
	return b.nginx(name, fmt.Sprintf(`%s
upstream app { server %s; keepalive 16; }
server {
  listen ADDRESS;
  location / { %s proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; }
  %s
}`, upstreams, b.startBare("app", "").Addr, auth, location))
}
