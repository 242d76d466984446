package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-io/penstock/internal/bounds"
	"github.com/penstock-io/penstock/internal/listener"
	"github.com/penstock-io/penstock/internal/membership"
	"github.com/penstock-io/penstock/internal/redisdial"
	"github.com/penstock-io/penstock/internal/urlform"
	"github.com/penstock-io/penstock/internal/webguard"
)

// minSecret is the minimum length of a secret in bytes: 16 random bytes in hex are 32.
const minSecret = 16

// check reports values that do not fit together. It also sets values that depend on others.
func (l *loader) check() {
	if l.unreadable {
		return
	}
	l.checkListen()
	l.checkUpstreams()
	l.checkRedis("store.redis", &l.config.Store.Redis)
	l.checkRedis("store.redis_per_second", &l.config.Store.RedisPerSecond)
	l.checkRules()
	l.checkEnvoy()
	l.checkSecrets()
	l.checkTLS()
	if p := l.config.ClientIP.IPv6Prefix; p < 1 || p > 128 {
		l.reportUnusable("client_ip.ipv6_prefix", "%d is not from 1 to 128", p)
	}
	if n := l.config.Gateway.Limits.HeldBytes; n <= 0 {
		l.reportUnusable("gateway.limits.held_bytes", "%d must be positive, for example 16MiB", n)
	}
	if n := l.config.Gateway.Limits.JSONBytes; n <= 0 || n > bounds.JSONBodies {
		l.reportUnusable("gateway.limits.json_bytes", "%d is not from 1 to %d, for example 1MiB", n, bounds.JSONBodies)
	}
	if n := l.config.Nodes; n > membership.Most {
		l.reportUnusable("nodes", "%d is not from 1 to %d, or 0 to learn it from Redis", n, membership.Most)
	}
	if name := l.config.NodeName; name != "" && !membership.IsWord(name) {
		l.reportUnusable("node_name", "%.80q must have 1 to 64 letters, digits and -._:+()", name)
	}
	if l.config.DataDir == "" {
		l.reportUnusable("data_dir", "must not be empty; use . for the working directory")
	}
}

func (l *loader) checkListen() {
	c := l.config
	l.checkAddresses()
	for _, name := range c.Listen.Hosts {
		if err := webguard.CheckName(name); err != nil {
			l.reportUnusable("listen.hosts", "%w", err)
		}
	}
	if _, err := listener.ParseMode(c.Listen.SocketMode); err != nil {
		l.reportUnusable("listen.socket_mode", "%w", err)
	}
	if c.Listen.Share < 1 || c.Listen.Share > 100 {
		l.reportUnusable("listen.client_share", "%d is not from 1 to 100", c.Listen.Share)
	}
	if c.GRPC.MaxBytes < 4<<20 {
		l.reportUnusable("grpc.max_bytes", "%v must be at least 4MiB", c.GRPC.MaxBytes)
	}
	if c.Listen.Gateway == "" && c.Listen.GRPC == "" && c.Listen.HTTP == "" {
		l.reportUnusable("listen", "every listener is off: set one of listen.gateway, listen.http and listen.grpc")
	}
	if c.Listen.Admin != "" && !IsLoopback(c.Listen.Admin) && (c.Admin.TLS.Certificate == "" || c.Admin.Token == "") {
		l.reportUnusable("listen.admin", "%s can be reached from other machines, which requires admin.tls and admin.token; otherwise listen at 127.0.0.1", c.Listen.Admin)
	}
}

// checkAddresses checks the address of each listener, and that no two are the same.
func (l *loader) checkAddresses() {
	c := l.config
	taken := map[string]string{}
	for _, at := range []struct{ path, address string }{
		{"listen.gateway", c.Listen.Gateway}, {"listen.grpc", c.Listen.GRPC},
		{"listen.http", c.Listen.HTTP}, {"listen.admin", c.Listen.Admin}, {"listen.health", c.Listen.Health}, {"listen.metrics", c.Listen.Metrics},
	} {
		if at.address == "" {
			continue
		}
		if path, unix := listener.UnixPath(at.address); unix && at.path == "listen.grpc" {
			if err := listener.CheckUnixPath(path); err != nil {
				l.reportUnusable(at.path, "%w", err)
			}
			continue
		}
		_, port, err := net.SplitHostPort(at.address)
		n, bad := strconv.ParseUint(port, 10, 16)
		switch {
		case err != nil || bad != nil:
			l.reportUnusable(at.path, "invalid address %.64q, for example :8080 or 127.0.0.1:8080", at.address)
		case n == 0: // any free port
		case taken[at.address] != "":
			l.reportUnusable(at.path, "%s is already used by %s", at.address, taken[at.address])
		default:
			taken[at.address] = at.path
		}
	}
}

// IsLoopback reports whether an address is reachable from this machine only.
func IsLoopback(address string) bool {
	if _, unix := listener.UnixPath(address); unix {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// Local returns the address at which this machine reaches a listener: one on all interfaces is on loopback, too.
func Local(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && ip.IsUnspecified() && ip.Is6():
		host = "::1"
	case host == "", err == nil && ip.IsUnspecified():
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

func (l *loader) checkUpstreams() {
	c := l.config
	if c.Listen.Gateway != "" && len(c.Upstreams) == 0 && !c.Demo {
		l.reportUnusable("upstreams", `the gateway has no upstream: set one with --upstream http://127.0.0.1:3000, try it with --demo, or turn it off with listen.gateway: ""`)
	}
	for i, u := range c.Upstreams {
		path := fmt.Sprintf("upstreams[%d]", i)
		if (u.URL == "") == (len(u.URLs) == 0) {
			l.reportUnusable(path, "must have either url or urls")
		}
		if !strings.HasPrefix(u.Path, "/") {
			l.reportUnusable(path+".path", "invalid path %.64q: must begin with /", u.Path)
		}
		for _, text := range u.Servers() {
			if !isServer(text) || strings.Contains(text, "@") {
				l.unusable(path+".url", "%.128q must be the URL of a server (http, https, or h2c for HTTP/2 without TLS), without user or password, for example http://127.0.0.1:3000", urlform.Redact(text))
			} else if isH2C(text) != isH2C(u.Servers()[0]) {
				l.unusable(path+".url", "%.128q: either all servers of an upstream are h2c or none", urlform.Redact(text))
			}
		}
	}
}

func (u *Upstream) Servers() []string {
	if u.URL == "" {
		return u.URLs
	}
	return append([]string{u.URL}, u.URLs...)
}

// HasRedis reports whether counters are in Redis.
func (c *Config) HasRedis() bool { return len(c.Store.Redis.Addresses) > 0 }

func (l *loader) checkRedis(path string, r *Redis) {
	if len(r.Addresses) == 0 {
		l.checkNoRedis(path)
		return
	}
	for _, address := range r.Addresses {
		l.checkRedisAddress(path+".addresses", address, r)
	}
	if r.Mode == "single" && len(r.Addresses) > 1 {
		l.reportUnusable(path+".addresses", "mode single takes one address; use mode sentinel or cluster for several")
	}
	if (r.Mode == "sentinel") != (r.Master != "") {
		l.reportUnusable(path+".master", "mode sentinel requires the master's name, other modes have none; the mode is %s", r.Mode)
	}
	if r.Timeout == 0 {
		l.reportUnusable(path+".timeout", "must be positive")
	}
	if strings.ContainsAny(r.KeyPrefix, "{} \t\r\n") || len(r.KeyPrefix) > 64 || r.KeyPrefix == "" {
		l.reportUnusable(path+".key_prefix", "%.80q must have 1 to 64 bytes, without braces or spaces", r.KeyPrefix)
	}
	if (r.TLS.Certificate == "") != (r.TLS.Key == "") {
		l.reportUnusable(path+".tls", "certificate and key must be set together")
	}
}

// checkNoRedis reports settings of Redis without an address: counters would be in the memory of each node, and every
// node would allow the whole limit.
func (l *loader) checkNoRedis(path string) {
	var set []string
	for key := range l.origin {
		if strings.HasPrefix(key, path+".") {
			set = append(set, key)
		}
	}
	if len(set) > 0 {
		l.note(l.origin[slices.Min(set)], path+".addresses", "is empty: set it, for example to 127.0.0.1:6379, or remove all of %s to keep counters in memory", path)
	}
}

func (l *loader) checkRedisAddress(path, address string, r *Redis) {
	if socket, unix := redisdial.UnixPath(address); unix {
		if !strings.HasPrefix(socket, "/") || r.TLS.Enabled || r.Mode != "single" {
			l.reportUnusable(path, "%.128q: a Unix socket must have an absolute path, as unix:///run/redis/redis.sock has, and goes with mode single and without tls", address)
		}
		return
	}
	_, port, err := net.SplitHostPort(address)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || strings.ContainsAny(address, "@/?#") {
		l.unusable(path, "%.64q is not host:port, for example 127.0.0.1:6379, or unix:///path; username and password have settings of their own", urlform.Redact(address))
	}
}

// checkRules checks where rules come from. It also sets the source if several are possible.
func (l *loader) checkRules() {
	r := &l.config.Rules
	ways := 0
	for _, chosen := range []bool{r.File != "", r.Database != "", r.Redis, r.Envoy != "", r.XDS.Server != ""} {
		if chosen {
			ways++
		}
	}
	switch {
	case ways == 0:
		r.Database = "sqlite:penstock.db"
	case ways > 1:
		l.reportUnusable("rules", "several sources are set; use one of file, database, redis, envoy_ratelimit and xds")
	}
	if r.Redis && !l.config.HasRedis() {
		l.reportUnusable("rules.redis", "requires store.redis.addresses")
	}
	l.checkXDS()
	if r.PollInterval <= 0 {
		l.reportUnusable("rules.poll_interval", "must be positive")
	}
	if name, ok := strings.CutPrefix(string(r.Database), "sqlite:"); ok {
		r.Database = Secret("sqlite:" + l.sqliteFile(name))
	}
	l.checkPeople()
}

// checkPeople checks the database of users.
func (l *loader) checkPeople() {
	people := &l.config.Admin.Database
	if *people == "" {
		return
	}
	if l.config.Rules.Database != "" {
		l.reportUnusable("admin.database", "rules.database holds the users already: remove admin.database")
	}
	if name, ok := strings.CutPrefix(string(*people), "sqlite:"); ok && name != "" && !filepath.IsAbs(name) {
		*people = Secret("sqlite:" + l.config.InDataDir(name))
	}
}

func (l *loader) checkSecrets() {
	c := l.config
	l.checkKeptSecret()
	if c.HasRedis() && c.KeySecret == "" {
		l.reportUnusable("key_secret", "nodes that share limits through Redis need the same secret: create one with openssl rand -hex 32 and give it to all nodes as PENSTOCK_KEY_SECRET or key_secret_file")
	}
	for _, s := range []struct {
		path  string
		value Secret
	}{{"key_secret", c.KeySecret}, {"admin.token", c.Admin.Token}, {"admin.viewer_token", c.Admin.ViewerToken}} {
		if s.value != "" && len(s.value) < minSecret {
			l.reportUnusable(s.path, "%d bytes are too few: must be at least %d; create one with openssl rand -hex 32", len(s.value), minSecret)
		}
	}
	if u := string(c.JWT.JWKSURL); u != "" && !isHTTP(u) {
		l.unusable("jwt.jwks_url", "%.128q must be an http or https URL", c.JWT.JWKSURL)
	}
	if c.Admin.ViewerToken != "" && c.Admin.ViewerToken == c.Admin.Token {
		l.reportUnusable("admin.viewer_token", "must differ from admin.token")
	}
}

// checkKeptSecret checks the secret that an earlier start has generated, if none is configured.
func (l *loader) checkKeptSecret() {
	if l.config.KeySecret != "" || l.config.KeySecretFile != "" {
		return
	}
	if _, warning, err := ReadSecretFile(l.config.InDataDir("key_secret")); warning != "" {
		l.warn("key_secret", "%s", warning)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.reportUnusable("key_secret", "%w", err)
	}
}

// isHTTP reports whether a text is an HTTP or HTTPS URL.
// isServer reports whether a text is the URL of a server behind the gateway.
func isServer(text string) bool {
	rest, ok := strings.CutPrefix(text, h2c)
	return ok && isHTTP("http://"+rest) || isHTTP(text)
}

const h2c = "h2c://"

func isH2C(text string) bool { return strings.HasPrefix(text, h2c) }

func isHTTP(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func (l *loader) checkTLS() {
	l.checkServerTLS("gateway.tls", l.config.Gateway.TLS)
	l.checkServerTLS("grpc.tls", l.config.GRPC.TLS)
	l.checkServerTLS("admin.tls", l.config.Admin.TLS.Server())
	for _, path := range []string{"gateway.tls.key", "grpc.tls.key", "admin.tls.key", "store.redis.tls.key", "store.redis_per_second.tls.key", "rules.xds.tls.key"} {
		l.checkMode(path, l.settings[path].value.String())
	}
}

func (l *loader) checkServerTLS(path string, t ServerTLS) {
	if (t.Certificate == "") != (t.Key == "") {
		l.reportUnusable(path, "certificate and key must be set together")
	}
	if t.ClientCA != "" && t.Certificate == "" || t.Required && t.ClientCA == "" || len(t.ClientNames) > 0 && !t.Required {
		l.reportUnusable(path, "client_ca requires a certificate, required requires a client_ca, and client_names require required")
	}
}

// CheckTraffic returns why demo traffic is not possible, or nil.
func (c *Config) CheckTraffic() error {
	switch {
	case !c.Demo || len(c.Upstreams) > 0:
		return errors.New("--traffic requires --demo and no upstreams: simulated clients only call the demo upstream")
	case c.Listen.Gateway == "":
		return errors.New("--traffic requires the gateway, but listen.gateway is empty")
	case c.Gateway.TLS.Certificate != "":
		return errors.New("--traffic requires a gateway without TLS")
	}
	return nil
}
