package doors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/penstock-io/penstock/bench/report"
)

const (
	nginxCached   = "nginx, denials of Penstock cached"
	haproxyCached = "HAProxy, denials of Penstock cached"
	haproxyOwn    = "HAProxy stick table"
)

// cached compares proxies that answer known denials of Penstock with their own limiters.
func (b *bench) cached(ctx context.Context, s *report.Section) (err error) {
	denials, err := os.MkdirTemp("/dev/shm", "penstock-doors-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(denials)) }()
	if err := os.Chmod(denials, 0o755); err != nil { // nginx workers run as another user
		return err
	}
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	config := fmt.Sprintf("listen: {http: %q, gateway: \"\", grpc: \"\", admin: \"\"}\ntrusted_proxies: [127.0.0.0/8]\n", addr)
	penstock, err := b.keep(servePenstock(ctx, b.penstock, b.dir, false, config, addr))
	if err != nil {
		return err
	}
	var all []*contestant
	for _, c := range []struct {
		name  string
		role  report.Role
		start func() (*server, error)
		asks  []*server
	}{
		{nginxName, report.Peer, func() (*server, error) { return startNginx(ctx, b.dir, b.upstream.addr, false) }, nil},
		{nginxCached, report.Ours, func() (*server, error) { return b.cachingNginx(ctx, addr, denials) }, []*server{penstock}},
		{haproxyOwn, report.Peer, func() (*server, error) { return startHAProxy(ctx, b.dir, b.upstream.addr, false) }, nil},
		{haproxyCached, report.Ours, func() (*server, error) { return b.cachingHAProxy(ctx, addr) }, []*server{penstock}},
	} {
		server, err := b.keep(c.start())
		if err != nil {
			return err
		}
		all = append(all, &contestant{name: c.name, role: c.role, server: server, asks: c.asks, load: load{url: "http://" + server.addr + "/", connections: connections}})
	}
	if err := b.compete(ctx, all); err != nil {
		return err
	}
	t := table(fmt.Sprintf("Proxies that answer known denials, with Penstock's processor time (%d connections)", connections), nginxName, all)
	s.Tables = append(s.Tables, t)
	for _, pair := range [][2]string{{nginxCached, nginxName}, {haproxyCached, haproxyOwn}} {
		s.Goals = append(s.Goals, report.Goal{
			Name: pair[0] + ": processor time vs " + pair[1], Bound: report.AtMost, Want: 1.3,
			Measured: t.Value(pair[0], cpu) / t.Value(pair[1], cpu), Unit: "×",
		})
	}
	return nil
}

// cachingNginx starts nginx with the file in deploy and the lines that cache denials.
func (b *bench) cachingNginx(ctx context.Context, asks, denials string) (*server, error) {
	lines, err := cachingLines("nginx")
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile("../deploy/nginx/penstock.conf")
	if err != nil {
		return nil, err
	}
	return nginx(ctx, b.dir, "nginx-cached", func(addr string) string {
		return strings.NewReplacer(
			"upstream penstock {", strings.Replace(lines[0], "/dev/shm/penstock", filepath.Join(denials, "nginx"), 1)+"upstream penstock {",
			"proxy_pass http://penstock/v1/auth?deny_status=403;", lines[1],
			"listen 80;", "listen "+addr+";", "127.0.0.1:8090", asks, "127.0.0.1:8190", asks, "127.0.0.1:3000", b.upstream.addr, "50ms", "5s",
		).Replace(string(text))
	})
}

// cachingHAProxy starts HAProxy with the files in deploy and the lines that cache denials.
func (b *bench) cachingHAProxy(ctx context.Context, asks string) (*server, error) {
	lines, err := cachingLines("haproxy")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	inside, err := freeAddr()
	if err != nil {
		return nil, err
	}
	files := strings.NewReplacer(
		"frontend web", lines[0]+"frontend web", "    http-request lua.penstock\n", lines[1],
		"bind :80", "bind "+addr, "127.0.0.1:8089", inside, "127.0.0.1:8090", asks, "127.0.0.1:8190", asks, "127.0.0.1:3000", b.upstream.addr, "50ms", "5s",
	)
	for _, name := range []string{"haproxy.cfg", "penstock.lua"} {
		text, err := os.ReadFile("../deploy/haproxy/" + name)
		if err != nil {
			return nil, err
		}
		if _, err := write(b.dir, name, files.Replace(string(text))); err != nil {
			return nil, err
		}
	}
	return start(ctx, b.dir, "haproxy-cached", addr, exec.Command("haproxy", "-db", "-q", "-f", "haproxy.cfg"))
}

// cachingLines returns the lines that the page about caching denials adds to the two places of a configuration.
func cachingLines(kind string) ([2]string, error) {
	const page = "../docs/how-to/cache-denials.md"
	text, err := os.ReadFile(page)
	if err != nil {
		return [2]string{}, err
	}
	blocks := regexp.MustCompile("(?ms)^```"+kind+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 2 {
		return [2]string{}, fmt.Errorf("%s has %d blocks of %s, not 2", page, len(blocks), kind)
	}
	return [2]string{blocks[0][1], blocks[1][1]}, nil
}
