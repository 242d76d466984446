// Package redisdial lets rueidis connect to Redis through a Unix socket.
package redisdial

import (
	"context"
	"crypto/tls"
	"net"
	"strings"

	"github.com/redis/rueidis"
)

// UnixPath returns the path in an address of the form unix:///path/to/socket.
func UnixPath(address string) (path string, ok bool) {
	path, ok = strings.CutPrefix(address, "unix://")
	return path, ok
}

// Unix makes a client use a Unix socket if its address is that of one.
func Unix(option *rueidis.ClientOption) {
	if len(option.InitAddress) != 1 {
		return
	}
	path, ok := UnixPath(option.InitAddress[0])
	if !ok {
		return
	}
	option.DialCtxFn = func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return d.DialContext(ctx, "unix", path)
	}
}
