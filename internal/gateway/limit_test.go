package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestExactlyTheLimitPasses(t *testing.T) {
	const limit, clients = 10, 50
	var served atomic.Int64
	server := newServer(t, func(rw http.ResponseWriter, req *http.Request) { served.Add(1) })
	s := start(t, setting{
		rules:   "rules: [{name: all, key: [ip], limits: [10/1h]}]",
		options: Options{Upstreams: upstreams(server)},
	})
	client := newClient(t)
	var allowed, denied atomic.Int64
	var clientsDone sync.WaitGroup
	for range clients {
		clientsDone.Go(func() {
			res, err := client.Get(s.url("/"))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			switch res.StatusCode {
			case http.StatusOK:
				allowed.Add(1)
			case http.StatusTooManyRequests:
				denied.Add(1)
			default:
				t.Errorf("status %d", res.StatusCode)
			}
			if len(res.Header["X-Request-Id"]) != 1 || res.Header.Get("RateLimit-Policy") == "" {
				t.Errorf("status %d without request id or RateLimit-Policy: %v", res.StatusCode, res.Header)
			}
		})
	}
	clientsDone.Wait()
	if allowed.Load() != limit || denied.Load() != clients-limit || served.Load() != limit {
		t.Errorf("%d allowed, %d denied, %d served; want %d, %d, %d", allowed.Load(), denied.Load(), served.Load(), limit, clients-limit, limit)
	}
}

// leaky allows one request a second and holds the next hundred.
const leaky = "rules: [{name: slow, key: [], limits: [{rate: 1/s, queue: 100, algorithm: leaky_bucket}]}]"

func TestHeldCallsArriveInOrder(t *testing.T) {
	const calls = 20
	var served []string // one at a time, as the race detector verifies
	record := func(rw http.ResponseWriter, req *http.Request) { served = append(served, req.URL.Path) }
	inBubble(t, setting{rules: leaky}, record, func(t *testing.T, b *memoryGateway) {
		begun := time.Now()
		client := b.client()
		var ended sync.WaitGroup
		for i := range calls {
			ended.Go(func() { get(t, client, fmt.Sprintf("http://gateway.test/%d", i)) })
			synctest.Wait() // it is held
		}
		ended.Wait()
		for i, path := range served {
			if path != fmt.Sprintf("/%d", i) {
				t.Fatalf("served in the order %v", served)
			}
		}
		if took := time.Since(begun); len(served) != calls || took < (calls-1)*time.Second || took >= calls*time.Second {
			t.Errorf("%d served in %v, want %d in %d s", len(served), took, calls, calls-1)
		}
	})
}

func TestHeldClientThatLeavesIsNotServed(t *testing.T) {
	var served []string
	record := func(rw http.ResponseWriter, req *http.Request) { served = append(served, req.URL.Path) }
	inBubble(t, setting{rules: leaky}, record, func(t *testing.T, b *memoryGateway) {
		client := b.client()
		var ended sync.WaitGroup
		for i := range 10 {
			ctx, leave := context.WithCancel(t.Context())
			if i%2 == 1 {
				time.AfterFunc(500*time.Millisecond, leave)
			}
			ended.Go(func() {
				defer leave()
				req := newRequest(t, "GET", fmt.Sprintf("http://gateway.test/%d", i), nil).WithContext(ctx)
				if res, err := client.Do(req); err == nil {
					res.Body.Close()
				}
			})
			synctest.Wait()
		}
		ended.Wait()
		if got := strings.Join(served, ""); got != "/0/2/4/6/8" {
			t.Errorf("served %s", got)
		}
	})
}

const oneAtATime = "rules: [{name: one, key: [], limits: [{concurrent: 1, ttl: 1h, algorithm: concurrency}]}]"

func TestLeaseEndsWithTheResponse(t *testing.T) {
	for _, ends := range []string{"finished", "cut off by the server", "abandoned by the client"} {
		t.Run(ends, func(t *testing.T) {
			finish := make(chan struct{})
			server := newServer(t, func(rw http.ResponseWriter, req *http.Request) {
				if req.URL.Path != "/long" {
					return
				}
				io.WriteString(rw, "begun")
				http.NewResponseController(rw).Flush()
				select {
				case <-finish:
				case <-req.Context().Done():
				}
				if ends == "cut off by the server" {
					panic(http.ErrAbortHandler)
				}
			})
			s := start(t, setting{rules: oneAtATime, options: Options{Upstreams: upstreams(server)}})
			client := newClient(t)
			long, err := client.Get(s.url("/long"))
			if err != nil {
				t.Fatal(err)
			}
			defer long.Body.Close()
			if got := get(t, client, s.url("/")); got.StatusCode != http.StatusTooManyRequests {
				t.Fatalf("status %d beside a call that lasts, want 429", got.StatusCode)
			}
			if ends == "abandoned by the client" {
				long.Body.Close()
			} else {
				close(finish)
				io.Copy(io.Discard, long.Body)
			}
			eventually(t, "the place is free again", func() bool {
				return get(t, client, s.url("/")).StatusCode == http.StatusOK
			})
		})
	}
}

func TestResponseHeaderSettlesTheCost(t *testing.T) {
	server := newServer(t, func(rw http.ResponseWriter, req *http.Request) { rw.Header().Set("X-Tokens", "7") })
	s := start(t, setting{
		rules:   "rules: [{name: tokens, key: [], limits: [20/1h], cost: {response_header: X-Tokens, default: 1, max: 1000}}]",
		options: Options{Upstreams: upstreams(server)},
	})
	client := newClient(t)
	var statuses []int
	for range 4 {
		statuses = append(statuses, get(t, client, s.url("/")).StatusCode)
	}
	// 7 + 7 are charged, then the remaining 6 of the third's 7.
	if fmt.Sprint(statuses) != "[200 200 200 429]" {
		t.Errorf("statuses %v", statuses)
	}
}

const sized = "rules: [{name: bytes, key: [], limits: [{rate: 1000/1h, algorithm: fixed_window}], cost: {response_bytes: true, default: 7, max: 1000}}]"

// leaveOften repeatedly starts a request to the gateway and cancels it when may allows.
func (s *testGateway) leaveOften(times int, may <-chan struct{}) {
	s.t.Helper()
	for range times {
		ctx, leave := context.WithCancel(s.t.Context())
		client := newClient(s.t)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if res, err := client.Do(newRequest(s.t, "GET", s.url("/"), nil).WithContext(ctx)); err == nil {
				s.t.Error("it was answered")
				res.Body.Close()
			}
		}()
		select {
		case <-may:
		case <-time.After(patience):
			s.t.Fatal("the request does not arrive")
		}
		leave()
		<-ended
	}
}

// A client that goes away before the response begins pays the estimate.
func TestClientLeavesBeforeTheResponse(t *testing.T) {
	arrived := make(chan struct{})
	server := newServer(t, func(_ http.ResponseWriter, req *http.Request) {
		arrived <- struct{}{}
		<-req.Context().Done()
	})
	s := start(t, setting{rules: sized, options: Options{Upstreams: upstreams(server)}})
	s.leaveOften(20, arrived)
	eventually(t, "each has paid the estimate", func() bool { return s.used() == 140 })
}

// A client whose server was never reached pays nothing.
func TestClientLeavesBeforeTheServerIsReached(t *testing.T) {
	dialled := make(chan struct{})
	s := start(t, setting{
		rules: sized, options: Options{Upstreams: upstreams("http://upstream.test")},
		dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			select {
			case dialled <- struct{}{}:
			case <-ctx.Done():
			}
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	s.leaveOften(5, dialled)
	eventually(t, "all is given back", func() bool { return s.requests.Load() == 0 && s.used() == 0 })
}

// Traffic on a WebSocket is not counted: it pays the estimate.
func TestWebSocketPaysTheEstimate(t *testing.T) {
	server := newServer(t, echo)
	s := start(t, setting{rules: sized, options: Options{Upstreams: upstreams(server)}})
	conn, from := s.dialRaw()
	upgrade(t, conn, from)
	conn.Close()
	eventually(t, "it ends", func() bool { return s.requests.Load() == 0 })
	if n := s.used(); n != 7 {
		t.Errorf("paid %d, want the estimate of 7", n)
	}
}

// A response that takes longer than its reservation is charged its actual cost, and a duplicate that ends first does
// not change that.
func TestReservationIsKept(t *testing.T) {
	const rules = "rules: [{name: tokens, key: [], reserve: {ttl: 30s}, limits: [{rate: 10000/1h, algorithm: fixed_window}], cost: {response_header: X-Tokens, default: 10, max: 10000}, dedup: {ttl: 10m, replay_budget: 5}}]"
	handler := func(rw http.ResponseWriter, req *http.Request) {
		rw.Header().Set("X-Tokens", "0")
		if req.URL.Path == "/slow" {
			time.Sleep(45 * time.Second)
			rw.Header().Set("X-Tokens", "5000")
		}
	}
	inBubble(t, setting{rules: rules}, handler, func(t *testing.T, b *memoryGateway) {
		client := b.client()
		var ended sync.WaitGroup
		ended.Go(func() { get(t, client, "http://gateway.test/slow", "Idempotency-Key: a") })
		time.Sleep(time.Second)
		get(t, client, "http://gateway.test/", "Idempotency-Key: a")
		ended.Wait()
		synctest.Wait()
		if n := b.used(); n != 5000 {
			t.Errorf("charged %d, want 5000", n)
		}
	})
}

// A duplicate takes its own permit, or is denied.
func TestDuplicatesHoldPermits(t *testing.T) {
	const rules = "rules: [{name: one, key: [], limits: [{concurrent: 1, ttl: 10s}], dedup: {ttl: 10m, max_replays: 9, replay_budget: 9}}]"
	var running, most atomic.Int64
	handler := func(http.ResponseWriter, *http.Request) {
		most.Store(max(most.Load(), running.Add(1)))
		time.Sleep(40 * time.Second)
		running.Add(-1)
	}
	inBubble(t, setting{rules: rules}, handler, func(t *testing.T, b *memoryGateway) {
		client := b.client()
		var statuses []int
		for range 2 {
			first := make(chan int)
			go func() { first <- get(t, client, "http://gateway.test/", "Idempotency-Key: a").StatusCode }()
			time.Sleep(20 * time.Second)
			statuses = append(statuses, get(t, client, "http://gateway.test/", "Idempotency-Key: a").StatusCode, <-first)
		}
		if most.Load() != 1 || fmt.Sprint(statuses) != "[429 200 429 200]" {
			t.Errorf("%d ran at the same time, statuses %v", most.Load(), statuses)
		}
	})
}

// With the defaults, a leaky bucket serves as many requests as its queue holds, however long they wait.
func TestWholeQueueIsServed(t *testing.T) {
	const seeds = "rules: [{name: even, key: [], limits: [{rate: 4/60s, queue: 6, algorithm: leaky_bucket}]}]"
	for _, http2 := range []bool{false, true} {
		var arrived []time.Duration
		var begun time.Time
		record := func(rw http.ResponseWriter, req *http.Request) { arrived = append(arrived, time.Since(begun)) }
		inBubble(t, setting{rules: seeds, options: Options{H2C: true}}, record, func(t *testing.T, b *memoryGateway) {
			client := b.client()
			if http2 {
				protocols := new(http.Protocols)
				protocols.SetUnencryptedHTTP2(true)
				client.Transport.(*http.Transport).Protocols = protocols
			}
			begun = time.Now()
			var ended sync.WaitGroup
			var served, denied atomic.Int64
			for range 8 {
				ended.Go(func() {
					res, err := client.Get("http://gateway.test/")
					if err != nil {
						t.Error(err)
						return
					}
					defer res.Body.Close()
					body, _ := io.ReadAll(res.Body)
					if res.StatusCode == http.StatusOK {
						served.Add(1)
						return
					}
					denied.Add(1)
					if want := "Limit of 4 requests per 60 s with a queue of 6 (even) reached; retry in 15 s."; res.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(body), want) {
						t.Errorf("status %d: %s does not say %q", res.StatusCode, body, want)
					}
					if state := strings.Join(res.Header.Values("RateLimit"), " "); state != `"even";r=0;t=15` {
						t.Errorf("RateLimit: %s", state)
					}
				})
				synctest.Wait()
			}
			ended.Wait()
			if served.Load() != 7 || denied.Load() != 1 {
				t.Errorf("HTTP/2 %v: %d served and %d denied of 8, want 7 and 1", http2, served.Load(), denied.Load())
			}
			for i, at := range arrived {
				if want := time.Duration(i) * 15 * time.Second; at < want || at > want+time.Second {
					t.Errorf("request %d arrived after %v, want %v", i, at, want)
				}
			}
		})
	}
}
