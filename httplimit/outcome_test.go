package httplimit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"
)

const failedLogins = `rules: [{name: logins, key: [ip], limits: [{rate: 5/360d, algorithm: fixed_window}], charge_if: 'status in [401, 403]'}]`

// A client of a server with the middleware: of a thousand simultaneous wrong logins exactly five reach the handler,
// and correct ones cost nothing.
func TestFailedLogins(t *testing.T) {
	l := newLimiter(t, failedLogins, Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
	var reached atomic.Int64
	server := httptest.NewServer(l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		reached.Add(1)
		if req.FormValue("password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})))
	defer server.Close()
	server.Client().Transport.(*http.Transport).MaxConnsPerHost = 100
	login := func(password string) (status int, limit string) {
		resp, err := server.Client().Get(server.URL + "/login?password=" + password)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return resp.StatusCode, strings.Join(resp.Header["Ratelimit"], "")
	}
	for range 20 {
		if status, limit := login("right"); status != 200 || !strings.Contains(limit, "r=5") {
			t.Fatalf("a correct login: %d %s", status, limit)
		}
	}
	reached.Store(0)
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() { login("wrong") })
	}
	all.Wait()
	if n := reached.Load(); n != 5 {
		t.Errorf("%d wrong logins reached the handler, want 5", n)
	}
	if status, _ := login("right"); status != http.StatusTooManyRequests {
		t.Errorf("after five wrong logins: %d", status)
	}
}

// until is what a header says about when a limit resets.
var until = regexp.MustCompile(`;t=\d+|,`)

// The header of the response has what is left after the correction, of all limits together.
func TestHeadersAreCorrected(t *testing.T) {
	l := newLimiter(t, `
rules:
  - {name: all, key: [ip], limits: [{rate: 10/360d, algorithm: fixed_window}]}
  - {name: failed, key: [ip], limits: [{rate: 3/360d, algorithm: fixed_window}], charge_if: status == 401}
`, Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
	h := l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/wrong" {
			w.WriteHeader(401)
		}
		_, _ = io.WriteString(w, "answer")
	}))
	for i, want := range []struct{ path, limit string }{
		{"/right", `"all";r=9 "failed";r=3`}, {"/wrong", `"all";r=8 "failed";r=2`}, {"/right", `"all";r=7 "failed";r=2`}, {"/wrong", `"all";r=6 "failed";r=1`},
	} {
		rec := served(h, request(want.path))
		got := until.ReplaceAllString(strings.Join(lines(rec.Header(), "RateLimit"), ""), "")
		if got != want.limit {
			t.Errorf("%d %s: RateLimit %s, want %s", i, want.path, got, want.limit)
		}
	}
}

// A rule whose reservation holds a permit is settled when the response has ended.
func TestPermitsOutliveTheHeader(t *testing.T) {
	l := newLimiter(t, `rules: [{name: both, key: [], limits: [{rate: 5/360d, algorithm: fixed_window}, {concurrent: 1, ttl: 1m}], charge_if: status == 401}]`,
		Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
	running := 0
	h := l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
		if rec := served(l.Wrap(ok), request("/")); rec.Code != 429 {
			t.Errorf("another while the response is sent: %d", rec.Code)
		}
		running++
	}))
	for range 7 {
		if rec := served(h, request("/")); rec.Code != 200 {
			t.Fatal(rec.Code)
		}
	}
	if n := left(t, l); n != 5 || running != 7 {
		t.Errorf("%d left, %d ran", n, running)
	}
}

// What the response says decides what is charged, and nothing else that a client can do.
func TestOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		gone    bool
		handler http.HandlerFunc
		charged int64
	}{
		"wrong":                        {false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, 1},
		"right":                        {false, ok, 0},
		"right, without a word":        {false, func(http.ResponseWriter, *http.Request) {}, 0},
		"wrong, and gone":              {true, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, 1},
		"right, and gone":              {true, ok, 0},
		"gone before the response":     {true, func(http.ResponseWriter, *http.Request) {}, 1},
		"gone, says the gateway":       {true, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(499) }, 1},
		"panics before the response":   {false, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0},
		"panics after a wrong login":   {false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401); panic(http.ErrAbortHandler) }, 1},
		"never processed":              {false, func(w http.ResponseWriter, _ *http.Request) { Unserved(w); w.WriteHeader(401) }, 0},
		"gRPC, unauthenticated":        {false, grpcAnswer("16"), 1},
		"gRPC, permission denied":      {false, grpcAnswer("7"), 1},
		"gRPC, ok":                     {false, grpcAnswer("0"), 0},
		"gRPC, without a status":       {false, grpcAnswer(""), 1},
		"informational before a wrong": {false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(403) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLimiter(t, failedLogins, Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
			for range 3 {
				ctx, leave := context.WithCancel(t.Context())
				h := l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					if c.gone {
						leave()
					}
					c.handler(w, req)
				}))
				func() {
					defer func() { _ = recover() }()
					h.ServeHTTP(httptest.NewRecorder(), request("/").WithContext(ctx))
				}()
				leave()
			}
			if n := 5 - left(t, l); n != 3*c.charged {
				t.Errorf("3 requests were charged %d, want %d each", n, c.charged)
			}
		})
	}
}

// grpcAnswer answers as a gRPC server does, with the status in a trailer.
func grpcAnswer(status string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.WriteHeader(200)
		if status != "" {
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", status)
		}
	}
}

// What sends no header does not decide the status: a copy whose source fails at once, or a flush where flushing is not
// supported.
func TestStatusIsTheOneSent(t *testing.T) {
	for name, attempt := range map[string]func(http.ResponseWriter){
		"copy":  func(w http.ResponseWriter) { _, _ = io.Copy(w, iotest.ErrReader(errors.New("no"))) },
		"flush": func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLimiter(t, strings.Replace(failedLogins, "5/360d", "1/360d", 1), Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
			wrapped := l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				attempt(w)
				http.Error(w, "no", http.StatusUnauthorized)
			}))
			server := httptest.NewServer(http.TimeoutHandler(wrapped, time.Minute, ""))
			defer server.Close()
			for _, want := range []int{401, 429} {
				resp, err := http.Get(server.URL)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != want {
					t.Errorf("%d, want %d", resp.StatusCode, want)
				}
			}
		})
	}
}
