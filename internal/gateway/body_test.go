package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// oneRequest denies every request after the first.
const oneRequest = "rules: [{name: one, key: [], limits: [1/1h]}]"

// A response that is sent before the request's body has arrived closes the connection, unless the rest arrives soon.
func TestUnsentBodies(t *testing.T) {
	post := func(path, headers, body string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n" + body
	}
	const (
		rest = 5 * time.Second  // for the rest of a body that is not read
		body = 30 * time.Second // for the next part of a body that is read
		idle = 60 * time.Second // between requests
	)
	for _, test := range []struct {
		name, sent string
		status     int
		after      time.Duration // until the response
		closed     time.Duration // until the connection is closed
	}{
		{"denied", post("/", "Content-Length: 9\r\n", ""), 429, rest, rest},
		{"denied, half a body", post("/", "Content-Length: 9\r\n", "half"), 429, rest, rest},
		{"denied, chunked", post("/", "Transfer-Encoding: chunked\r\n", ""), 429, rest, rest},
		{"denied, half a chunk", post("/", "Transfer-Encoding: chunked\r\n", "5\r\nha"), 429, rest, rest},
		{"denied, expects to continue", post("/", "Content-Length: 9\r\nExpect: 100-continue\r\n", ""), 429, 0, 0},
		{"denied, all of the body", post("/", "Content-Length: 4\r\n", "body"), 429, 0, idle},
		{"denied, all chunks", post("/", "Transfer-Encoding: chunked\r\n", "4\r\nbody\r\n0\r\n\r\n"), 429, 0, idle},
		{"denied, 64 KiB", post("/", "Content-Length: 65536\r\n", strings.Repeat("x", 65536)), 429, 0, idle},
		{"denied, large", post("/", "Content-Length: 65537\r\n", ""), 429, 0, rest},
		{"denied, 200 KiB", post("/", "Content-Length: 200000\r\n", strings.Repeat("x", 200000)), 429, 0, 0},
		{"denied, many chunks", post("/", "Transfer-Encoding: chunked\r\n", strings.Repeat("1000\r\n"+strings.Repeat("x", 0x1000)+"\r\n", 17)), 429, 0, rest},
		{"invalid path", post("/%zz%2f", "Content-Length: 9\r\n", ""), 400, 0, 0}, // by net/http, which closes
		{"invalid query", post("/?%", "Content-Length: 9\r\n", ""), 400, rest, rest},
		{"too large", post("/", "Content-Length: 99999999\r\n", ""), 413, 0, 0},
		{"forwarded, half a body", post("/read", "Content-Length: 9\r\n", "half"), 408, body, body},
		{"forwarded, expects to continue", post("/read", "Content-Length: 9\r\nExpect: 100-continue\r\n", ""), 408, body, body},
		{"forwarded, nobody reads it", post("/ignore", "Content-Length: 9\r\n", ""), 200, 0, rest},
		{"forwarded, all of the body", post("/read", "Content-Length: 4\r\n", "body"), 200, 0, idle},
	} {
		t.Run(test.name, func(t *testing.T) {
			answer := func(rw http.ResponseWriter, req *http.Request) {
				switch req.URL.Path {
				case "/read":
					io.Copy(io.Discard, req.Body)
				case "/ignore":
					conn, _, err := rw.(http.Hijacker).Hijack()
					if err != nil {
						t.Error(err)
						return
					}
					defer conn.Close()
					io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			}
			set := setting{}
			if strings.HasPrefix(test.name, "denied") {
				set.rules = oneRequest
			}
			inBubble(t, set, answer, func(t *testing.T, b *memoryGateway) {
				conn, from := b.dialRaw()
				if set.rules != "" {
					if got := get(t, b.client(), "http://gateway.test/first"); got.StatusCode != 200 {
						t.Fatalf("the first request: status %d", got.StatusCode)
					}
				}
				begun := time.Now()
				go io.WriteString(conn, test.sent)
				res, err := http.ReadResponse(from, nil)
				for err == nil && res.StatusCode == http.StatusContinue {
					res, err = http.ReadResponse(from, nil)
				}
				if err != nil || res.StatusCode != test.status {
					t.Fatalf("%v, %v; want status %d", res, err, test.status)
				}
				if took := time.Since(begun); took < test.after || took > test.after+time.Second {
					t.Errorf("answered after %v, want %v", took, test.after)
				}
				io.Copy(io.Discard, res.Body)
				if closes := test.closed != idle; res.Close != closes {
					t.Errorf("Connection: close is %t, want %t", res.Close, closes)
				}
				if left, err := io.Copy(io.Discard, from); left > 0 || err != nil {
					t.Errorf("%d bytes after the response, %v", left, err)
				}
				if took := time.Since(begun); took < test.closed || took > test.closed+time.Second {
					t.Errorf("closed after %v, want %v", took, test.closed)
				}
			})
		})
	}
}

// A client must send a body at a minimum rate, over any period as long as the grace period. Time in which the server
// does not read does not count.
func TestMinimumBodyRate(t *testing.T) {
	for _, test := range []struct {
		name   string
		length int
		piece  int           // bytes
		pause  time.Duration // after each
		server time.Duration // before it reads
		status int
	}{
		{"a byte a second", 60, 1, time.Second, 0, 408},
		{"500 bytes a second", 60_000, 500, time.Second, 0, 408},
		{"2 KiB a second", 200 << 10, 2 << 10, time.Second, 0, 200},
		{"large pieces, long pauses", 200 << 10, 40 << 10, 25 * time.Second, 0, 200},
		{"a small body within the grace period", 20, 1, time.Second, 0, 200},
		{"a slow server", 200 << 10, 100 << 10, time.Second, 50 * time.Second, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			answer := func(rw http.ResponseWriter, req *http.Request) {
				time.Sleep(test.server)
				if n, err := io.Copy(io.Discard, req.Body); err == nil && int(n) != test.length {
					t.Errorf("the server got %d bytes of %d", n, test.length)
				}
			}
			inBubble(t, setting{}, answer, func(t *testing.T, b *memoryGateway) {
				conn, from := b.dialRaw()
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", test.length)
					for sent := 0; sent < test.length; sent += test.piece {
						if _, err := conn.Write(make([]byte, test.piece)); err != nil {
							return
						}
						time.Sleep(test.pause)
					}
				}()
				res, err := http.ReadResponse(from, nil)
				if err != nil || res.StatusCode != test.status || res.Close != (test.status == 408) {
					t.Errorf("%v, %v; want status %d", res, err, test.status)
				}
				conn.Close()
				<-ended
			})
		})
	}
}

// A body that no server has begun to read goes to the next server with the request.
func TestBodyOfRetriedRequest(t *testing.T) {
	server := newServer(t, func(rw http.ResponseWriter, req *http.Request) { io.Copy(rw, req.Body) })
	s := start(t, setting{options: Options{Upstreams: upstreams(closedAddress(t), closedAddress(t), server)}})
	client := newClient(t)
	for range 6 {
		got := do(t, client, newRequest(t, "POST", s.url("/"), strings.NewReader("body")))
		if got.StatusCode != http.StatusOK || got.body != "body" {
			t.Errorf("status %d, %q", got.StatusCode, got.body)
		}
	}
}

// On HTTP/2 a response without reading the body ends its stream, and the connection serves others.
func TestUnsentBodyOverHTTP2(t *testing.T) {
	inBubble(t, setting{rules: oneRequest, options: Options{H2C: true}}, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, b *memoryGateway) {
		h2c := &http.Transport{DialContext: b.front.dial, Protocols: new(http.Protocols)}
		h2c.Protocols.SetUnencryptedHTTP2(true)
		t.Cleanup(h2c.CloseIdleConnections)
		client := &http.Client{Transport: h2c}
		get(t, client, "http://gateway.test/")
		for range 300 { // more than concurrent streams
			body, unsent := io.Pipe()
			got := do(t, client, newRequest(t, "POST", "http://gateway.test/", body))
			if got.StatusCode != http.StatusTooManyRequests || !strings.Contains(got.body, "429") {
				t.Fatalf("status %d, %q", got.StatusCode, got.body)
			}
			unsent.Close()
		}
	})
}
