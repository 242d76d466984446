package httplimit

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock"
)

const oneAtATime = "rules: [{name: place, key: [], limits: [{concurrent: 1, ttl: 10s}]}]"

// A response may take longer than its place lasts: it is renewed until the response is over.
func TestPlaceIsKeptAndGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, oneAtATime, Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
		slow := l.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Minute) }))
		ended := make(chan int)
		go func() { ended <- served(slow, request("/")).Code }()
		synctest.Wait()
		for range 11 {
			if rec := served(l.Wrap(ok), request("/")); rec.Code != 429 {
				t.Fatalf("a second at the same time: %d", rec.Code)
			}
			time.Sleep(5 * time.Second)
		}
		if code := <-ended; code != 200 {
			t.Errorf("%d", code)
		}
		if rec := served(l.Wrap(ok), request("/")); rec.Code != 200 {
			t.Errorf("after the first: %d", rec.Code)
		}
	})
}

// A call that is held has its place already, and keeps it.
func TestPlaceIsKeptWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, `
rules:
  - {name: even, key: [], limits: [{rate: 1/1m, queue: 5, algorithm: leaky_bucket}]}
  - {name: place, key: [], limits: [{concurrent: 1, ttl: 10s}]}
`, Options{ReaderOptions: ReaderOptions{MaxDelay: time.Hour}})
		h := l.Wrap(ok)
		served(h, request("/"))
		ended := make(chan int)
		go func() { ended <- served(h, request("/")).Code }()
		time.Sleep(45 * time.Second)
		if rec := served(h, request("/")); rec.Code != 429 || !strings.Contains(rec.Body.String(), `["place"]`) {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		if code := <-ended; code != 200 {
			t.Error(code)
		}
	})
}

// panics lets a handler panic and returns what with.
func panics(h http.Handler, rw http.ResponseWriter) (with any) {
	defer func() { with = recover() }()
	h.ServeHTTP(rw, request("/"))
	return nil
}

const costly = `rules: [{name: tokens, key: [], limits: [{rate: 10/1h, algorithm: token_bucket}], cost: {response_header: X-Tokens, default: 1, max: 100}, overdraft: {max: 100}}]`

// left asks how much is left of the first limit, without using any.
func left(t *testing.T, l *Limiter) int64 {
	t.Helper()
	var c penstock.Call
	if err := l.reader.Read(request("/"), &c); err != nil {
		t.Fatal(err)
	}
	c.Cost = 0
	var v penstock.Verdict
	if err := l.decider.Decide(t.Context(), &c, &v); err != nil || len(v.Limits) == 0 {
		t.Fatal(v, err)
	}
	return v.Limits[0].Remaining
}

func TestPanicBeforeTheResponse(t *testing.T) {
	l := newLimiter(t, costly, Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
	h := l.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh") }))
	if with := panics(h, httptest.NewRecorder()); with != "oh" {
		t.Errorf("panicked with %v", with)
	}
	if n := left(t, l); n != 10 {
		t.Errorf("%d left of 10", n)
	}
}

// Who has been served in part pays: else going away early would make everything free.
func TestPanicAfterTheResponse(t *testing.T) {
	l := newLimiter(t, costly, Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
	h := l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Tokens", "4")
		_, _ = io.WriteString(w, "half of")
		panic(http.ErrAbortHandler)
	}))
	if with := panics(h, httptest.NewRecorder()); with != http.ErrAbortHandler {
		t.Errorf("panicked with %v", with)
	}
	if n := left(t, l); n != 6 {
		t.Errorf("%d left of 10", n)
	}
}

func TestCostComesWithTheResponse(t *testing.T) {
	bytes := strings.Replace(costly, "response_header: X-Tokens", "response_bytes: true", 1)
	for _, test := range []struct {
		name, rules string
		handler     http.HandlerFunc
		method      string
		left        int64
	}{
		{"header", costly, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("x-tokens", "3") }, "GET", 7},
		{"trailer", costly, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "answer")
			w.Header().Set(http.TrailerPrefix+"X-Tokens", "5")
		}, "GET", 5},
		{"no header", costly, ok, "GET", 9},
		{"bytes", bytes, ok, "GET", 5},
		{"bytes of a HEAD", bytes, ok, "HEAD", 10},
		{"bytes by ReadFrom", bytes, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("1234567"))
		}, "GET", 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLimiter(t, test.rules, Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
			req := request("/")
			req.Method = test.method
			if rec := served(l.Wrap(test.handler), req); rec.Code != 200 {
				t.Fatal(rec.Code)
			}
			if n := left(t, l); n != test.left {
				t.Errorf("%d left, want %d", n, test.left)
			}
		})
	}
}

// The client may be gone: the place is given back all the same.
func TestConcludedWithoutTheClient(t *testing.T) {
	l := newLimiter(t, oneAtATime, Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
	ctx, cancel := context.WithCancel(t.Context())
	served(l.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() })), request("/").WithContext(ctx))
	if rec := served(l.Wrap(ok), request("/")); rec.Code != 200 {
		t.Error(rec.Code)
	}
}
