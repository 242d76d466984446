package gateway

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Of a thousand simultaneous wrong logins exactly five reach the server behind the gateway. Correct logins cost
// nothing, and neither does a server that cannot be reached.
func TestFailedLogins(t *testing.T) {
	var reached atomic.Int64
	server := newServer(t, func(rw http.ResponseWriter, req *http.Request) {
		reached.Add(1)
		switch req.URL.Query().Get("password") {
		case "right":
		case "hangs":
			panic(http.ErrAbortHandler)
		default:
			rw.WriteHeader(http.StatusUnauthorized)
		}
	})
	s := start(t, setting{
		rules:   "rules: [{name: logins, key: [ip], limits: [{rate: 5/360d, algorithm: fixed_window}], charge_if: status == 401}]",
		options: Options{Upstreams: upstreams(server)},
	})
	client := newClient(t)
	login := func(password string) (status int, limit string) {
		res, err := client.Get(s.url("/login?password=" + password))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer res.Body.Close()
		return res.StatusCode, strings.Join(res.Header["Ratelimit"], "")
	}
	for _, password := range []string{"right", "right", "right", "right", "right", "right", "hangs", "right"} {
		want := http.StatusOK
		if password == "hangs" {
			want = http.StatusBadGateway
		}
		if status, limit := login(password); status != want || !strings.Contains(limit, "r=5") {
			t.Errorf("%s: %d %s", password, status, limit)
		}
	}
	reached.Store(0)
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() { login("wrong") })
	}
	all.Wait()
	if n := reached.Load(); n != 5 {
		t.Errorf("%d wrong logins reached the server, want 5", n)
	}
	if status, _ := login("right"); status != http.StatusTooManyRequests {
		t.Errorf("after five wrong logins: %d", status)
	}
}
