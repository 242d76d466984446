package httplimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock"
)

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })

func TestLimiter(t *testing.T) {
	l := newLimiter(t, `
rules:
  - {name: two, key: [ip], limits: [2/1h]}
  - {name: tried, mode: shadow, key: [ip], limits: [1/1h]}
`, Options{})
	h := l.Wrap(ok)
	for i := range 2 {
		rec := served(h, request("/"))
		if rec.Code != 200 || rec.Body.String() != "hello" {
			t.Fatalf("%d: %d %s", i, rec.Code, rec.Body)
		}
		if got, want := lines(rec.Header(), "RateLimit-Policy"), `["\"two\";q=2;w=3600"]`; fmt.Sprintf("%q", got) != want {
			t.Errorf("%d: %q", i, got)
		}
		if got, want := lines(rec.Header(), "RateLimit")[0], fmt.Sprintf(`"two";r=%d;t=`, 1-i); !strings.HasPrefix(got, want) {
			t.Errorf("%d: %q", i, got)
		}
	}
	rec := served(h, request("/"))
	if rec.Code != 429 || !strings.Contains(rec.Body.String(), `"violated-policies":["two"]`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	other := request("/")
	other.RemoteAddr = "192.0.2.2:1"
	if rec := served(h, other); rec.Code != 200 {
		t.Errorf("somebody else: %d", rec.Code)
	}
}

func TestLists(t *testing.T) {
	l := newLimiter(t, `
lists: {deny: [{ip: 192.0.2.0/24}]}
rules: [{name: one, key: [ip], limits: [1/1h]}]
`, Options{})
	if rec := served(l.Wrap(ok), request("/")); rec.Code != 403 || rec.Header().Get("Retry-After") != "" {
		t.Errorf("%d %v", rec.Code, rec.Header())
	}
}

func TestRefusedBeforeItIsDecided(t *testing.T) {
	l := newLimiter(t, "rules: []", Options{})
	reached := false
	h := l.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	req := request("/")
	req.URL.RawQuery = strings.Repeat("&", 2000)
	if rec := served(h, req); rec.Code != 400 || reached {
		t.Errorf("%d, reached %v", rec.Code, reached)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := New(nil, Options{ReaderOptions: ReaderOptions{IPv6Prefix: -1}, WriterOptions: WriterOptions{Headers: []string{"x"}}})
	for _, says := range []string{"needs a decider", "-1 bits", `"x"`} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %s", err, says)
		}
	}
}

// unavailableDecider is a store that is unavailable.
type unavailableDecider struct{ penstock.Decider }

func (unavailableDecider) Decide(_ context.Context, _ *penstock.Call, v *penstock.Verdict) error {
	*v = penstock.Verdict{Allowed: true, Reason: penstock.ReasonStoreError, Quality: penstock.QualityOpen}
	return penstock.ErrUnavailable
}

func TestVerdictStandsDespiteAnError(t *testing.T) {
	var told error
	l, err := New(unavailableDecider{}, Options{OnError: func(_ *http.Request, err error) { told = err }})
	if err != nil {
		t.Fatal(err)
	}
	if rec := served(l.Wrap(ok), request("/")); rec.Code != 200 || !errors.Is(told, penstock.ErrUnavailable) {
		t.Errorf("%d, %v", rec.Code, told)
	}
}

// A store does not answer a client that has disconnected, and failure policies may allow: a client that
// disconnects at the right moment must not get around the limits.
func TestGivingUpIsNoWayPast(t *testing.T) {
	l := newLimiter(t, "rules: [{name: one, key: [], limits: [1/1h]}]", Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	reached := false
	h := l.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	if rec := served(h, request("/").WithContext(ctx)); rec.Code != 503 || reached {
		t.Errorf("%d, reached %v", rec.Code, reached)
	}
}

const leaky = "rules: [{name: even, key: [], limits: [{rate: 1/1s, queue: 3, algorithm: leaky_bucket}]}]"

func TestHeldInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, leaky, Options{})
		begin := time.Now()
		var mu sync.Mutex
		var order []string
		h := l.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, fmt.Sprint(req.URL.Path, " ", time.Since(begin).Round(time.Second)))
		}))
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				rec := served(h, request(fmt.Sprintf("/%d", i)))
				if want := 200 + 229*(i/4); rec.Code != want {
					t.Errorf("%d: %d", i, rec.Code)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		if got := fmt.Sprint(order); got != "[/0 0s /1 1s /2 2s /3 3s]" {
			t.Error(got)
		}
	})
}

func TestGoneWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, leaky, Options{MaxHeld: 1})
		reached := 0
		h := l.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
		served(h, request("/"))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan int)
		begin := time.Now()
		go func() { ended <- served(h, request("/").WithContext(ctx)).Code }()
		synctest.Wait()
		if rec := served(h, request("/")); rec.Code != 503 || rec.Header().Get("Retry-After") == "" {
			t.Errorf("beyond the held: %d", rec.Code)
		}
		cancel()
		if code := <-ended; code != 503 || reached != 1 || time.Since(begin) >= time.Second {
			t.Errorf("%d after %v, %d reached", code, time.Since(begin), reached)
		}
	})
}

func TestHeadersOfTheResponse(t *testing.T) {
	const one = "rules: [{name: one, key: [], limits: [100/1h]}]"
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		fields  int
	}{
		{"nothing written", func(http.ResponseWriter, *http.Request) {}, 1},
		{"written", ok, 1},
		{"flushed", func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, 1},
		{"flushed by a controller", func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() }, 1},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) }, 0},
		{"an error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }, 1},
		{"its own", func(w http.ResponseWriter, _ *http.Request) { w.Header()["RateLimit"] = []string{`"own";r=1`} }, 2},
		{"twice", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); _, _ = io.WriteString(w, "x") }, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			rec := served(newLimiter(t, one, Options{}).Wrap(test.handler), request("/"))
			if got := lines(rec.Result().Header, "RateLimit"); len(got) != test.fields {
				t.Errorf("%q", got)
			}
		})
	}
}

const fourAMinute = "rules: [{name: even, key: [], limits: [{rate: 4/60s, queue: 6, algorithm: leaky_bucket}]}]"

// By default requests are held for as long as the queue takes.
func TestWholeQueueIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newLimiter(t, fourAMinute, Options{}).Wrap(ok)
		codes := make(chan int, 8)
		for range 8 {
			go func() { codes <- served(h, request("/")).Code }()
		}
		count := map[int]int{}
		for range 8 {
			count[<-codes]++
		}
		if count[200] != 7 || count[429] != 1 {
			t.Errorf("answered %v, want 7 times 200 and once 429", count)
		}
	})
}

// A request that cannot wait is told that nothing is left for it, whatever room the queue has.
func TestNothingRemainsForWhoCannotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newLimiter(t, fourAMinute, Options{ReaderOptions: ReaderOptions{MaxDelay: time.Second}}).Wrap(ok)
		served(h, request("/"))
		rec := served(h, request("/"))
		if got := lines(rec.Header(), "RateLimit")[0]; rec.Code != 429 || got != `"even";r=0;t=14` {
			t.Errorf("%d, RateLimit %s", rec.Code, got)
		}
	})
}

func TestBucketsInWords(t *testing.T) {
	for limit, want := range map[string]string{
		"{rate: 4/60s, queue: 6, algorithm: leaky_bucket}": "Limit of 4 requests per 60 s with a queue of 6 (x) reached",
		"{rate: 1/60s, queue: 0, algorithm: leaky_bucket}": "Limit of 1 request per 60 s (x) reached",
		"{rate: 1/60s, burst: 3, algorithm: token_bucket}": "Limit of 1 request per 60 s with a burst of 3 (x) reached",
		"{rate: 2/60s, algorithm: token_bucket}":           "Limit of 2 requests per 60 s (x) reached",
		"{rate: 2/60s, algorithm: fixed_window}":           "Limit of 2 requests per 60 s (x) reached",
		"{rate: 2/60s, algorithm: sliding_window_log}":     "Limit of 2 requests per 60 s (x) reached",
		"{concurrent: 1, ttl: 60s}":                        "Limit of 1 request at the same time (x) reached",
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, "rules: [{name: x, key: [], limits: ["+limit+"]}]", Options{ReaderOptions: ReaderOptions{MaxDelay: time.Nanosecond}})
			slow := l.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Millisecond) }))
			var bodies sync.Map
			var ended sync.WaitGroup
			for i := range 4 {
				ended.Go(func() { bodies.Store(i, served(slow, request("/")).Body.String()) })
			}
			ended.Wait()
			found := false
			bodies.Range(func(_, body any) bool { found = found || strings.Contains(body.(string), want); return true })
			if !found {
				t.Errorf("%s: nobody is told %q", limit, want)
			}
		})
	}
}
