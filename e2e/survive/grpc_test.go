//go:build linux

package survive

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	rlsMethod   = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
	authMethod  = "/envoy.service.auth.v3.Authorization/Check"
	watchMethod = "/grpc.health.v1.Health/Watch"

	message = 1 << 20 // the largest

	// grpcMiB is what a node may hold at its highest: what grpc.max_bytes says by default, what is
	// decoded, and as much again of garbage.
	grpcMiB = 512

	noUpstream = "upstreams: [{url: 'http://127.0.0.1:9'}]\n" // nothing is sent there
)

// envoy connects a client of the rate limit service.
func (n *node) envoy() rlsv3.RateLimitServiceClient {
	n.t.Helper()
	return rlsv3.NewRateLimitServiceClient(n.dialGRPC())
}

func (n *node) dialGRPC() *grpc.ClientConn {
	n.t.Helper()
	conn, err := grpc.NewClient(n.addresses["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	return conn
}

func descriptors(values ...string) *rlsv3.RateLimitRequest {
	r := &rlsv3.RateLimitRequest{Domain: "mesh"}
	for _, v := range values {
		r.Descriptors = append(r.Descriptors, &descriptorv3.RateLimitDescriptor{Entries: []*descriptorv3.RateLimitDescriptor_Entry{{Key: "user", Value: v}}})
	}
	return r
}

// keepsDeciding asks for decisions until it is stopped. Each must come.
func (n *node) keepsDeciding() (stop func()) {
	n.t.Helper()
	client, asked, done := n.envoy(), 0, make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-done:
				if asked >= 100 {
					return
				}
			default:
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			_, err := client.ShouldRateLimit(ctx, descriptors("innocent"))
			cancel()
			if err != nil {
				n.t.Errorf("request %d of an innocent client: %v", asked, err)
				return
			}
			asked++
		}
	})
	return func() {
		close(done)
		all.Wait()
		n.t.Logf("%d requests of an innocent client were decided", asked)
	}
}

// attacker is an HTTP/2 client with a connection from an address of its own.
func attacker(t *testing.T, source string) *http.Transport {
	tr := &http.Transport{
		Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{StrictMaxConcurrentRequests: true},
		DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}, Timeout: patience}).DialContext,
	}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// prefixed is a message as gRPC sends it.
func prefixed(length int, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(length)), data...)
}

// An unfinishedBody is sent in pieces, and never ends.
type unfinishedBody struct {
	data  []byte
	piece int
	sent  func()
	ended <-chan struct{}
}

func (u *unfinishedBody) Read(p []byte) (int, error) {
	if len(u.data) == 0 {
		u.sent()
		<-u.ended
		return 0, io.ErrClosedPipe
	}
	n := copy(p[:min(len(p), u.piece)], u.data)
	u.data = u.data[n:]
	return n, nil
}

// post calls a gRPC method. It returns when the server has answered or the connection is closed.
func post(tr http.RoundTripper, address, method string, body io.Reader) (answered bool) {
	r, err := http.NewRequest("POST", "http://"+address+method, body)
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	res, err := tr.RoundTrip(r)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err == nil
}

// Messages that are announced and never end hold no more memory than all of them may, and nobody else
// is held up, not even at the same address: the largest connection of the largest client is closed.
func TestUnfinishedMessages(t *testing.T) {
	t.Parallel()
	large := prefixed(message, make([]byte, message-1))
	type attack struct {
		name, source, method        string
		conns, streams, size, piece int
	}
	attacks := []attack{
		{"large", stranger, rlsMethod, 10, 100, len(large), len(large)},
		{"watch", "127.0.0.1", watchMethod, 10, 100, len(large), len(large)}, // has no deadline
	}
	if longer > 1 {
		attacks = append(attacks, attack{"in small pieces", stranger, authMethod, 50, 100, 16 << 10, 1}, attack{"hardly begun", stranger, rlsMethod, 300, 100, 1, 1})
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			n := start(t, setup{config: noUpstream})
			stop := n.keepsDeciding()
			ended := make(chan struct{})
			var begun, over sync.WaitGroup
			for range a.conns {
				tr := attacker(t, a.source)
				for range a.streams {
					begun.Add(1)
					sent := sync.OnceFunc(begun.Done)
					over.Go(func() {
						defer sent()
						post(tr, n.addresses["grpc"], a.method, &unfinishedBody{large[:a.size], a.piece, sent, ended})
					})
				}
			}
			begun.Wait()
			stop()
			n.isWell(grpcMiB)
			close(ended)
			n.process.Kill()
			over.Wait()
		})
	}
}

// What is small on the wire must not be large in memory: 1 MiB of empty descriptors is 70 MiB when it is
// decoded.
func TestMessagesThatGrow(t *testing.T) {
	t.Parallel()
	n := start(t, setup{config: noUpstream})
	stop := n.keepsDeciding()
	empty := prefixed(message, bytes.Repeat([]byte{2<<3 | 2, 0}, message/2))
	var answered atomic.Int64
	var all sync.WaitGroup
	for range 3 {
		tr := attacker(t, stranger)
		for range 100 {
			all.Go(func() {
				if post(tr, n.addresses["grpc"], rlsMethod, bytes.NewReader(empty)) {
					answered.Add(1)
				}
			})
		}
	}
	all.Wait()
	stop()
	t.Logf("%d were answered", answered.Load())
	n.isWell(grpcMiB)
}

// Envoy sends the requests of a worker over one connection.
func TestManyRequestsOverOneConnection(t *testing.T) {
	t.Parallel()
	const requests = 1000
	n := start(t, setup{config: noUpstream, rules: "rules: [{name: all, key: [], match: {domain: mesh}, " + counted + "}]"})
	client := n.envoy()
	var allowed atomic.Int64
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			r, err := client.ShouldRateLimit(ctx, descriptors(fmt.Sprint("user ", i)))
			if err != nil {
				t.Error(err)
			} else if r.OverallCode == rlsv3.RateLimitResponse_OK {
				allowed.Add(1)
			}
		})
	}
	all.Wait()
	r, err := client.ShouldRateLimit(t.Context(), descriptors("last"))
	if err != nil || allowed.Load() != requests {
		t.Fatalf("%d of %d requests were allowed; %v", allowed.Load(), requests, err)
	}
	if s := r.Statuses[0]; s.CurrentLimit.GetRequestsPerUnit()-s.LimitRemaining != requests+1 {
		t.Errorf("not all of %d requests were counted: %v", requests+1, s)
	}
}

// No request of a client is too large to be decided about: Envoy lets those pass that Penstock refuses.
func TestLargestRequestsAreDecided(t *testing.T) {
	t.Parallel()
	const requests = 200
	n := start(t, setup{config: noUpstream, rules: `
attributes: {user: {header: X-User}}
rules:
  - {name: per-user, key: [user], limits: [{rate: 100/year, algorithm: fixed_window}]}
  - {name: mesh, match: {domain: mesh}, key: [user], limits: [{rate: 100/year, algorithm: fixed_window}]}
`})
	body := make([]byte, message-1000)
	conn := n.dialGRPC()
	var allowed, denied atomic.Int64
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			r, err := authv3.NewAuthorizationClient(conn).Check(ctx, &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
				Source: &authv3.AttributeContext_Peer{Address: socketAddress("192.0.2.1")},
				Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
					Method: "POST", Host: "a", Path: "/", Headers: map[string]string{"x-user": "u"}, RawBody: body,
				}},
			}})
			switch {
			case err != nil:
				t.Error(err)
			case r.Status.Code == int32(codes.OK):
				allowed.Add(1)
			default:
				denied.Add(1)
			}
		})
	}
	all.Wait()
	if allowed.Load() != 100 || denied.Load() != requests-100 {
		t.Errorf("%d of %d requests were allowed, %d denied, want 100 and %d", allowed.Load(), requests, denied.Load(), requests-100)
	}
	long := descriptors(strings.Repeat("u", message-1000)) // which is counted, as any value is
	for i := range 101 {
		r, err := n.envoy().ShouldRateLimit(t.Context(), long)
		if err != nil || (r.OverallCode == rlsv3.RateLimitResponse_OVER_LIMIT) != (i == 100) {
			t.Fatalf("a long value, request %d: %v, %v", i+1, r, err)
		}
	}
	n.isWell(grpcMiB)
}

func socketAddress(ip string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: ip}}}
}
