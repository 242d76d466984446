package gateway

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
)

// A pipeNet is an in-memory network, for tests in a bubble with virtual time.
type pipeNet struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeNet() *pipeNet {
	return &pipeNet{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (n *pipeNet) Accept() (net.Conn, error) {
	select {
	case conn := <-n.conns:
		return conn, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *pipeNet) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

func (n *pipeNet) Addr() net.Addr { return pipeAddr }

var pipeAddr = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}

func (n *pipeNet) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case n.conns <- addressedConn{there}:
		return addressedConn{here}, nil
	case <-n.closed:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type addressedConn struct{ net.Conn }

func (addressedConn) RemoteAddr() net.Addr { return pipeAddr }
func (addressedConn) LocalAddr() net.Addr  { return pipeAddr }

// A memoryGateway is a gateway and its upstream on in-memory networks.
type memoryGateway struct {
	*testGateway
	front *pipeNet
}

// inBubble runs a test with a gateway in front of a handler, in virtual time.
func inBubble(t *testing.T, set setting, handler http.HandlerFunc, test func(t *testing.T, b *memoryGateway)) {
	synctest.Test(t, func(t *testing.T) {
		back := newPipeNet()
		server := &http.Server{Handler: handler}
		served := make(chan error, 1)
		go func() { served <- server.Serve(back) }()
		t.Cleanup(func() {
			server.Close()
			<-served
		})
		front := newPipeNet()
		set.listen, set.dial = front, back.dial
		if set.options.Upstreams == nil {
			set.options.Upstreams = upstreams("http://upstream.test")
		}
		test(t, &memoryGateway{start(t, set), front})
	})
}

// client returns a client that dials the gateway.
func (b *memoryGateway) client() *http.Client {
	transport := &http.Transport{DialContext: b.front.dial}
	b.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (b *memoryGateway) dialRaw() (net.Conn, *bufio.Reader) {
	b.t.Helper()
	conn, err := b.front.dial(context.Background(), "", "")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	return conn, bufio.NewReader(conn)
}
