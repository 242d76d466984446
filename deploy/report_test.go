package deploy

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
)

// nginx and HAProxy report how requests ended: correct logins cost nothing, and of many wrong ones at once exactly as
// many reach the server as the limit allows. A client cannot hide it, whatever headers it sends.
func TestReports(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("clients are told apart by addresses of 127.0.0.0/8, which only Linux has without asking")
	}
	for _, name := range []string{"nginx", "haproxy"} {
		t.Run(name, func(t *testing.T) {
			service, backend := startPenstock(t), startBackend(t)
			site := "http://" + proxies[name].start(t, [2]string{service.Listener.Addr().String(), absent}, backend.Listener.Addr().String())
			for range 2 * limit {
				r := ask(t, "127.0.0.5", "POST", site+"/login?password=right", "a body", "Origin", "https://elsewhere.example", "Sec-Fetch-Site", "cross-site", "X-Penstock-Reservation", "x")
				if r.status != 200 {
					t.Fatalf("a correct login: %+v", r)
				}
				service.awaitLeft(t, "127.0.0.5", limit)
			}
			var wrong, denied atomic.Int64
			var all sync.WaitGroup
			for range 40 {
				all.Go(func() {
					switch r := ask(t, "127.0.0.6", "POST", site+"/login?password=wrong", ""); r.status {
					case 401:
						wrong.Add(1)
					case 429:
						denied.Add(1)
					default:
						t.Errorf("%+v", r)
					}
				})
			}
			all.Wait()
			if wrong.Load() != limit || denied.Load() != 40-limit {
				t.Errorf("%d wrong logins reached the server and %d were denied, want %d and %d", wrong.Load(), denied.Load(), limit, 40-limit)
			}
			service.awaitLeft(t, "127.0.0.6", 0)
			service.awaitReported(t)
		})
	}
}

// awaitLeft waits until a client has this many logins left.
func (p *penstockServer) awaitLeft(t *testing.T, ip string, want int64) {
	t.Helper()
	call := penstock.Call{Attributes: []penstock.Attribute{{Name: "ip", Value: ip}, {Name: "path", Value: "/login"}}}
	var v penstock.Verdict
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if err := p.engine.Decide(context.Background(), &call, &v); err != nil {
			t.Fatal(err)
		}
		if v.Decision.Remaining == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s has %d logins left, want %d", ip, v.Decision.Remaining, want)
		}
	}
}

// awaitReported waits until every request that reserved something was reported.
func (p *penstockServer) awaitReported(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); p.open.Load() != 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d requests were not reported", p.open.Load())
		}
	}
}
