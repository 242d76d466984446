package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock-io/penstock/internal/problem"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // an http.Transport reports servers that send more than a response
	code := m.Run()
	for deadline := time.Now().Add(patience); code == 0; {
		if err := goleak.Find(); err == nil {
			break
		} else if time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// patience is how long tests wait for what must happen.
const patience = time.Minute

// A testServer is a Server, and the http.Server of what it hands over.
type testServer struct {
	*Server
	addr   string
	handed *states

	listener net.Listener
	rest     *http.Server
	log      syncBuilder
}

// states counts the states of connections.
type states struct {
	mu   sync.Mutex
	seen map[http.ConnState]int
}

func (s *states) add(_ net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[state]++
}

func (s *states) of(state http.ConnState) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[state]
}

type syncBuilder struct {
	mu sync.Mutex
	strings.Builder
}

func (b *syncBuilder) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Builder.Write(p)
}

func (b *syncBuilder) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.String()
}

// watchAtOnce makes requests look out for a disconnect at once for the rest of a test, so that this is what is tested.
func (s *testServer) watchAtOnce() *testServer {
	s.watchAfter = 0
	return s
}

func start(t *testing.T, handler http.Handler, change func(*Options)) *testServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &testServer{addr: l.Addr().String(), listener: l, handed: &states{seen: map[http.ConnState]int{}}}
	o := Options{Handler: handler, Context: context.Background(), ConnState: func(net.Conn, http.ConnState) {}, ErrorLog: log.New(&s.log, "", 0)}
	if change != nil {
		change(&o)
	}
	s.Server = New(o)
	s.rest = &http.Server{Handler: handler, ConnState: s.handed.add, ReadHeaderTimeout: o.First, IdleTimeout: o.Idle, ErrorLog: o.ErrorLog}
	var ended sync.WaitGroup
	ended.Go(func() { s.Serve(l) })
	ended.Go(func() { s.rest.Serve(s.Rest(l.Addr())) })
	t.Cleanup(func() {
		l.Close()
		s.Close()
		s.rest.Close()
		ended.Wait()
	})
	return s
}

func dial(t *testing.T, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return conn, bufio.NewReader(conn)
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, from *bufio.Reader, method string) (*http.Response, string) {
	t.Helper()
	res, err := http.ReadResponse(from, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// responses are handlers whose responses must be those of net/http.
var responses = map[string]http.HandlerFunc{
	"nothing": func(http.ResponseWriter, *http.Request) {},
	"status":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
	"unnamed status": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(799)
		w.WriteHeader(200)
	},
	"no content": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		w.WriteHeader(http.StatusNoContent)
		if _, err := io.WriteString(w, "hello"); !errors.Is(err, http.ErrBodyNotAllowed) {
			panic(err)
		}
	},
	"not modified": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("ETag", "x")
		w.WriteHeader(http.StatusNotModified)
	},
	"text": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") },
	"html": func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "<html>")
		io.WriteString(w, "</html>")
	},
	"2 KiB":     func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("a", maxPending)) },
	"2 KiB + 1": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("a", maxPending+1)) },
	"pieces": func(w http.ResponseWriter, _ *http.Request) {
		for i := range 3000 {
			fmt.Fprintf(w, "%d,", i)
		}
	},
	"large": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000000")
		for range 10 {
			w.Write(make([]byte, 100_000))
		}
	},
	"large, of unknown length": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		for range 10 {
			w.Write(make([]byte, 100_000))
		}
	},
	"flush": func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "a")
		w.(http.Flusher).Flush()
		io.WriteString(w, "b")
		http.NewResponseController(w).Flush()
	},
	"flush first": func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() },
	"headers": func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h["RateLimit"], h["Retry-After"], h["x-lower"] = []string{`"a";r=0`}, []string{"5"}, []string{"1", "2"}
		h["Injected"], h["Bad Name"], h["Trimmed"], h["Empty"] = []string{"a\r\nX: b"}, []string{"x"}, []string{" \ta "}, []string{""}
		h["Date"], h["Content-Type"] = []string{"today"}, []string{"a/b"}
		io.WriteString(w, "{}")
	},
	"no date": func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"], w.Header()["Content-Type"] = nil, nil
		io.WriteString(w, "{}")
	},
	"changed too late": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("A", "1")
		w.WriteHeader(http.StatusOK)
		w.Header().Set("A", "2")
		io.WriteString(w, "a")
	},
	"informational": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a>")
		w.Header().Set("Content-Length", "1")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		io.WriteString(w, "a")
	},
	"trailers": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Trailer", "A, a-b")
		w.Header().Add("Trailer", "b")
		io.WriteString(w, "x")
		w.Header().Set("A", "1")
		w.Header()["B"] = []string{"2", "3"}
		w.Header().Set(http.TrailerPrefix+"C", "4")
	},
	"late trailers": func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		w.Header().Set(http.TrailerPrefix+"C", "4")
	},
	"close": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		io.WriteString(w, "bye")
	},
	"too long": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "3")
		if _, err := io.WriteString(w, "hello"); !errors.Is(err, http.ErrContentLength) {
			panic(err)
		}
		io.WriteString(w, "")
	},
	"too short": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "3")
		io.WriteString(w, "a")
	},
	"abort": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "9")
		io.WriteString(w, "a")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	},
	"after a wait": func(w http.ResponseWriter, req *http.Request) {
		select {
		case <-req.Context().Done():
			panic("the client has not gone")
		default:
		}
		io.WriteString(w, "hello")
	},
	"whole": func(w http.ResponseWriter, _ *http.Request) { writeWhole(w) },
	"whole, with a request ID": func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["X-Request-Id"] = []string{"a", "b\r\nc"}
		writeWhole(w)
	},
	"whole, with another header": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		writeWhole(w)
	},
	"whole, with a request ID and another header": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", "a")
		w.Header().Set("X-A", "b")
		writeWhole(w)
	},
	"echo": func(w http.ResponseWriter, req *http.Request) {
		fmt.Fprintf(w, "%v %v %v %v %v %v", req.Method, req.RequestURI, req.URL, req.Host, req.Header, req.Context().Value(http.LocalAddrContextKey) != nil)
	},
}

// wholeFields are the header of the response that writeWhole writes.
var wholeFields = []problem.Field{{Name: "A", Value: []byte("b")}, {Name: "Content-Length", Value: []byte("5")}, {Name: "Content-Type", Value: []byte("c/d")}, {Name: "X-Z", Value: []byte("z")}}

// writeWhole writes a response at once, or in parts if that is not possible.
func writeWhole(w http.ResponseWriter) {
	if whole, ok := w.(problem.WholeWriter); ok && whole.WriteWhole(http.StatusForbidden, wholeFields, []byte("hello"), time.Minute) {
		return
	}
	for _, f := range wholeFields {
		w.Header().Add(f.Name, string(f.Value))
	}
	w.WriteHeader(http.StatusForbidden)
	io.WriteString(w, "hello")
}

// A response can be written at once only if it has not begun, has a body, and nothing in its header changes how it is
// sent.
func TestWriteWhole(t *testing.T) {
	for name, test := range map[string]struct {
		before func(http.ResponseWriter)
		status int
		want   bool
	}{
		"first":      {func(http.ResponseWriter) {}, 403, true},
		"with an ID": {func(w http.ResponseWriter) { w.Header().Set("X-Request-Id", "a") }, 403, true},
		"closing":    {func(w http.ResponseWriter) { w.Header().Set("Connection", "close") }, 403, false},
		"trailers":   {func(w http.ResponseWriter) { w.Header().Set("Trailer", "a") }, 403, false},
		"begun":      {func(w http.ResponseWriter) { w.WriteHeader(200) }, 403, false},
		"no body":    {func(http.ResponseWriter) {}, 204, false},
		"early":      {func(http.ResponseWriter) {}, 103, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan bool, 1)
			s := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				test.before(w)
				got <- w.(problem.WholeWriter).WriteWhole(test.status, wholeFields, []byte("hello"), 0)
			}), nil)
			conn, from := dial(t, s.addr)
			send(t, conn, get)
			receive(t, from, "GET")
			if got := <-got; got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

// The handler of an ended request gets no second response out.
func TestWriteWholeAfterwards(t *testing.T) {
	writers := make(chan http.ResponseWriter, 1)
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req.Context().Done() // or the next request would get the same memory
		writers <- w
	}), nil)
	conn, from := dial(t, s.addr)
	send(t, conn, get)
	receive(t, from, "GET")
	w := <-writers
	send(t, conn, get) // the first request has ended for certain when this is answered
	receive(t, from, "GET")
	if w.(problem.WholeWriter).WriteWhole(403, wholeFields, []byte("hello"), 0) {
		t.Error("a response after the response")
	}
}

var dates = regexp.MustCompile(`(?m)^Date: .* GMT\r$`)

// Whatever a handler does, the client gets what net/http would have sent, and the connection stays open or not as with
// net/http.
func TestResponsesAgreeWithNetHTTP(t *testing.T) {
	for name, handler := range responses {
		for _, method := range []string{"GET", "HEAD"} {
			t.Run(name+" "+method, func(t *testing.T) {
				s := start(t, handler, nil)
				rest, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				plain := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
				go plain.Serve(rest)
				defer plain.Close()
				got, want := converse(t, s.addr, method), converse(t, rest.Addr().String(), method)
				if got != want {
					t.Errorf("got  %.2000q\nwant %.2000q", got, want)
				}
				if n, isOpen := s.handed.of(http.StateNew), !strings.HasSuffix(got, "closed\n"); n > 1 || isOpen != (n == 1) {
					t.Errorf("%d connections were handed over; only the last request is unusual", n)
				}
			})
		}
	}
}

// converse sends a request twice, and then one that is handed over. It returns what the client gets, without chunks
// and dates.
func converse(t *testing.T, addr, method string) string {
	t.Helper()
	conn, from := dial(t, addr)
	var got strings.Builder
	for _, text := range []string{method + " /a?b HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n", method + " /a?b HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n", method + " /a?b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"} {
		if _, err := io.WriteString(conn, text); err != nil {
			got.WriteString("closed\n") // otherwise the next read notices it
			break
		}
		head, err := readFinalHead(from, &got)
		if err != nil {
			got.WriteString("closed\n")
			break
		}
		res, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader(head), from)), &http.Request{Method: method})
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		fmt.Fprintf(&got, "%s\n%v %v\n", body, res.Trailer, err)
	}
	return got.String()
}

// readFinalHead reads the heads of all responses to a request, writes them to got, and returns the last one.
func readFinalHead(from *bufio.Reader, got io.StringWriter) (string, error) {
	for {
		var head strings.Builder
		for line := ""; line != "\r\n"; {
			var err error
			if line, err = from.ReadString('\n'); err != nil {
				return "", err
			}
			head.WriteString(line)
		}
		got.WriteString(dates.ReplaceAllString(head.String(), "Date: now\r"))
		if !strings.HasPrefix(head.String(), "HTTP/1.1 1") {
			return head.String(), nil
		}
	}
}

// A handler that waited may have started something that still reads the request: its header is not used again.
func TestWatchedRequestsKeepTheirHeader(t *testing.T) {
	kept := make(chan http.Header, 2)
	s := start(t, http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		req.Context().Done()
		kept <- req.Header
	}), nil)
	conn, from := dial(t, s.addr)
	for _, value := range []string{"first", "second"} {
		send(t, conn, "GET / HTTP/1.1\r\nHost: a\r\nX-Value: "+value+"\r\n\r\n")
		receive(t, from, "GET")
	}
	if got := (<-kept).Get("X-Value") + " " + (<-kept).Get("X-Value"); got != "first second" {
		t.Errorf("the headers are %s", got)
	}
}
