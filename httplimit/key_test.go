package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
)

func newFrontDoor(t testing.TB, options ...penstock.Option) *penstock.Limiter {
	t.Helper()
	store, err := memstore.New(memstore.Options{MaxBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	l, err := penstock.New(store, options...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ask sends a request and returns the status.
func ask(h http.Handler, change func(*http.Request)) int {
	req := request("/")
	change(req)
	return served(h, req).Code
}

// Of many concurrent requests exactly the limit reaches the handler, and all responses report it.
func TestLimitAllowsExactlyTheLimit(t *testing.T) {
	var reached, denied atomic.Int64
	limit := Limit(newFrontDoor(t, penstock.PerHour(10), penstock.WithName("ten")), ByIP())
	s := newServer(t, limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) })), false)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			res, body := get(t, s, "/")
			if res.StatusCode == 429 {
				denied.Add(1)
				if res.Header.Get("Retry-After") == "" || !strings.Contains(body, `"violated-policies":["ten"]`) || res.Header.Get("Content-Type") != "application/problem+json" {
					t.Errorf("%v %s", res.Header, body)
				}
			}
			if got := res.Header.Get("RateLimit-Policy"); got != `"ten";q=10;w=3600` || res.Header.Get("RateLimit") == "" {
				t.Errorf("told %v", res.Header)
			}
		})
	}
	all.Wait()
	if reached.Load() != 10 || denied.Load() != 40 {
		t.Errorf("%d passed and %d were denied, want 10 and 40", reached.Load(), denied.Load())
	}
}

func TestLimitKeys(t *testing.T) {
	from := func(addr string, headers ...string) func(*http.Request) {
		return func(req *http.Request) {
			req.RemoteAddr = addr
			for i := 0; i < len(headers); i += 2 {
				req.Header.Add(headers[i], headers[i+1])
			}
		}
	}
	byPath := ByFunc(func(req *http.Request) (string, error) {
		switch req.Header.Get("X-Case") {
		case "error":
			return "", errors.New("a secret cause")
		case "teapot":
			return "", &RequestError{Status: 418, Detail: "it is a teapot"}
		case "no status":
			return "", &RequestError{Detail: "no"}
		case "success":
			return "", &RequestError{Status: 200, Detail: "no"}
		}
		return req.Header.Get("X-Case"), nil
	})
	for name, test := range map[string]struct {
		key      Key
		requests []func(*http.Request)
		want     []int
	}{
		"addresses":        {ByIP(), []func(*http.Request){from("192.0.2.1:1"), from("192.0.2.1:2"), from("192.0.2.2:1")}, []int{200, 429, 200}},
		"networks of IPv6": {ByIP(), []func(*http.Request){from("[2001:db8::1]:1"), from("[2001:db8::2]:1"), from("[2001:db8:0:1::1]:1")}, []int{200, 429, 200}},
		"a proxy that nobody trusts": {ByIP(),
			[]func(*http.Request){from("10.0.0.1:1", "X-Forwarded-For", "192.0.2.1"), from("10.0.0.1:1", "X-Forwarded-For", "192.0.2.2")}, []int{200, 429}},
		"a trusted proxy": {ByIP(netip.MustParsePrefix("10.0.0.0/8")),
			[]func(*http.Request){from("10.0.0.1:1", "X-Forwarded-For", "192.0.2.1"), from("10.0.0.2:1", "X-Forwarded-For", "192.0.2.1"), from("10.0.0.1:1", "X-Forwarded-For", "192.0.2.2")}, []int{200, 429, 200}},
		"no address":           {ByIP(), []func(*http.Request){from("@")}, []int{400}},
		"no address is needed": {ByHeader("X-Api-Key"), []func(*http.Request){from("@", "X-Api-Key", "a"), from("@", "X-Api-Key", "a")}, []int{200, 429}},
		"headers": {ByHeader("x-api-key"),
			[]func(*http.Request){from("192.0.2.1:1", "X-Api-Key", "a"), from("192.0.2.2:1", "X-Api-Key", "a"), from("192.0.2.1:1", "X-Api-Key", "b")}, []int{200, 429, 200}},
		"no header": {ByHeader("X-Api-Key"), []func(*http.Request){from("192.0.2.1:1"), from("192.0.2.1:1", "X-Api-Key", ""), from("192.0.2.1:1", "X-Api-Key", strings.Repeat("a", MaxValue+1))}, []int{400, 400, 431}},
		"a header twice, or in another spelling": {ByHeader("X-Api-Key"), []func(*http.Request){
			from("192.0.2.1:1", "X-Api-Key", "a", "X-Api-Key", "b"), from("192.0.2.1:1", "X-Api-Key", "a", "X_Api_Key", "b"), from("192.0.2.1:1", "X-Api-Key", "a"),
		}, []int{400, 400, 200}},
		"a function": {byPath,
			[]func(*http.Request){from("192.0.2.1:1", "X-Case", "a"), from("192.0.2.1:1", "X-Case", "a"), from("192.0.2.1:1", "X-Case", "b"), from("192.0.2.1:1"), from("192.0.2.1:1", "X-Case", "error"), from("192.0.2.1:1", "X-Case", "teapot"), from("192.0.2.1:1", "X-Case", "no status"), from("192.0.2.1:1", "X-Case", "success")},
			[]int{200, 429, 200, 400, 400, 418, 400, 400}},
	} {
		t.Run(name, func(t *testing.T) {
			h := Limit(newFrontDoor(t, penstock.PerHour(1)), test.key)(ok)
			for i, change := range test.requests {
				if got := ask(h, change); got != test.want[i] {
					t.Errorf("request %d: %d, want %d", i, got, test.want[i])
				}
			}
		})
	}
	rec := served(Limit(newFrontDoor(t, penstock.PerHour(1)), byPath)(ok), func() *http.Request {
		req := request("/")
		req.Header.Set("X-Case", "error")
		return req
	}())
	if strings.Contains(rec.Body.String(), "secret") {
		t.Errorf("the client is told %s", rec.Body)
	}
}

// Permits are held while a request runs, however long, and released at its end.
func TestLimitConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := Limit(newFrontDoor(t, penstock.Concurrent(1)), ByIP())
		slow := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(10 * time.Minute) }))
		ended := make(chan int)
		go func() { ended <- served(slow, request("/")).Code }()
		synctest.Wait()
		for range 5 {
			if got := served(limit(ok), request("/")).Code; got != 429 {
				t.Fatalf("a second at the same time: %d", got)
			}
			time.Sleep(time.Minute)
		}
		if got := <-ended; got != 200 {
			t.Error(got)
		}
		if got := served(limit(ok), request("/")).Code; got != 200 {
			t.Errorf("after the first: %d", got)
		}
	})
}

// A leaky bucket's requests are held until their turn, those beyond the queue denied.
func TestLimitHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		h := Limit(newFrontDoor(t, penstock.PerMinute(1).LeakyBucket(2)), ByIP())(ok)
		codes := make(chan int, 4)
		for range 4 {
			go func() { codes <- served(h, request("/")).Code }()
			synctest.Wait()
		}
		count := map[int]int{}
		for range 4 {
			count[<-codes]++
		}
		if count[200] != 3 || count[429] != 1 || time.Since(start) < 2*time.Minute {
			t.Errorf("%v after %v, want 3 served in two minutes and 1 denied", count, time.Since(start))
		}
	})
}

// While the store is down requests are answered 503, or served if the limiter fails open.
func TestLimitWithoutItsStore(t *testing.T) {
	server := redistest.Start(t)
	store, err := redisstore.Open(redisstore.Options{Addresses: []string{server.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	handler := func(options ...penstock.Option) http.Handler {
		l, err := penstock.New(store, append(options, penstock.PerHour(1), penstock.WithName("down"))...)
		if err != nil {
			t.Fatal(err)
		}
		return Limit(l, ByIP())(ok)
	}
	closed, open := handler(), handler(penstock.FailOpen())
	if rec := served(closed, request("/")); rec.Code != 200 {
		t.Errorf("with its store: %d %s", rec.Code, rec.Body)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if rec := served(closed, request("/")); rec.Code != 503 || rec.Header().Get("Retry-After") == "" || !strings.Contains(rec.Body.String(), "cannot be checked") {
		t.Errorf("without its store: %d %v %s", rec.Code, rec.Header(), rec.Body)
	}
	if rec := served(open, request("/")); rec.Code != 200 {
		t.Errorf("without its store, open: %d %s", rec.Code, rec.Body)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	rec := httptest.NewRecorder()
	open.ServeHTTP(rec, request("/").WithContext(gone))
	if rec.Code != 503 {
		t.Errorf("of a client that is gone: %d; to give up must not be a way past the limits", rec.Code)
	}
}

func TestLimitPanicsOnMistakes(t *testing.T) {
	l := newFrontDoor(t, penstock.PerHour(1))
	for name, test := range map[string]struct {
		limiter *penstock.Limiter
		key     Key
		want    string
	}{
		"no limiter": {nil, ByIP(), "penstock.New"},
		"no key":     {l, Key{}, "for example to ByIP()"},
		"nil func":   {l, ByFunc(nil), "the key function is nil"},
		"no header":  {l, ByHeader("X Key"), `"X Key"`},
		"empty":      {l, ByHeader(""), `""`},
	} {
		got := panicText(func() { Limit(test.limiter, test.key) })
		if !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want a word of %s", name, got, test.want)
		}
	}
}

// nilDecider is a decider that is a nil pointer if an error was ignored.
type nilDecider struct{ penstock.Decider }

// New rejects nil pointers, which are not nil as a Decider.
func TestNewRejectsNilPointers(t *testing.T) {
	for name, test := range map[string]struct {
		decider penstock.Decider
		key     Key
		want    string
	}{
		"limiter":                 {(*penstock.Limiter)(nil), ByIP(), "the limiter is nil; check the error of penstock.New"},
		"limiter without a key":   {(*penstock.Limiter)(nil), Key{}, "the limiter is nil; check the error of penstock.New"},
		"decider":                 {(*nilDecider)(nil), Key{}, "the decider is a nil *httplimit.nilDecider; check the error"},
		"function with an engine": {newEngine(t, "rules: []"), ByFunc(nil), "the key function is nil"},
	} {
		_, err := New(test.decider, Options{ReaderOptions: ReaderOptions{Key: test.key}})
		if !errors.Is(err, penstock.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want a word of %s", name, err, test.want)
		}
	}
}

// OnError gets what the client is not told: the causes of rejections.
func TestOnErrorGetsCauses(t *testing.T) {
	cause := errors.New("db down")
	rejected := &RequestError{Status: 403, Detail: "no"}
	for name, test := range map[string]struct {
		err    error
		status int
		told   string // to OnError
	}{
		"an error":                    {cause, 400, "db down"},
		"a rejection":                 {rejected, 403, ""},
		"a rejection with a cause":    {&RequestError{Status: 503, Detail: "no", Err: cause}, 503, "db down"},
		"a rejection that is wrapped": {fmt.Errorf("user 5: %w", rejected), 403, "user 5"},
	} {
		t.Run(name, func(t *testing.T) {
			var told []error
			l, err := New(newFrontDoor(t, penstock.PerHour(1)), Options{
				ReaderOptions: ReaderOptions{Key: ByFunc(func(*http.Request) (string, error) { return "", test.err })},
				OnError:       func(_ *http.Request, err error) { told = append(told, err) },
			})
			if err != nil {
				t.Fatal(err)
			}
			if rec := served(l.Wrap(ok), request("/")); rec.Code != test.status || strings.Contains(rec.Body.String(), "db down") {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
			if test.told == "" {
				if len(told) > 0 {
					t.Errorf("told %v", told)
				}
				return
			}
			if len(told) != 1 || !errors.Is(told[0], test.err) || !strings.Contains(told[0].Error(), test.told) {
				t.Errorf("told %v, want %v", told, test.err)
			}
		})
	}
}

func panicText(f func()) (text string) {
	defer func() {
		switch p := recover().(type) {
		case string:
			text = p
		case error:
			text = p.Error()
		}
	}()
	f()
	return ""
}
