package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/racetest"
)

// A rawServer answers each request with the script that its header X-Script names, and keeps what it got.
type rawServer struct {
	net.Listener
	scripts  []string // one that ends with hangUp closes the connection
	mu       sync.Mutex
	requests []string // with a script
}

const (
	hangUp   = "<closed>"
	okScript = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\nConnection: keep-alive\r\n\r\nok"
)

func newRawServer(t *testing.T, scripts []string) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{Listener: l, scripts: scripts}
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			ended.Go(func() {
				defer conn.Close()
				s.serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		ended.Wait()
	})
	return s
}

func (s *rawServer) url() string { return "http://" + s.Addr().String() }

var scriptNumber = regexp.MustCompile(`\r\nX-Script: ([0-9]+)\r\n`)

func (s *rawServer) serve(conn net.Conn) {
	for from := bufio.NewReader(conn); ; {
		var request strings.Builder
		for line := ""; line != "\r\n"; {
			var err error
			if line, err = from.ReadString('\n'); err != nil {
				return
			}
			request.WriteString(line)
		}
		answer := okScript
		if m := scriptNumber.FindStringSubmatch(request.String()); m != nil {
			n, _ := strconv.Atoi(m[1])
			answer = s.scripts[n]
			s.mu.Lock()
			s.requests = append(s.requests, varying.ReplaceAllString(request.String(), "…"))
			s.mu.Unlock()
		}
		answer, closes := strings.CutSuffix(answer, hangUp)
		if strings.HasPrefix(request.String(), "HEAD ") {
			answer, _, _ = strings.Cut(answer, "\r\n\r\n")
			answer += "\r\n\r\n"
		}
		io.WriteString(conn, answer)
		if closes {
			return
		}
	}
}

// received returns the requests since the last call.
func (s *rawServer) received() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Join(s.requests, "")
	s.requests = nil
	return all
}

const unlimited = "rules: [{name: all, key: [], limits: [{rate: 1000000/360d, algorithm: fixed_window}]}]"

// responseScripts are what upstream servers respond, whether they should or not.
var responseScripts = []string{
	okScript,
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\ncontent-length: 05\r\nconnection: Close\r\nX-A: 1\r\nx-a: 2\r\nkeep-alive: timeout=5\r\nDate: then\r\n\r\nhello",
	"HTTP/1.1 404 Gone fishing\r\nContent-Length: 0\r\nX-Request-Id: of the server\r\nRateLimit: \"own\";r=1\r\nVary: a\r\n\r\n",
	"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\nRetry-After: 7\r\nServer: x\r\n\r\nbusy",
	"HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n",
	"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: x\r\nContent-Type: text/plain\r\n\r\n",
	"HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nContent-Type: text/plain\r\n\r\n" + strings.Repeat("x", 100_000),
	"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + strings.Repeat("<", 5000),
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel" + hangUp,
	"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n" + strings.Repeat("x", 10_000) + hangUp,
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello" + hangUp,
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe" + hangUp,
	"HTTP/1.1 200 OK\r\n\r\nuntil the end" + hangUp,
	"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello" + hangUp,
	"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + okScript,
	"HTTP/1.1 100 Continue\r\n\r\n" + okScript,
	"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n" + hangUp,
	"HTTP/1.1 200 OK\r\nConnection: X-A\r\nX-A: b\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic\r\nUpgrade: h2c\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nPragma: no-cache\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
	"HTTP/1.1 200 OK\r\nX A: b\r\nContent-Length: 5\r\n\r\nhello" + hangUp,
	"HTTP/1.1 200 OK\r\nX-A: \xff\r\nContent-Length: 5\r\n\r\nhello",
	"rubbish" + hangUp,
	hangUp,
}

// changedScripts returns responses with random changes. The server closes the connection after each.
func changedScripts(n int) []string {
	pieces := []string{"\r", "\n", "\r\n", " ", ":", "\x00", "\x80", "0", "1", "204", "Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n", "Connection: close\r\n", "Connection: X-A\r\n", "X-A: c\r\n", "Trailer: A\r\n", "HTTP/1.1 100 Continue\r\n\r\n"}
	random := rand.New(rand.NewPCG(9, 10))
	var changed []string
	for range n {
		script := strings.TrimSuffix(responseScripts[random.IntN(8)], hangUp)
		for range 1 + random.IntN(2) {
			i := random.IntN(len(script) + 1)
			j := min(i+random.IntN(3), len(script))
			script = script[:i] + pieces[random.IntN(len(pieces))] + script[j:]
		}
		changed = append(changed, script+hangUp)
	}
	return changed
}

// randomRequests returns requests with random headers, which the fast path parses.
func randomRequests(n int) []string {
	lines := []string{
		"User-Agent: a", "user-agent:", "Accept: */*", "X-B: 1", "x-b: 2", "X-A:", "Cookie: a=b", "Cookie: c=d", "Connection: keep-alive", "Proxy-Authorization: Basic eA==", "Proxy-Authenticate: a",
		"Forwarded: for=192.0.2.1;proto=https", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 192.0.2.2", "X-Forwarded-Host: b", "X-Forwarded-Host: c", "X-Forwarded-Proto: https", "X-Real-Ip: 192.0.2.1",
		"X-Request-Id: mine", "X_Forwarded_For: 192.0.2.3", "X-HTTP-Method-Override: POST", "Authorization: Bearer a", "RateLimit: a", "Z!: z", "Range: bytes=0-1", "If-None-Match: \"x\"", "Accept-Encoding: gzip", "Upgrade-Insecure-Requests: 1",
	}
	targets := []string{"/", "/a/../b%7e?x=1&x=%26", "/a%20b?", "/%E2%82%AC/", "//a//b", "/a;b=c", "/?a&&b=", "/" + strings.Repeat("a", 2000)}
	random := rand.New(rand.NewPCG(11, 12))
	var requests []string
	for range n {
		text := []string{"GET", "HEAD", "OPTIONS", "DELETE"}[random.IntN(4)] + " " + targets[random.IntN(len(targets))] + " HTTP/1.1\r\nHost: " + []string{"a", "B.example:8080", "[::1]:80"}[random.IntN(3)] + "\r\n"
		for range random.IntN(8) {
			text += lines[random.IntN(len(lines))] + "\r\n"
		}
		requests = append(requests, text)
	}
	return requests
}

// A conversation is a client's connection.
type conversation struct {
	s    *testGateway
	conn net.Conn
	from *bufio.Reader
}

// ask sends a request. It returns the response, except that a broken one is only that.
func (c *conversation) ask(text string) string {
	if c.conn == nil {
		c.conn, c.from = c.s.dialRaw()
	}
	io.WriteString(c.conn, text)
	method, _, _ := strings.Cut(text, " ")
	answer, ok := readAnswer(c.from, method)
	if !ok {
		c.conn.Close()
		c.conn = nil
		return "broken"
	}
	return answer
}

var (
	// emptyBody and guessedType are what responses of unknown length have, or not: it depends on whether the
	// ReverseProxy flushes the head before it writes the body.
	emptyBody   = regexp.MustCompile(`(Content-Length: 0|Transfer-Encoding: chunked)\r\n`)
	guessedType = regexp.MustCompile(`Content-Type: .*; charset=utf-8\r\nTransfer-Encoding: chunked\r\n`)

	resets = regexp.MustCompile(`;t=[0-9]+`)
)

// readAnswer returns all heads as sent, and the body and the trailers of the last response.
func readAnswer(from *bufio.Reader, method string) (string, bool) {
	var earlier, head string
	for head == "" || strings.HasPrefix(head, "HTTP/1.1 1") {
		earlier, head = earlier+head, ""
		for line := ""; line != "\r\n"; head += line {
			var err error
			if line, err = from.ReadString('\n'); err != nil {
				return "", false
			}
		}
	}
	res, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader(head), from)), &http.Request{Method: method})
	if err != nil {
		return "", false
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return "", false
	}
	if len(body) == 0 {
		head = emptyBody.ReplaceAllString(head, "")
	}
	head = guessedType.ReplaceAllString(head, "Transfer-Encoding: chunked\r\n")
	head = resets.ReplaceAllString(varying.ReplaceAllString(earlier+head, "…"), "")
	return fmt.Sprintf("%s%s%v", head, body, res.Trailer), true
}

// countProxied counts the requests that the ReverseProxy sends.
type countProxied struct {
	http.RoundTripper
	n atomic.Int64
}

func (c *countProxied) RoundTrip(req *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.RoundTripper.RoundTrip(req)
}

// startForwarding starts a gateway whose requests through the ReverseProxy are counted.
func startForwarding(t *testing.T, set setting) (*testGateway, *countProxied) {
	t.Helper()
	s := newTestGateway(t, set)
	if !s.fast && !set.netHTTP {
		t.Skip("this is the run without the fast path")
	}
	proxied := &countProxied{RoundTripper: s.proxy.Transport}
	s.proxy.Transport = proxied
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.serve(l)
	return s, proxied
}

// throughProxy makes the gateway take its requests for ones that net/http has parsed.
func throughProxy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		next.ServeHTTP(rw, req.WithContext(context.WithValue(req.Context(), http.ServerContextKey, new(http.Server))))
	})
}

const warmUp = "GET /warm HTTP/1.1\r\nHost: a\r\n\r\n"

// A step is a request and the response to it.
type step struct {
	request string
	script  int
}

// take asks before, and after the step on the same connection. It returns the responses, and what the server got.
func (c *conversation) take(s step, server *rawServer) string {
	before := c.ask(warmUp)
	response := c.ask(fmt.Sprintf("%sX-Script: %d\r\n\r\n", s.request, s.script))
	return before + response + server.received() + c.ask(warmUp)
}

// Servers get the same requests and clients the same responses, whether the ReverseProxy forwards or not, and as
// without the fast path.
func TestForwardedAsByReverseProxy(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	fixed := len(responseScripts)
	scripts := append(append([]string(nil), responseScripts...), changedScripts(100)...)
	server := newRawServer(t, scripts)
	var steps []step
	for _, request := range randomRequests(150) {
		steps = append(steps, step{request, 0})
	}
	for i := range scripts {
		steps = append(steps, step{"GET / HTTP/1.1\r\nHost: a\r\n", i})
		if i < 10 { // the others have no length: see emptyBody
			steps = append(steps, step{"HEAD / HTTP/1.1\r\nHost: a\r\n", i})
		}
	}
	for name, trusted := range map[string][]netip.Prefix{"trusted": loopback, "not trusted": nil} {
		t.Run(name, func(t *testing.T) {
			set := setting{rules: unlimited, trusted: trusted, quiet: true, options: Options{Upstreams: []Upstream{{URLs: []string{server.url()}, RewriteHost: trusted != nil}}}}
			s, proxied := startForwarding(t, set)
			set.options.Around = throughProxy
			s2, all := startForwarding(t, set)
			set.netHTTP = true
			s3, _ := startForwarding(t, set)
			direct, proxy, netHTTP := conversation{s: s}, conversation{s: s2}, conversation{s: s3}
			for _, step := range steps {
				got, want := direct.take(step, server), proxy.take(step, server)
				if got != want {
					t.Errorf("%.300q, response %.300q:\ngot  %.1500q\nwant %.1500q", step.request, scripts[step.script], got, want)
				}
				if step.script >= fixed { // http.Transport may take for the next response what a server sends too much
					continue
				}
				if want := netHTTP.take(step, server); got != want {
					t.Errorf("%.300q, response %.300q:\ngot  %.1500q\nwithout the fast path %.1500q", step.request, scripts[step.script], got, want)
				}
			}
			if n, of := proxied.n.Load(), all.n.Load(); n > of/2 {
				t.Errorf("the ReverseProxy has sent %d of %d requests", n, of)
			}
		})
	}
}

// newWaitingServer returns a server that answers only /warm. Of /body it sends a part. It tells when a request has
// arrived, and when its connection is closed.
func newWaitingServer(t *testing.T) (url string, arrived, left chan struct{}) {
	arrived, left = make(chan struct{}, 1), make(chan struct{}, 1)
	url = newServer(t, func(rw http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/warm" {
			io.WriteString(rw, "ok")
			return
		}
		if req.URL.Path == "/body" {
			rw.Header().Set("Content-Length", "100000")
			io.WriteString(rw, strings.Repeat("x", 50_000))
			rw.(http.Flusher).Flush()
		}
		arrived <- struct{}{}
		<-req.Context().Done()
		left <- struct{}{}
	})
	return url, arrived, left
}

// await waits for an event.
func await(t *testing.T, what string, event <-chan struct{}) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(patience):
		t.Fatalf("timed out waiting for: %s", what)
	}
}

// A client that leaves ends the request to the server, whether it waits for the head or for the body. It pays: the
// server was reached.
func TestClientLeavesForwardedRequest(t *testing.T) {
	for _, path := range []string{"/head", "/body"} {
		t.Run(path, func(t *testing.T) {
			url, arrived, left := newWaitingServer(t)
			s, proxied := startForwarding(t, setting{rules: sized, options: Options{Upstreams: upstreams(url)}})
			c := conversation{s: s}
			if got := c.ask(warmUp); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
				t.Fatal(got)
			}
			io.WriteString(c.conn, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			await(t, "the request", arrived)
			if n := proxied.n.Load(); n != 1 {
				t.Errorf("the ReverseProxy has sent %d requests, want 1", n)
			}
			c.conn.Close()
			await(t, "the end of the request", left)
			const warm, estimate = 2, 7
			eventually(t, "all requests have ended", func() bool { return s.requests.Load() == 0 })
			if used := s.used(); path == "/head" && used != warm+estimate || path == "/body" && used <= warm+estimate {
				t.Errorf("%d are used", used)
			}
		})
	}
}

// A gateway that cannot wait any longer ends requests that do not end.
func TestDrainEndsForwardedRequest(t *testing.T) {
	url, arrived, left := newWaitingServer(t)
	s, proxied := startForwarding(t, setting{options: Options{Upstreams: upstreams(url), Timeouts: Timeouts{Linger: time.Millisecond, Drain: time.Millisecond}}})
	c := conversation{s: s}
	c.ask(warmUp)
	io.WriteString(c.conn, "GET /head HTTP/1.1\r\nHost: a\r\n\r\n")
	await(t, "the request", arrived)
	if n := proxied.n.Load(); n != 1 {
		t.Errorf("the ReverseProxy has sent %d requests, want 1", n)
	}
	s.drain()
	if err := s.wait(); err == nil || !strings.Contains(err.Error(), "1 requests had not ended") {
		t.Errorf("%v", err)
	}
	await(t, "the end of the request", left)
}

// A server that takes too long is answered for, and blamed.
func TestForwardedRequestTakesTooLong(t *testing.T) {
	for name, upstream := range map[string]Upstream{"head": {ResponseHeader: 100 * time.Millisecond}, "request": {Request: 100 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			url, arrived, left := newWaitingServer(t)
			upstream.URLs = []string{url}
			s, _ := startForwarding(t, setting{options: Options{Upstreams: []Upstream{upstream}}})
			c := conversation{s: s}
			eventually(t, "the server is quick", func() bool { return strings.HasPrefix(c.ask(warmUp), "HTTP/1.1 200 ") })
			if got := c.ask("GET /head HTTP/1.1\r\nHost: a\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 504 ") {
				t.Errorf("%.200s", got)
			}
			await(t, "the request", arrived)
			await(t, "the end of the request", left)
			if name == "head" {
				if h := s.Health(); h[0].Failures == 0 {
					t.Errorf("%+v", h)
				}
			}
		})
	}
}

// A request on an idle connection that the server closes at the same time is sent again.
func TestForwardedRequestIsSentAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var requests atomic.Int64
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // answers one request, and closes at the second
				defer conn.Close()
				from := bufio.NewReader(conn)
				for i := range 2 {
					if _, err := http.ReadRequest(from); err != nil {
						return
					}
					if requests.Add(1); i == 0 {
						io.WriteString(conn, okScript)
					}
				}
			}()
		}
	}()
	s, proxied := startForwarding(t, setting{options: Options{Upstreams: upstreams("http://" + l.Addr().String())}})
	c := conversation{s: s}
	const n = 4
	for range n {
		if got := c.ask(warmUp); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
			t.Error(got)
		}
	}
	if got, want := requests.Load(), int64(2*n-1); got != want || proxied.n.Load() != n {
		t.Errorf("the server got %d requests, want %d; %d by the ReverseProxy", got, want, proxied.n.Load())
	}
}

// Requests take turns, however they are forwarded.
func TestForwardedInTurn(t *testing.T) {
	var counts [2]atomic.Int64
	var urls []string
	for i := range counts {
		urls = append(urls, newServer(t, func(rw http.ResponseWriter, _ *http.Request) {
			counts[i].Add(1)
			io.WriteString(rw, "ok")
		}))
	}
	s, proxied := startForwarding(t, setting{options: Options{Upstreams: upstreams(urls...)}})
	c := conversation{s: s}
	for range 10 {
		c.ask(warmUp)
		c.ask("DELETE / HTTP/1.1\r\nHost: a\r\n\r\n")
		c.ask(warmUp)
	}
	const dialled, notRepeatable = 2, 10
	if a, b, n := counts[0].Load(), counts[1].Load(), proxied.n.Load(); a != 15 || b != 15 || n != dialled+notRepeatable {
		t.Errorf("%d and %d requests, %d by the ReverseProxy", a, b, n)
	}
}

// An ejected server gets nothing, although a connection to it is idle.
func TestNothingForwardedToEjectedServer(t *testing.T) {
	var counts [2]atomic.Int64
	var urls []string
	for i := range counts {
		urls = append(urls, newServer(t, func(rw http.ResponseWriter, _ *http.Request) {
			counts[i].Add(1)
			io.WriteString(rw, "ok")
		}))
	}
	s, _ := startForwarding(t, setting{options: Options{Upstreams: upstreams(urls...)}})
	c := conversation{s: s}
	for range 4 {
		c.ask(warmUp)
	}
	ejected := s.routes[0].servers[0]
	ejected.checked(false, errors.New("of the test")) // for good, unlike the back-off of failed requests
	before := counts[0].Load()
	for range 4 {
		c.ask(warmUp)
	}
	if n := counts[0].Load(); n != before || counts[1].Load() != 6 {
		t.Errorf("the ejected server got %d requests, the other one %d", n-before, counts[1].Load())
	}
}

// A host that net/http does not send as it is, is left to net/http.
func TestForwardedHost(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) { io.WriteString(rw, req.Host) })}
	go server.Serve(l)
	defer server.Close()
	s, _ := startForwarding(t, setting{options: Options{Upstreams: []Upstream{{URLs: []string{"http://[::1%25lo]:" + port}, RewriteHost: true}}}})
	c := conversation{s: s}
	first := c.ask(warmUp)
	if !strings.Contains(first, "[::1]:"+port) {
		t.Skipf("no connection by the name of an interface: %s", first)
	}
	if second := c.ask(warmUp); second != first {
		t.Errorf("got  %s\nwant %s", second, first)
	}
}

// A server whose name is not ASCII is dialled by the same name, however requests are forwarded.
func TestForwardedToNameThatIsNotASCII(t *testing.T) {
	server := newRawServer(t, nil)
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if want := "xn--bcher-kva.example:80"; address != want {
			return nil, fmt.Errorf("dialled %s, want %s", address, want)
		}
		return new(net.Dialer).DialContext(ctx, network, server.Addr().String())
	}
	s := start(t, setting{dial: dial, options: Options{Upstreams: upstreams("http://bücher.example")}})
	for _, method := range []string{"DELETE", "GET"} {
		if got := do(t, newClient(t), newRequest(t, method, s.url("/"), nil)); got.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", method, got.StatusCode, got.body)
		}
	}
}
