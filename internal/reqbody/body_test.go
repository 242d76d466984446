package reqbody

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// pipes is a listener for in-memory connections.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// converse sends a text to a handler on its own connection and passes the connection to test.
func converse(t *testing.T, handler http.Handler, text string, test func(*bufio.Reader)) {
	synctest.Test(t, func(t *testing.T) {
		listener := make(pipes)
		server := &http.Server{Handler: handler}
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		here, there := net.Pipe()
		listener <- there
		go io.WriteString(here, text)
		test(bufio.NewReader(here))
		here.Close()
		close(listener)
		<-served
		synctest.Wait()
	})
}

// However a handler responds without reading the body, the connection is closed if the rest does not arrive.
func TestHandlerClosesWhatDoesNotCome(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"nothing":     func(http.ResponseWriter, *http.Request) {},
		"header":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"body":        func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "no") },
		"flush":       func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() },
		"controller":  func(w http.ResponseWriter, _ *http.Request) { http.NewResponseController(w).Flush() },
		"some, error": func(w http.ResponseWriter, r *http.Request) { r.Body.Read(make([]byte, 2)); w.WriteHeader(400) },
		"all": func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err == nil {
				t.Error("half a body is taken for the whole")
			}
			w.WriteHeader(http.StatusRequestTimeout)
		},
	} {
		for _, framing := range []string{"Content-Length: 9\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n9\r\nhalf"} {
			t.Run(name, func(t *testing.T) {
				handler := Handler(answer, Options{Wait: 3 * time.Second, Total: 10 * time.Second})
				converse(t, handler, "POST / HTTP/1.1\r\nHost: a\r\n"+framing, func(from *bufio.Reader) {
					begun := time.Now()
					res, err := http.ReadResponse(from, nil)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := io.Copy(io.Discard, res.Body); err != nil {
						t.Error(err)
					}
					if _, err := from.ReadByte(); !errors.Is(err, io.EOF) {
						t.Errorf("after the response: %v", err)
					}
					if took := time.Since(begun); took > restWithin+time.Second {
						t.Errorf("closed after %v", took)
					}
				})
			})
		}
	}
}

// A small body that arrives is skipped, and the connection serves the next request.
func TestHandlerKeepsConnections(t *testing.T) {
	requests := 0
	handler := Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		w.WriteHeader(http.StatusForbidden)
	}), Options{})
	text := fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", maxRest, strings.Repeat("x", maxRest))
	converse(t, handler, text+text+"GET / HTTP/1.1\r\nHost: a\r\n\r\n", func(from *bufio.Reader) {
		for range 3 {
			res, err := http.ReadResponse(from, nil)
			if err != nil || res.Close {
				t.Fatalf("%v, %v", res, err)
			}
		}
	})
	if requests != 3 {
		t.Errorf("%d requests of 3", requests)
	}
}

func TestErrIsTheFirst(t *testing.T) {
	broken := errors.New("broken")
	req := httptest.NewRequest("POST", "/", iotest.ErrReader(broken))
	var b Body
	b.Start(httptest.NewRecorder(), req, Options{})
	if b.Begun() || b.Err() != nil {
		t.Error("nothing was read yet")
	}
	if _, err := io.ReadAll(&b); err == nil || !b.Begun() || !errors.Is(b.Err(), broken) {
		t.Errorf("%v, %v", err, b.Err())
	}
	b.End()
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) || !errors.Is(b.Err(), broken) {
		t.Errorf("after the end: %v, %v", err, b.Err())
	}
}

// A client that sent much at once cannot then send nothing for as long as that would have taken at the rate.
func TestBodiesPayOverTime(t *testing.T) {
	o := Options{Wait: time.Hour, Total: 10 * time.Second, Rate: 100}
	for _, test := range []struct {
		name     string
		begins   string
		interval time.Duration // between two further parts of 100 bytes
		parts    int
		took     time.Duration
	}{
		{"all at once, then nothing", strings.Repeat("x", 10_000), 0, 0, 10 * time.Second},
		{"at the rate", "x", time.Second, 50, 60 * time.Second},
		{"half the rate", "x", 2100 * time.Millisecond, 50, 18 * time.Second}, // no part arrives at the very deadline
	} {
		t.Run(test.name, func(t *testing.T) {
			var took time.Duration
			handler := Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				began := time.Now()
				if _, err := io.ReadAll(r.Body); err == nil {
					t.Error("the body came to its end")
				}
				took = time.Since(began)
			}), o)
			synctest.Test(t, func(t *testing.T) {
				listener, served := make(pipes), make(chan error, 1)
				server := &http.Server{Handler: handler}
				go func() { served <- server.Serve(listener) }()
				here, there := net.Pipe()
				listener <- there
				go func() {
					io.WriteString(here, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"+test.begins)
					for range test.parts {
						time.Sleep(test.interval)
						io.WriteString(here, strings.Repeat("x", 100))
					}
				}()
				_, _ = http.ReadResponse(bufio.NewReader(here), nil)
				here.Close()
				close(listener)
				<-served
				time.Sleep(10 * time.Minute) // until every goroutine has ended
			})
			if took < test.took-time.Second || took > test.took+time.Second {
				t.Errorf("interrupted after %v, want %v", took, test.took)
			}
		})
	}
}

// A read that waits can be interrupted by another goroutine. The client gets a response, and the connection closes.
func TestInterrupt(t *testing.T) {
	for _, first := range []bool{false, true} { // whether the interruption comes before the read
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b := r.Body.(*Body)
			if first {
				b.Interrupt()
			} else {
				go func() {
					time.Sleep(time.Second)
					b.Interrupt()
				}()
			}
			if _, err := io.ReadAll(b); err == nil || b.Err() == nil {
				t.Errorf("read: %v, %v", err, b.Err())
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		converse(t, Handler(handler, Options{Wait: time.Minute}), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf", func(from *bufio.Reader) {
			began := time.Now()
			res, err := http.ReadResponse(from, nil)
			if err != nil || res.StatusCode != http.StatusServiceUnavailable || !res.Close {
				t.Fatalf("%v, %v", res, err)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("answered after %v", took)
			}
			if _, err := from.ReadByte(); !errors.Is(err, io.EOF) {
				t.Errorf("after the response: %v", err)
			}
		})
	}
}
