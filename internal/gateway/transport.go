package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/penstock-io/penstock/internal/http1"
	"github.com/penstock-io/penstock/internal/listener"
)

// newTransport returns the transport to the servers of an upstream.
func (g *Gateway) newTransport(u *Upstream, h2c bool) (*http.Transport, error) {
	roots, err := listener.ReadRoots(u.RootCAs)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: g.timeouts.Dial, KeepAlive: 30 * time.Second}
	t := &http.Transport{
		DialContext:            (&boundedDialer{Dialer: dialer, most: g.maxDials()}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    g.timeouts.Dial,
		ResponseHeaderTimeout:  defaulted(u.ResponseHeader, g.timeouts.ResponseHeader),
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        60 * time.Second,
		MaxIdleConnsPerHost:    1024, // keeps as many connections as were needed at a time
		MaxConnsPerHost:        g.limits.MaxUpstream,
		MaxResponseHeaderBytes: 256 << 10,
		DisableCompression:     true, // encodings are between client and server
		Protocols:              new(http.Protocols),
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second},
	}
	t.Protocols.SetHTTP1(!h2c)
	t.Protocols.SetHTTP2(!h2c)
	t.Protocols.SetUnencryptedHTTP2(h2c)
	return t, nil
}

// addClients gives the servers without TLS a client, with the bounds of the transport. Names that are not ASCII are
// left to the transport, which encodes them.
func (r *route) addClients() {
	t := r.transport
	for _, s := range r.servers {
		if s.address.Scheme != "http" || !http1.IsHost(s.address.Host) {
			continue
		}
		address := net.JoinHostPort(s.address.Hostname(), cmp.Or(s.address.Port(), "80"))
		s.client = http1.NewClient(http1.ClientOptions{
			Dial:           func(ctx context.Context) (net.Conn, error) { return t.DialContext(ctx, "tcp", address) },
			ResponseHeader: t.ResponseHeaderTimeout, MaxHeaderBytes: t.MaxResponseHeaderBytes, MaxIdle: t.MaxIdleConnsPerHost, Idle: t.IdleConnTimeout,
		})
	}
}

// closeIdle closes the connections to the servers that are not in use.
func (r *route) closeIdle() {
	r.transport.CloseIdleConnections()
	for _, s := range r.servers {
		if s.client != nil {
			s.client.CloseIdle()
		}
	}
}

// maxDials returns how many connections to one server may be dialled at a time. A server that does not answer holds a
// dial for its whole timeout, and must not take the files that others need.
func (g *Gateway) maxDials() int {
	const most, least = 128, 8
	if n := g.limits.MaxConnections; n > 0 {
		return min(max(n/4, least), most)
	}
	return most
}

// A boundedDialer limits the concurrent dials to one address. Further dials wait their turn, for at most the timeout
// of a dial.
type boundedDialer struct {
	*net.Dialer
	most  int
	slots sync.Map // of chan struct{}, by address
}

func (d *boundedDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	found, ok := d.slots.Load(address)
	if !ok {
		found, _ = d.slots.LoadOrStore(address, make(chan struct{}, d.most))
	}
	slots := found.(chan struct{})
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("%d connections to %s are being established: %w", d.most, address, ctx.Err())}
	}
	defer func() { <-slots }()
	return d.Dialer.DialContext(ctx, network, address)
}
