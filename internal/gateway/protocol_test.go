package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

func TestHTTP2(t *testing.T) {
	server := newServer(t, func(rw http.ResponseWriter, req *http.Request) {
		io.WriteString(rw, req.Header.Get("X-Forwarded-Proto"))
	})
	pair := newPair(t)
	encrypted := start(t, setting{rules: everyCall, options: Options{Upstreams: upstreams(server), TLS: pair.files(t)}})
	plain := start(t, setting{rules: everyCall, options: Options{Upstreams: upstreams(server), H2C: true}})

	overTLS := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pair.pool}}
	h2c := &http.Transport{Protocols: new(http.Protocols)}
	h2c.Protocols.SetUnencryptedHTTP2(true)
	for _, test := range []struct {
		by        *testGateway
		transport *http.Transport
		scheme    string
	}{{encrypted, overTLS, "https"}, {plain, h2c, "http"}} {
		t.Cleanup(test.transport.CloseIdleConnections)
		got := get(t, &http.Client{Transport: test.transport}, test.by.url("/"))
		if got.ProtoMajor != 2 || got.body != test.scheme || got.Header.Get("RateLimit") == "" {
			t.Errorf("%s: %s %q %v", test.scheme, got.Proto, got.body, got.Header)
		}
	}
}

// gRPC needs all of HTTP/2 at once: streams both ways, trailers, no buffering.
func TestGRPCPassesThrough(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service, server := health.NewServer(), grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, service)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	s := start(t, setting{rules: everyCall, options: Options{Upstreams: upstreams("h2c://" + l.Addr().String()), H2C: true}})

	conn, err := grpc.NewClient(s.listen.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := grpc_health_v1.NewHealthClient(conn)
	if _, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "unknown"}); err == nil || !strings.Contains(err.Error(), "NotFound") {
		t.Errorf("the status in the trailers: %v", err)
	}
	watch, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []grpc_health_v1.HealthCheckResponse_ServingStatus{grpc_health_v1.HealthCheckResponse_SERVING, grpc_health_v1.HealthCheckResponse_NOT_SERVING} {
		got, err := watch.Recv()
		if err != nil || got.Status != want {
			t.Fatalf("%v, %v; want %v", got, err, want)
		}
		service.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	}
}

// echo implements WebSockets as far as a proxy cares: it switches protocols and echoes lines.
func echo(rw http.ResponseWriter, _ *http.Request) {
	conn, buffered, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	io.Copy(conn, buffered)
}

const upgradeToWebSocket = "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n"

func upgrade(t testing.TB, conn net.Conn, from *bufio.Reader) {
	t.Helper()
	io.WriteString(conn, upgradeToWebSocket)
	res, err := http.ReadResponse(from, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v; want 101", res, err)
	}
}

func TestWebSocket(t *testing.T) {
	s := start(t, setting{rules: everyCall, options: Options{Upstreams: upstreams(newServer(t, echo))}})
	conn, from := s.dialRaw()
	upgrade(t, conn, from)
	for _, line := range []string{"one\n", "two\n"} {
		io.WriteString(conn, line)
		if got, err := from.ReadString('\n'); got != line {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	if n := len(s.counted()); n != 1 {
		t.Errorf("counted %d times", n)
	}
}

// A connection switched to HTTP/2 would carry any number of requests past the limiter. A WebSocket may be idle for a
// while, as long as one side sends something now and then.
func TestSilentWebSocketIsClosed(t *testing.T) {
	const rest = 10 * time.Minute
	for _, speaks := range []string{"client", "server"} {
		serve := func(rw http.ResponseWriter, req *http.Request) {
			conn, _, err := rw.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			if speaks == "server" {
				for range 3 {
					time.Sleep(rest - time.Second)
					io.WriteString(conn, "x")
				}
			}
			io.Copy(io.Discard, conn)
		}
		inBubble(t, setting{}, serve, func(t *testing.T, b *memoryGateway) {
			conn, from := b.dialRaw()
			io.WriteString(conn, upgradeToWebSocket)
			if res, err := http.ReadResponse(from, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("%v, %v", res, err)
			}
			begun := time.Now()
			if speaks == "client" {
				for range 3 {
					time.Sleep(rest - time.Second)
					io.WriteString(conn, "x")
				}
			}
			io.Copy(io.Discard, from)
			if took, want := time.Since(begun), 4*rest-3*time.Second; took != want {
				t.Errorf("the %s speaks: closed after %v, want %v", speaks, took, want)
			}
		})
	}
}

func TestOnlyWebSocketsAreUpgraded(t *testing.T) {
	server := newServer(t, func(rw http.ResponseWriter, req *http.Request) {
		fmt.Fprint(rw, req.Header["Upgrade"], req.Header["Http2-Settings"])
	})
	s := start(t, setting{options: Options{Upstreams: upstreams(server)}})
	client := newClient(t)
	for _, protocol := range []string{"h2c", "HTTP/2.0", "TLS/1.0", "websocket, h2c", "IRC/6.9"} {
		got := get(t, client, s.url("/"), "Connection: Upgrade, HTTP2-Settings", "Upgrade: "+protocol, "Http2-Settings: AAMAAABkAAQAAP__")
		if got.StatusCode != http.StatusOK || got.body != "[] []" {
			t.Errorf("%s: %d, the server was asked for %s", protocol, got.StatusCode, got.body)
		}
	}
}

func TestStreamsBothWays(t *testing.T) {
	server := newServer(t, func(rw http.ResponseWriter, req *http.Request) {
		http.NewResponseController(rw).EnableFullDuplex()
		rw.Header().Set("Content-Type", "text/event-stream")
		http.NewResponseController(rw).Flush()
		for from := bufio.NewReader(req.Body); ; {
			line, err := from.ReadString('\n')
			if err != nil {
				return
			}
			fmt.Fprintf(rw, "data: %s\n", line)
			http.NewResponseController(rw).Flush()
		}
	})
	s := start(t, setting{rules: everyCall, options: Options{Upstreams: upstreams(server), H2C: true, Limits: Limits{MaxBody: -1}}})
	h2c := &http.Transport{Protocols: new(http.Protocols)}
	h2c.Protocols.SetUnencryptedHTTP2(true)
	defer h2c.CloseIdleConnections()

	body, write := io.Pipe()
	res, err := h2c.RoundTrip(newRequest(t, "POST", s.url("/"), body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	from := bufio.NewReader(res.Body)
	for _, line := range []string{"one\n", "two\n"} { // each is answered before the next is sent
		io.WriteString(write, line)
		got, err := from.ReadString('\n')
		from.ReadString('\n')
		if got != "data: "+line {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	write.Close()
	if rest, err := io.ReadAll(from); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v after the end", rest, err)
	}
}

func TestTrailers(t *testing.T) {
	server := newServer(t, func(rw http.ResponseWriter, req *http.Request) {
		io.Copy(io.Discard, req.Body)
		rw.Header().Set("Trailer", "X-Announced")
		io.WriteString(rw, "body")
		rw.Header().Set("X-Announced", "1")
		rw.Header().Set(http.TrailerPrefix+"X-Surprise", fmt.Sprint(len(req.Trailer)))
	})
	s := start(t, setting{rules: everyCall, options: Options{Upstreams: upstreams(server)}})
	req := newRequest(t, "POST", s.url("/"), io.MultiReader(strings.NewReader("x")))
	req.Trailer = http.Header{"X-Forwarded-For": {"192.0.2.1"}}
	got := do(t, newClient(t), req)
	if got.Trailer.Get("X-Announced") != "1" || got.Trailer.Get("X-Surprise") != "0" {
		t.Errorf("trailers %v; the request's must not arrive", got.Trailer)
	}
}

// A denied client must not be asked for its body. For other clients, the server decides.
func TestExpectContinue(t *testing.T) {
	server := newServer(t, func(rw http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/refuse" {
			rw.WriteHeader(http.StatusForbidden)
			return
		}
		io.Copy(rw, req.Body)
	})
	s := start(t, setting{
		rules:   `rules: [{name: closed, match: {path: /closed}, key: [], limits: [0/1m]}]`,
		options: Options{Upstreams: upstreams(server)},
	})
	for _, test := range []struct {
		path   string
		status []int
	}{
		{"/closed", []int{429}},
		{"/open", []int{100, 200}},
	} {
		conn, from := s.dialRaw()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n", test.path)
		for _, want := range test.status {
			res, err := http.ReadResponse(from, nil)
			if err != nil || res.StatusCode != want {
				t.Fatalf("%s: %v, %v; want %d", test.path, res, err, want)
			}
			if want == 100 {
				io.WriteString(conn, "body")
				continue
			}
			if body, _ := io.ReadAll(res.Body); want == 200 && string(body) != "body" {
				t.Errorf("body %q", body)
			}
		}
	}
}

// The body may be requested before the server's 100 Continue is forwarded.
func TestContinuesOnce(t *testing.T) {
	address := newServer(t, func(rw http.ResponseWriter, req *http.Request) {
		io.Copy(io.Discard, req.Body) // makes net/http send it
		w := &pacedWriter{ResponseWriter: rw, exchange: new(exchange)}
		w.WriteHeader(http.StatusContinue)
		w.WriteHeader(http.StatusNoContent)
	})
	req := newRequest(t, "POST", address, strings.NewReader("body"), "Expect: 100-continue")
	said := 0
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(int, textproto.MIMEHeader) error { said++; return nil },
	}))
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: patience}}
	defer client.CloseIdleConnections()
	if got := do(t, client, req); got.StatusCode != http.StatusNoContent || said != 1 {
		t.Errorf("status %d, told to continue %d times", got.StatusCode, said)
	}
}

// Informational responses are forwarded, and the gateway's own headers stay on the final response.
func TestEarlyHints(t *testing.T) {
	server := newServer(t, func(rw http.ResponseWriter, req *http.Request) {
		rw.Header().Set("Link", "</a.css>; rel=preload")
		rw.WriteHeader(http.StatusEarlyHints)
		io.WriteString(rw, "body")
	})
	s := start(t, setting{rules: everyCall, options: Options{Upstreams: upstreams(server)}})
	s.draining.Store(true)
	conn, from := s.dialRaw()
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	head, err := textproto.NewReader(from).ReadLine()
	if err != nil || !strings.HasPrefix(head, "HTTP/1.1 103") {
		t.Fatalf("%q, %v", head, err)
	}
	hints, err := textproto.NewReader(from).ReadMIMEHeader()
	if err != nil || hints.Get("Link") == "" {
		t.Fatalf("%v, %v", hints, err)
	}
	res, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 200 || res.Header.Get("RateLimit") == "" || res.Header.Get("X-Request-Id") == "" || !res.Close {
		t.Errorf("%d %v, closes %t", res.StatusCode, res.Header, res.Close)
	}
}
