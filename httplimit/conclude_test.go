package httplimit

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock"
)

const oneAtATime = "rules: [{name: place, key: [], limits: [{concurrent: 1, ttl: 10s}]}]"

// A response may take longer than its permit lasts: the permit is renewed until the response has finished.
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

// A request that is held already has its permit, and keeps it.
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

// panics runs a handler that panics and returns the value.
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

// A client that has been served in part is charged: otherwise disconnecting early would make everything free.
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
		{"bytes of nothing", bytes, func(http.ResponseWriter, *http.Request) {}, "GET", 10},
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

// The client may have disconnected: the permit is still released.
func TestConcludedWithoutTheClient(t *testing.T) {
	l := newLimiter(t, oneAtATime, Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
	ctx, cancel := context.WithCancel(t.Context())
	served(l.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() })), request("/").WithContext(ctx))
	if rec := served(l.Wrap(ok), request("/")); rec.Code != 200 {
		t.Error(rec.Code)
	}
}

const slowTokens = `rules: [{name: tokens, key: [], reserve: {ttl: 30s}, limits: [{rate: 10000/1h, algorithm: fixed_window}], cost: {response_header: X-Tokens, default: 10, max: 10000}, dedup: {ttl: 10m, replay_budget: 5}}]`

// A response that takes longer than its reservation is charged its reported cost: the reservation is renewed,
// however short it is.
func TestReservationIsKept(t *testing.T) {
	for _, ttl := range []time.Duration{20 * time.Millisecond, time.Second, 30 * time.Second, 4 * time.Minute, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			text := strings.Replace(slowTokens, "30s", ttl.String(), 1)
			l := newLimiter(t, strings.Replace(text, "10000/1h", "10000/1d", 1), Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
			counted := &renewals{Concluder: l.concluder}
			l.concluder = counted
			slow := l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(3 * ttl / 2)
				w.Header().Set("X-Tokens", "5000")
			}))
			served(slow, request("/"))
			if n := left(t, l); n != 5000 {
				t.Errorf("reserved for %v: %d left of 10000", ttl, n)
			}
			if counted.n < 2 || counted.n > 8 {
				t.Errorf("reserved for %v: renewed %d times", ttl, counted.n)
			}
		})
	}
}

// renewals counts them.
type renewals struct {
	penstock.Concluder
	n int
}

func (r *renewals) Conclude(ctx context.Context, c *penstock.Conclusion, v *penstock.Verdict) error {
	if c.Verb == penstock.Renew {
		r.n++
	}
	return r.Concluder.Conclude(ctx, c, v)
}

// named is a request with an id.
func named(id string) *http.Request {
	req := request("/")
	req.Header.Set("Idempotency-Key", id)
	return req
}

// A duplicate that ends first leaves the original's reservation alone.
func TestDuplicateDoesNotConcludeTheOriginal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, slowTokens, Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
		h := l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("X-Tokens", "0")
			if req.URL.Path == "/slow" {
				time.Sleep(45 * time.Second)
				w.Header().Set("X-Tokens", "5000")
			}
		}))
		slow := named("a")
		slow.URL.Path = "/slow"
		ended := make(chan int)
		go func() { ended <- served(h, slow).Code }()
		synctest.Wait()
		if rec := served(h, named("a")); rec.Code != 200 {
			t.Fatal(rec.Code)
		}
		if code := <-ended; code != 200 {
			t.Fatal(code)
		}
		if n := left(t, l); n != 5000 {
			t.Errorf("%d left of 10000, want 5000", n)
		}
	})
}

// A duplicate runs under a permit of its own, or not at all.
func TestDuplicatesHoldPermits(t *testing.T) {
	for permits := 1; permits <= 3; permits++ {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, strings.NewReplacer("N", strconv.Itoa(permits)).Replace("rules: [{name: place, key: [], limits: [{concurrent: N, ttl: 10s}], dedup: {ttl: 10m, max_replays: 100, replay_budget: 100}}]"),
				Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
			var mu sync.Mutex
			running, most, codes := 0, 0, map[int]int{}
			h := l.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Minute)
				mu.Lock()
				running--
				mu.Unlock()
			}))
			for round := range 3 {
				var ended sync.WaitGroup
				for range 5 {
					ended.Go(func() {
						code := served(h, named("a")).Code
						mu.Lock()
						defer mu.Unlock()
						codes[code]++
					})
					time.Sleep(time.Duration(round) * time.Second)
				}
				ended.Wait()
			}
			if most != permits || codes[200] != 3*permits || codes[429] != 15-3*permits {
				t.Errorf("%d ran at the same time with %d permits: %v", most, permits, codes)
			}
		})
	}
}

const sized = `rules: [{name: bytes, key: [], limits: [{rate: 1000/1h, algorithm: fixed_window}], cost: {response_bytes: true, default: 7, max: 1000}}]`

// A client that disconnects before the response begins is charged the estimate, unless the request was not
// processed.
func TestClientLeavesBeforeTheResponse(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		paid    int64
	}{
		"answered nothing":      {func(http.ResponseWriter, *http.Request) {}, 7},
		"only a status":         {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(499) }, 7},
		"answered in part":      {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "123") }, 3},
		"panicked":              {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 7},
		"nobody worked for it":  {func(w http.ResponseWriter, _ *http.Request) { Unserved(wrappedWriter{w}) }, 0},
		"nobody, and it is 499": {func(w http.ResponseWriter, _ *http.Request) { Unserved(w); w.WriteHeader(499) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLimiter(t, sized, Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
			for range 20 {
				ctx, leave := context.WithCancel(t.Context())
				h := l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					leave()
					c.handler(w, req)
				}))
				func() {
					defer func() { _ = recover() }()
					h.ServeHTTP(httptest.NewRecorder(), request("/").WithContext(ctx))
				}()
			}
			if n := 1000 - left(t, l); n != 20*c.paid {
				t.Errorf("20 requests paid %d, want %d each", n, c.paid)
			}
		})
	}
	Unserved(httptest.NewRecorder()) // not behind a limiter: no effect
}

// A request that was not processed is free under every limiter that it passed.
func TestUnservedBehindTwoLimiters(t *testing.T) {
	outer, inner := newLimiter(t, costly, Options{}), newLimiter(t, costly, Options{})
	served(outer.Wrap(inner.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { Unserved(w) }))), request("/"))
	if o, i := left(t, outer), left(t, inner); o != 10 || i != 10 {
		t.Errorf("%d and %d left of 10", o, i)
	}
}

type wrappedWriter struct{ http.ResponseWriter }

func (w wrappedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
