package gateway

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
)

// BenchmarkRequest sends requests over loopback: to a bare proxy, to the gateway with limits that allow, and with a
// limit that denies. Client and server are in the same process, so all numbers include them.
func BenchmarkRequest(b *testing.B) {
	server := newServer(b, func(rw http.ResponseWriter, req *http.Request) { io.WriteString(rw, "hello") })
	address, err := url.Parse(server)
	if err != nil {
		b.Fatal(err)
	}
	bare := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(address)
			r.SetXForwarded()
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true},
	})
	b.Cleanup(bare.Close)
	run := func(name, url string, status int) {
		b.Run(name, func(b *testing.B) {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}
			defer client.CloseIdleConnections()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					res, err := client.Get(url)
					if err != nil {
						b.Error(err)
						return
					}
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
					if res.StatusCode != status {
						b.Errorf("status %d", res.StatusCode)
						return
					}
				}
			})
		})
	}
	run("bare proxy", bare.URL, http.StatusOK)
	for _, test := range []struct {
		name, limit string
		status      int
	}{{"allowed", "1000000000/1h", http.StatusOK}, {"denied", "0/1h", http.StatusTooManyRequests}} {
		s := newTestGateway(b, setting{
			rules:   "rules: [{name: all, key: [ip], limits: [" + test.limit + "]}]",
			options: Options{Upstreams: upstreams(server)},
			quiet:   true,
		})
		gateway := httptest.NewServer(s.Handler())
		b.Cleanup(gateway.Close)
		run(test.name, gateway.URL, test.status)
	}
}

// BenchmarkDenied compares a denial with the least that net/http can answer with. The client does almost nothing: the
// allocations are the server's.
func BenchmarkDenied(b *testing.B) {
	bare := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		rw.Header().Set("Content-Type", "application/problem+json")
		rw.Header().Set("Retry-After", "60")
		rw.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(rw, `{"title":"Quota exceeded","status":429}`)
	}))
	b.Cleanup(bare.Close)
	s := start(b, setting{
		rules:   "rules: [{name: per-ip, key: [ip], limits: [{rate: 1/1h, algorithm: token_bucket}]}]",
		options: Options{Upstreams: upstreams("http://127.0.0.1:1")},
		quiet:   true,
	})
	for _, test := range []struct{ name, address string }{
		{"bare handler", bare.Listener.Addr().String()},
		{"gateway", s.listen.String()},
	} {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				conn, err := net.Dial("tcp", test.address)
				if err != nil {
					b.Error(err)
					return
				}
				defer conn.Close()
				answer := make([]byte, 4096)
				for pb.Next() {
					io.WriteString(conn, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
					n := 0
					for !bytes.HasSuffix(bytes.TrimSpace(answer[:n]), []byte("}")) {
						m, err := conn.Read(answer[n:])
						if n += m; err != nil {
							b.Error(err)
							return
						}
					}
				}
			})
		})
	}
}
