package doctor

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"time"

	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/server"
	"github.com/penstock-io/penstock/internal/spelling"
)

func (d *doctor) examineDataDir() {
	dir := d.Config.DataDir
	file, err := os.CreateTemp(dir, ".doctor-*")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.warn("data_dir", "create it, or let the server's user create it", "%s does not exist; serve creates it", dir)
		return
	case err != nil:
		d.fail("data_dir", "let the server's user write there, or set another data_dir",
			"%s is not writable: %v; a server that starts while the rules' origin is down has no rules", dir, err)
		return
	}
	_, err = file.WriteString("penstock doctor")
	err = errors.Join(err, file.Close(), os.Remove(file.Name()))
	if err != nil {
		d.fail("data_dir", "check whether the disk is full", "%s is not writable: %v", dir, err)
		return
	}
	d.ok("data_dir", "%s is writable", dir)
}

// A server needs an open file for each client connection, and for each upstream connection.
const fewFiles = 4096

func (d *doctor) examineOpenFiles() {
	limit, known := server.OpenFiles()
	switch {
	case !known:
		d.unknown("open files", "allow a process several thousand", "this system does not report its limit of open files")
	case limit < fewFiles:
		d.warn("open files", "ulimit -n 65536, or LimitNOFILE=65536 of the service",
			"the limit is %d: each request in flight needs one or two, and further connections wait", limit)
	default:
		d.ok("open files", "the limit is %d", limit)
	}
}

// examineListeners checks for listeners that other machines can reach.
func (d *doctor) examineListeners() {
	c := d.Config
	open := false
	for _, l := range []struct{ name, address, fix, what string }{
		{"gateway", c.Listen.Gateway, "set gateway.tls, or put a TLS terminator in front", "requests can be read on the network"},
		{"http", c.Listen.HTTP, "listen.http: 127.0.0.1:8090, or a network that only its clients can reach", "anyone who reaches it can exhaust any client's limits"},
		{"grpc", c.Listen.GRPC, "grpc.tls, listen.grpc: 127.0.0.1:8081, or a network that only its clients can reach", "anyone who reaches it can exhaust any client's limits"},
	} {
		if l.address == "" || config.IsLoopback(l.address) || l.name == "gateway" && c.Gateway.TLS.Certificate != "" || l.name == "grpc" && c.GRPC.TLS.Certificate != "" {
			continue
		}
		open = true
		d.warn("listeners", l.fix, "listen.%s at %s can be reached from other machines without TLS: %s", l.name, l.address, l.what)
	}
	if !open {
		d.ok("listeners", "none can be reached from other machines without TLS")
	}
}

// examineCertificates checks whether the certificates of listeners can be used, and how long.
func (d *doctor) examineCertificates() {
	all, err := server.Certificates(d.Config)
	if err != nil {
		d.fail("certificates", "correct the files: serve would not start", "%v", err)
	}
	now := time.Now()
	for i := range all {
		c := &all[i]
		const renew = "renew it; servers use a changed file without a restart"
		switch text := "of " + c.Listener + ": " + c.Text(now); {
		case c.Expired(now):
			d.fail("certificates", renew, "%s", text)
		case c.ExpiresSoon(now):
			d.warn("certificates", renew, "%s", text)
		default:
			d.ok("certificates", "%s", text)
		}
	}
}

// examineProxies checks for proxies that are trusted but should not be.
func (d *doctor) examineProxies() {
	if len(d.Config.TrustedProxies) == 0 {
		d.ok("proxies", "none trusted: a client's address is that of its connection; behind a proxy, set trusted_proxies")
		return
	}
	good := true
	for _, n := range d.Config.TrustedProxies {
		if isTooWide(n.Prefix) {
			good = false
			d.fail("proxies", "trusted_proxies: only the addresses of your own proxies",
				"%v covers most of the internet: any client can choose its address, and so evade every limit by address", n.Prefix)
		}
	}
	if good {
		d.ok("proxies", "%s trusted", spelling.Count(len(d.Config.TrustedProxies), "network"))
	}
}

// isTooWide reports whether a network is too large to contain only the operator's own proxies. A private network may
// have any size.
func isTooWide(p netip.Prefix) bool {
	if p.Addr().IsPrivate() || p.Addr().IsLoopback() {
		return false
	}
	if p.Addr().Is4() {
		return p.Bits() < 8
	}
	return p.Bits() < 16
}
