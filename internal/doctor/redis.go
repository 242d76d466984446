package doctor

import (
	"context"
	"strings"

	"github.com/penstock-io/penstock/rules"
)

// examineStore checks the store. found may be nil.
func (d *doctor) examineStore(ctx context.Context, found *rules.Snapshot) {
	if !d.Config.HasRedis() {
		d.examineMemory()
		return
	}
	options, err := d.Config.Store.Redis.Options()
	if err != nil {
		d.fail("reach", "docs/reference/configuration.md, store.redis.tls", "%v", err)
		return
	}
	as := identity{options.Username, options.Password, options.TLS}
	masters := d.findMasters(ctx, as)
	decides := len(masters) > 0
	for _, s := range masters {
		defer s.close()
		d.at = s.address
		decides = d.examineServer(ctx, s, found) && decides
	}
	d.at = ""
	d.examineClocks(masters)
	if decides {
		d.examineScript(ctx, options)
	}
}

func (d *doctor) examineMemory() {
	if n := d.Config.Nodes; n > 1 {
		d.fail("store", "store.redis.addresses",
			"nodes is %d, but each counts in its own memory: together they admit up to %d times the limits", n, n)
		return
	}
	d.ok("store", "in memory, for this node alone; a restart loses it")
}

// findMasters returns the servers that decide, connected.
func (d *doctor) findMasters(ctx context.Context, as identity) []*redisServer {
	switch d.Config.Store.Redis.Mode {
	case "sentinel":
		return d.findBySentinels(ctx, as)
	case "cluster":
		return d.findByCluster(ctx, as)
	}
	return d.connect(ctx, d.Config.Store.Redis.Addresses[:1], as)
}

// connect connects to servers, and reports why that fails for some.
func (d *doctor) connect(ctx context.Context, addresses []string, as identity) (found []*redisServer) {
	for _, address := range addresses {
		if s, err := dialServer(ctx, address, as, d.Timeout); err != nil {
			d.unreachable(address, as, err)
		} else {
			found = append(found, s)
		}
	}
	return found
}

// unreachable reports why a server cannot be used, and what may help.
func (d *doctor) unreachable(address string, as identity, err error) {
	fix := "check that it runs and that this machine can connect; until then on_store_error decides"
	if as.tls != nil {
		fix = "check that it runs and that this is its TLS port: a plain port does not respond to TLS, and needs store.redis.tls.enabled: false"
	}
	text := err.Error()
	for _, known := range []struct{ sign, fix string }{
		{"NOAUTH", "set store.redis.password, and store.redis.username if it has its own user"},
		{"WRONGPASS", "correct store.redis.username and store.redis.password"},
		{"x509", "set store.redis.tls.ca to the CA of the server's certificate, and store.redis.tls.server_name to its name"},
		{"unknown message type", "it does not speak Redis' protocol: correct the address or the port in store.redis.addresses"},
		{"unknown command", "Redis 6.2 or later, or Valkey"},
	} {
		if strings.Contains(text, known.sign) {
			fix = known.fix
			break
		}
	}
	d.block("reach", fix, "cannot use %s: %s", address, text)
}

// examineServer checks one server that is to decide, and reports whether it can.
func (d *doctor) examineServer(ctx context.Context, s *redisServer, found *rules.Snapshot) bool {
	if !d.examineVersion(s) {
		return false
	}
	d.examineRights(ctx, s)
	d.examineBus(ctx, s)
	d.examineEviction(ctx, s)
	d.examinePersistence(ctx, s, found)
	d.examineClock(ctx, s)
	d.examineReplicas(ctx, s)
	d.examineFormat(ctx, s)
	return true
}

// wanted is the mode that a server reports in each configured mode.
var wanted = map[string]string{"single": "standalone", "sentinel": "standalone", "cluster": "cluster"}

// examineVersion reports whether the server is of the expected kind and version.
func (d *doctor) examineVersion(s *redisServer) bool {
	mode := d.Config.Store.Redis.Mode
	switch {
	case s.mode != "" && s.mode != wanted[mode]:
		fix := map[string]string{
			"standalone": "store.redis.mode: single",
			"cluster":    "store.redis.mode: cluster",
			"sentinel":   "store.redis.mode: sentinel, and store.redis.master: its name",
		}[s.mode]
		d.block("mode", fix, "store.redis.mode is %s, but this server runs as %s", mode, s.mode)
		return false
	case s.role != "" && s.role != "master":
		d.fail("role", "use the address of the master, or store.redis.mode: sentinel", "this server is a %s: it accepts no writes, so it cannot decide", s.role)
		return false
	case !s.atLeast(6, 2):
		d.fail("version", "Redis 6.2 or later, or Valkey", "%s %s is too old", s.kind, s.version)
		return false
	}
	d.ok("version", "%s %s, %s", s.kind, s.version, s.mode)
	return true
}
