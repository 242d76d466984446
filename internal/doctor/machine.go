package doctor

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"

	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/server"
	"github.com/penstock-io/penstock/internal/spelling"
)

// examineMachine looks at what the server needs of the machine it runs on.
func (d *doctor) examineMachine() {
	d.examineDataDir()
	d.examineOpenFiles()
	d.examineListeners()
	d.examineProxies()
}

func (d *doctor) examineDataDir() {
	dir, r := d.Config.DataDir, &d.report
	file, err := os.CreateTemp(dir, ".doctor-*")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.look("data_dir", "make it, or see that the server's user may", "%s does not exist; serve makes it", dir)
		return
	case err != nil:
		r.wrong("data_dir", "give the server's user the right to write there, or name another data_dir",
			"%s cannot be written to: %v; without it no rules are kept for a start while their origin is down", dir, err)
		return
	}
	_, err = file.WriteString("penstock doctor")
	err = errors.Join(err, file.Close(), os.Remove(file.Name()))
	if err != nil {
		r.wrong("data_dir", "see whether the disk is full", "%s cannot be written to: %v", dir, err)
		return
	}
	r.well("data_dir", "%s can be written to", dir)
}

// A server needs a file for each connection, and for each of the upstream's.
const fewFiles = 4096

func (d *doctor) examineOpenFiles() {
	limit, known := server.OpenFiles()
	switch {
	case !known:
		d.report.unseen("open files", "see that a process may have some thousand", "this system does not tell how many files may be open")
	case limit < fewFiles:
		d.report.look("open files", "ulimit -n 65536, or LimitNOFILE=65536 of the service",
			"%d may be open at a time: each call under way needs one or two, and connections beyond that wait", limit)
	default:
		d.report.well("open files", "%d may be open at a time", limit)
	}
}

// examineListeners looks for listeners that other machines can reach.
func (d *doctor) examineListeners() {
	c, r := d.Config, &d.report
	open := false
	for _, l := range []struct{ name, address, fix, what string }{
		{"gateway", c.Listen.Gateway, "gateway.tls, or something before it that ends TLS", "what passes it can be read on the way"},
		{"http", c.Listen.HTTP, "listen.http: 127.0.0.1:8090, or a network that only callers are in", "whoever reaches it can use up anybody's limits"},
		{"grpc", c.Listen.GRPC, "grpc.tls, listen.grpc: 127.0.0.1:8081, or a network that only callers are in", "whoever reaches it can use up anybody's limits"},
	} {
		if l.address == "" || config.IsLoopback(l.address) || l.name == "gateway" && c.Gateway.TLS.Certificate != "" || l.name == "grpc" && c.GRPC.TLS.Certificate != "" {
			continue
		}
		open = true
		r.look("listeners", l.fix, "listen.%s at %s can be reached from other machines without TLS: %s", l.name, l.address, l.what)
	}
	if !open {
		r.well("listeners", "none can be reached from other machines without TLS")
	}
}

// examineProxies looks for proxies that are believed and should not be.
func (d *doctor) examineProxies() {
	r := &d.report
	if len(d.Config.TrustedProxies) == 0 {
		r.well("proxies", "none is believed: a client's address is that of its connection; behind a proxy, name it in trusted_proxies")
		return
	}
	good := true
	for _, n := range d.Config.TrustedProxies {
		if wide(n.Prefix) {
			good = false
			r.wrong("proxies", "trusted_proxies: only the addresses of your own proxies",
				"%v is nearly everybody: any client can say what its address is, and has as many limits as it likes", n.Prefix)
		}
	}
	if good {
		r.well("proxies", "%s believed", spelling.Count(len(d.Config.TrustedProxies), "network"))
	}
}

// wide tells networks that nobody's own proxies fill. A private network may be as large as it is.
func wide(p netip.Prefix) bool {
	if p.Addr().IsPrivate() || p.Addr().IsLoopback() {
		return false
	}
	if p.Addr().Is4() {
		return p.Bits() < 8
	}
	return p.Bits() < 16
}
