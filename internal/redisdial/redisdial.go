// Package redisdial makes the clients of Redis: through TCP, TLS or a Unix socket, and with a guard against what a
// server may send.
package redisdial

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// NewClient returns a client whose connections are guarded: a server that sends what it must not loses the connection
// and nothing more. Without a DialCtxFn the client connects to InitAddress, which may be a Unix socket.
//
// It is the only place that makes clients.
func NewClient(option rueidis.ClientOption, l Limits) (rueidis.Client, error) {
	dial := option.DialCtxFn
	if dial == nil {
		dial = dialerOf(option.InitAddress)
	}
	option.DialCtxFn = func(ctx context.Context, address string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		c, err := dial(ctx, address, d, t)
		if err != nil {
			return nil, err
		}
		return Guard(c, l), nil
	}
	option.ClusterOption.MaxMovedRedirections = maxRedirections
	return rueidis.NewClient(option)
}

// maxRedirections is how often a cluster may send a command to another server. Servers that disagree would send it in
// circles.
const maxRedirections = 16

// UnixPath returns the path in an address of the form unix:///path/to/socket.
func UnixPath(address string) (path string, ok bool) {
	path, ok = strings.CutPrefix(address, "unix://")
	return path, ok
}

// dialerOf returns how to connect to a server. Only the configured address may be a Unix socket: a cluster that sends
// its clients to others must not make them write to the sockets of this machine.
func dialerOf(configured []string) func(ctx context.Context, address string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
	return func(ctx context.Context, address string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		if path, ok := UnixPath(address); ok && slices.Contains(configured, address) {
			return d.DialContext(ctx, "unix", path)
		}
		if t != nil {
			secure := tls.Dialer{NetDialer: d, Config: t}
			return secure.DialContext(ctx, "tcp", address)
		}
		return d.DialContext(ctx, "tcp", address)
	}
}
