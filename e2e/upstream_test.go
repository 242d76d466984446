package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// An upstream is the server behind gateways. It remembers whom it has served.
type upstream struct {
	*httptest.Server
	mu    sync.Mutex
	users map[string]int

	// Requests to /held and /begun wait: each reports that it has arrived and continues when it is released.
	arrived chan struct{}
	release chan struct{}
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{users: map[string]int{}, arrived: make(chan struct{}), release: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/", u.serve)
	mux.HandleFunc("/held", func(rw http.ResponseWriter, r *http.Request) {
		u.hold(r)
		u.serve(rw, r)
	})
	mux.HandleFunc("/begun", func(rw http.ResponseWriter, r *http.Request) { // and held in the middle of the response
		io.WriteString(rw, "it was ")
		if err := http.NewResponseController(rw).Flush(); err != nil {
			t.Error(err)
		}
		u.hold(r)
		u.serve(rw, r)
	})
	mux.HandleFunc("/costly", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X-Cost", "30")
		u.serve(rw, r)
	})
	u.Server = httptest.NewServer(mux)
	t.Cleanup(u.Close)
	return u
}

// config makes it the one upstream of a node.
func (u *upstream) config() string { return fmt.Sprintf("upstreams: [{url: '%s'}]", u.URL) }

func (u *upstream) serve(rw http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	u.users[r.Header.Get("X-User")]++
	u.mu.Unlock()
	io.WriteString(rw, "served\n")
}

func (u *upstream) hold(r *http.Request) {
	select {
	case u.arrived <- struct{}{}:
	case <-r.Context().Done():
		return
	}
	select {
	case <-u.release:
	case <-r.Context().Done():
	}
}

// await returns when one more request is held.
func (u *upstream) await(t *testing.T) {
	t.Helper()
	select {
	case <-u.arrived:
	case <-time.After(patient):
		t.Fatalf("no call has arrived within %v", patient)
	}
}

// free releases one held request.
func (u *upstream) free(t *testing.T) {
	t.Helper()
	select {
	case u.release <- struct{}{}:
	case <-time.After(patient):
		t.Fatalf("no call was held within %v", patient)
	}
}

// served returns how many requests of a user have arrived.
func (u *upstream) served(user string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.users[user]
}
