package doors

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

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

//go:embed config
var configFiles embed.FS

var configs = template.Must(template.ParseFS(configFiles, "config/*"))

// values are what the files in config are filled with.
type values struct {
	Name, Dir, Addr string // of the server
	Allow           bool
	Upstream        string // an address
	Asks            string // address of Penstock; "": it is not asked
	Listener        string // of Penstock
	BehindProxy     bool
	Modules, HTTP   string // of nginx
	Workers         string // of nginx
}

// fill returns a file of config.
func (v values) fill(file string) string {
	var text strings.Builder
	lab.Check(configs.ExecuteTemplate(&text, file, v))
	return text.String()
}

// serve starts a command whose last argument is the file with a configuration.
func (b *bench) serve(v values, config string, command ...string) *lab.Server {
	cmd := exec.Command(command[0], append(command[1:], lab.Write(b.dir, v.Name+".conf", config))...)
	cmd.Env = append(cmd.Environ(), "HOME="+b.dir, "XDG_DATA_HOME="+b.dir, "XDG_CONFIG_HOME="+b.dir) // Caddy writes there
	return b.Start(b.dir, v.Name, v.Addr, cmd)
}

// values returns what is common to the contestants.
func (b *bench) values(name string) values {
	return values{Name: name, Dir: b.dir, Addr: lab.FreeAddr(), Upstream: b.upstream.Addr}
}

func (b *bench) startPenstock(v values) *lab.Server {
	v.Addr, v.Dir = lab.FreeAddr(), b.dir
	v.Name = "penstock-" + strings.ReplaceAll(v.Addr, ":", "-")
	lab.Write(b.dir, v.Name+".rules.yaml", v.fill("rules.yaml"))
	return b.serve(v, v.fill("penstock.yaml"), b.penstock, "serve", "--config")
}

func (b *bench) startGateway(upstream string, allow bool) *lab.Server {
	return b.startPenstock(values{Listener: "gateway", Upstream: upstream, Allow: allow})
}

func (b *bench) startNginx(allow bool) *lab.Server { return b.limitingNginx(allow, "auto") }

func (b *bench) limitingNginx(allow bool, workers string) *lab.Server {
	v := b.values(fmt.Sprintf("nginx-allow-%v-%s", allow, workers))
	v.Allow, v.Workers = allow, workers
	return b.nginx(v, v.fill("limiting.conf"))
}

// nginx starts nginx with a configuration of http.
func (b *bench) nginx(v values, http string) *lab.Server {
	v.HTTP = http
	return b.serve(v, v.fill("nginx.conf"), "nginx", "-p", b.dir, "-e", "stderr", "-c")
}

func (b *bench) startHAProxy(allow bool) *lab.Server {
	v := b.values(fmt.Sprint("haproxy-allow-", allow))
	v.Allow = allow
	return b.serve(v, v.fill("haproxy.cfg"), "haproxy", "-db", "-q", "-f")
}

func (b *bench) startCaddy(bool) *lab.Server {
	v := b.values("caddy")
	return b.serve(v, v.fill("Caddyfile"), "caddy", "run", "--adapter", "caddyfile", "--config")
}

// oneWorker is for each nginx whose remembered denials are compared. With two, the processor time of a request varied
// by a third from load to load, for nginx's own limiter too, perhaps with how the connections are spread over them.
const oneWorker = "1"

// cached compares proxies that answer known denials of Penstock with their own limiters.
func (b *bench) cached(s *report.Section) {
	penstock := b.startPenstock(values{Listener: "http", BehindProxy: true})
	t := b.compete(s, fmt.Sprintf("Proxies that answer known denials, with Penstock's processor time (%d connections)", connections), nginxName,
		newContestant(nginxName, report.Peer, false, b.limitingNginx(false, oneWorker)),
		newContestant(nginxCached, report.Ours, false, b.cachingNginx(penstock.Addr), penstock),
		newContestant(nginxLua, report.Ours, false, b.cachingNginxLua(penstock.Addr), penstock),
		newContestant(haproxyName, report.Peer, false, b.startHAProxy(false)),
		newContestant(haproxyCached, report.Ours, false, b.cachingHAProxy(penstock.Addr), penstock))
	for _, pair := range [][2]string{{nginxCached, nginxName}, {nginxLua, nginxName}, {haproxyCached, haproxyName}} {
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
	v := b.values(name)
	v.Modules, v.Workers = modules, oneWorker
	return b.nginx(v, b.deployed("nginx/penstock.conf", asks, append(changes, "listen 80;", "listen "+v.Addr+";")...))
}

// deployed returns a file in deploy, changed, which asks at an address.
func (b *bench) deployed(file, asks string, changes ...string) string {
	changes = append(changes, "127.0.0.1:8090", asks, "127.0.0.1:8190", asks, "127.0.0.1:3000", b.upstream.Addr, "50ms", "5s")
	return strings.NewReplacer(changes...).Replace(string(lab.Must(os.ReadFile("../deploy/" + file))))
}

// cachingHAProxy starts HAProxy with the files in deploy and the lines that cache denials.
func (b *bench) cachingHAProxy(asks string) *lab.Server {
	lines, v, inside := cachingLines("haproxy"), b.values("haproxy-cached"), lab.FreeAddr()
	lab.Write(b.dir, "penstock.lua", b.deployed("haproxy/penstock.lua", asks, "127.0.0.1:8089", inside))
	return b.serve(v, b.deployed("haproxy/haproxy.cfg", asks, "127.0.0.1:8089", inside, "bind :80", "bind "+v.Addr,
		"frontend web", lines[0]+"frontend web", "    http-request lua.penstock\n", lines[1]), "haproxy", "-db", "-q", "-f")
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
		return b.startBare("app-grpc", b.startPenstock(values{Listener: "grpc", Allow: true}).Addr)
	}},
	{"application asks over HTTP", func(b *bench) *lab.Server {
		return b.startBare("app-http", b.startPenstock(values{Listener: "http", Allow: true}).Addr)
	}},
	{"gateway in front", func(b *bench) *lab.Server { return b.startGateway(b.startBare("app", "").Addr, true) }},
	{"nginx in front, no limits", func(b *bench) *lab.Server { return b.nginxInFront("front", "") }},
	{"nginx with forward-auth", func(b *bench) *lab.Server {
		return b.nginxInFront("front-asking", b.startPenstock(values{Listener: "http", Allow: true, BehindProxy: true}).Addr)
	}},
}

// nginxInFront starts an application and nginx in front of it, which asks at an address if there is one.
func (b *bench) nginxInFront(name, asks string) *lab.Server {
	v := b.values(name)
	v.Upstream, v.Asks = b.startBare("app", "").Addr, asks
	return b.nginx(v, v.fill("front.conf"))
}
