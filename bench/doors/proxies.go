package doors

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/penstock-io/penstock/bench/report"
)

// A proxy is a contestant in front of an upstream.
type proxy struct {
	name  string
	role  report.Role
	start func(ctx context.Context, dir, upstream string, allow bool) (*server, error)
}

const (
	gatewayName = "Penstock gateway"
	nginxName   = "nginx limit_req"
	bareProxy   = "bare httputil.ReverseProxy"
	bareHandler = "bare net/http handler"
	bareJSON    = "bare net/http JSON handler"
)

func proxies(penstock string) []proxy {
	return []proxy{
		{gatewayName, report.Ours, func(ctx context.Context, dir, upstream string, allow bool) (*server, error) {
			return startPenstock(ctx, penstock, dir, upstream, allow)
		}},
		{bareProxy, report.Ceiling, func(ctx context.Context, dir, upstream string, _ bool) (*server, error) {
			return startBare(ctx, dir, "proxy", upstream)
		}},
		{nginxName, report.Peer, startNginx},
		{haproxyOwn, report.Peer, startHAProxy},
		{"Caddy, without a limiter", report.Peer, startCaddy},
	}
}

func startPenstock(ctx context.Context, binary, dir, upstream string, allow bool) (*server, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	return servePenstock(ctx, binary, dir, allow, fmt.Sprintf("listen: {gateway: %q, http: \"\", grpc: \"\", admin: \"\"}\nupstreams: [{path: /, url: \"http://%s\"}]\n", addr, upstream), addr)
}

func servePenstock(ctx context.Context, binary, dir string, allow bool, config, addr string) (*server, error) {
	rate := "1/1h"
	if allow {
		rate = "1000000000/1m"
	}
	name := "penstock-" + strings.ReplaceAll(addr, ":", "-")
	rules, err := write(dir, name+".rules.yaml", fmt.Sprintf("rules:\n  - {name: per-ip, key: [ip], limits: [{rate: %s, algorithm: token_bucket}]}\n", rate))
	if err != nil {
		return nil, err
	}
	config += fmt.Sprintf("rules: {file: %q}\ndata_dir: %q\nkey_secret: a secret of benchmarks\nlog: {level: warn, decisions: none}\n", rules, dir)
	file, err := write(dir, name+".yaml", config)
	if err != nil {
		return nil, err
	}
	return start(ctx, dir, name, addr, exec.Command(binary, "serve", "--config", file))
}

// startUpstream starts a server that answers every request at once.
func startUpstream(ctx context.Context, dir string) (*server, error) {
	return nginx(ctx, dir, "upstream", func(addr string) string {
		return fmt.Sprintf("server { listen %s; location / { default_type text/plain; return 200 \"hello\\n\"; } }", addr)
	})
}

func startNginx(ctx context.Context, dir, upstream string, allow bool) (*server, error) {
	rate, burst, name := "1r/m", "", "nginx-deny"
	if allow {
		rate, burst, name = "1000000r/s", "burst=100000 nodelay", "nginx-allow"
	}
	return nginx(ctx, dir, name, func(addr string) string {
		return fmt.Sprintf(`limit_req_zone $binary_remote_addr zone=ip:10m rate=%s;
upstream app { server %s; keepalive 128; }
server {
  listen %s;
  limit_req zone=ip %s;
  limit_req_status 429;
  limit_req_log_level info;
  location / { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; }
}`, rate, upstream, addr, burst)
	})
}

func nginx(ctx context.Context, dir, name string, http func(addr string) string) (*server, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	config, err := write(dir, name+".conf", fmt.Sprintf(`daemon off;
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
`, filepath.Join(dir, name), dir, http(addr)))
	if err != nil {
		return nil, err
	}
	return start(ctx, dir, name, addr, exec.Command("nginx", "-p", dir, "-e", "stderr", "-c", config))
}

func startHAProxy(ctx context.Context, dir, upstream string, allow bool) (*server, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	most, name := "0", "haproxy-deny"
	if allow {
		most, name = "1000000000", "haproxy-allow"
	}
	config, err := write(dir, name+".cfg", fmt.Sprintf(`global
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
`, addr, most, upstream))
	if err != nil {
		return nil, err
	}
	return start(ctx, dir, name, addr, exec.Command("haproxy", "-db", "-q", "-f", config))
}

func startCaddy(ctx context.Context, dir, upstream string, allow bool) (*server, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	config, err := write(dir, "Caddyfile", fmt.Sprintf("{\n  admin off\n  auto_https off\n}\nhttp://%s {\n  reverse_proxy %s\n}\n", addr, upstream))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("caddy", "run", "--adapter", "caddyfile", "--config", config)
	cmd.Env = append(cmd.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	return start(ctx, dir, "caddy", addr, cmd)
}
