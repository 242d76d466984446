package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/client"
	"github.com/penstock-io/penstock/client/grpcclient"
	penstockv1 "github.com/penstock-io/penstock/proto/penstock/v1"
)

// wantUnchecked checks the verdict of a request without an answer.
func wantUnchecked(t *testing.T, v *penstock.Verdict, err error, allowed bool) {
	t.Helper()
	want := penstock.QualityClosed
	if allowed {
		want = penstock.QualityOpen
	}
	if !errors.Is(err, penstock.ErrUnavailable) || errors.Is(err, penstock.ErrInvalid) {
		t.Errorf("error %v, want one that blames the service", err)
	}
	if v.Allowed != allowed || v.Reason != penstock.ReasonStoreError || v.Quality != want || v.Now == 0 || len(v.Limits) != 0 {
		t.Errorf("verdict %+v, want allowed %t, unchecked", v, allowed)
	}
}

// nobody returns an address without a listener. A connection occupies it until the test ends.
func nobody(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.LocalAddr().String()
}

func TestNobodyThere(t *testing.T) {
	overBoth(t, func(t *testing.T, over transport) {
		address := nobody(t)
		if over.name == "http" {
			address = "http://" + address
		}
		for _, onError := range []client.OnError{client.Allow, client.Deny} {
			c := over.open(t, address, patience, onError)
			v := penstock.Verdict{Rule: "old", Limits: make([]penstock.LimitVerdict, 3)}
			one := call("/search", "u1")
			err := c.Decide(t.Context(), &one, &v)
			wantUnchecked(t, &v, err, onError == client.Allow)

			calls := []penstock.Call{call("/search", "u1"), call("/search", "u2"), call("/search", "u3")}
			calls[1].Reserve = true
			verdicts, errs := make([]penstock.Verdict, 3), make([]error, 3)
			c.DecideEach(t.Context(), calls, verdicts, errs)
			for i := range verdicts {
				wantUnchecked(t, &verdicts[i], errs[i], onError == client.Allow)
			}

			err = c.Conclude(t.Context(), &penstock.Conclusion{Reservation: "some", Verb: penstock.Release}, &v)
			if !errors.Is(err, penstock.ErrUnavailable) || v.Allowed {
				t.Errorf("concluded: %+v, %v", v, err)
			}
		}
	})
}

// silentServer does not answer before the test ends. It cannot end with the request's context: that has the
// client's deadline, and either side could be first.
type silentServer struct {
	fixed
	ended <-chan struct{}
}

func (s *silentServer) Decide(context.Context, *penstock.Call, *penstock.Verdict) error {
	<-s.ended
	return penstock.ErrUnavailable
}

func TestTimeout(t *testing.T) {
	overBoth(t, func(t *testing.T, over transport) {
		ended := make(chan struct{})
		address := over.serve(t, &silentServer{ended: ended})
		t.Cleanup(func() { close(ended) }) // before the server ends, which waits for its handlers
		c := over.open(t, address, 20*time.Millisecond, client.Deny)
		var v penstock.Verdict
		one := call("/search", "u1")
		wantUnchecked(t, &v, c.Decide(t.Context(), &one, &v), false)

		c = over.open(t, address, patience, client.Allow)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantUnchecked(t, &v, c.Decide(ctx, &one, &v), true)
	})
}

// An invalid request is denied, whatever the policy: it could never be decided.
func TestInvalid(t *testing.T) {
	overBoth(t, func(t *testing.T, over transport) {
		c := over.connect(t, newEngine(t))
		long := call("/search", "u1")
		for i := range 9 {
			long.Attributes = append(long.Attributes, penstock.Attribute{Name: strings.Repeat("x", i+1), Value: strings.Repeat("v", 8000)})
		}
		for want, bad := range map[string]penstock.Call{
			"cost: -1 is not":           {Cost: -1, Attributes: []penstock.Attribute{}},
			"bytes; at most 65536":      long,
			"bytes, must have from":     {Cost: 1, ID: strings.Repeat("i", 9000), Attributes: []penstock.Attribute{}},
			"ttl_ms: 172800000 is not ": {Cost: 1, Reserve: true, TTL: 48 * time.Hour, Attributes: []penstock.Attribute{}},
		} {
			v := penstock.Verdict{Allowed: true}
			err := c.Decide(t.Context(), &bad, &v)
			if !errors.Is(err, penstock.ErrInvalid) || errors.Is(err, penstock.ErrUnavailable) || v.Allowed {
				t.Errorf("%+v, %v: want it denied as invalid", v, err)
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v does not say %q", err, want)
			}
		}
	})
}

// Text that is not UTF-8 cannot be sent as it is. A client that sends it is still limited.
func TestNotUTF8(t *testing.T) {
	overBoth(t, func(t *testing.T, over transport) {
		c := over.connect(t, newEngine(t))
		for i := range 11 {
			var v penstock.Verdict
			odd := call("/search", "\xffodd\xc3")
			odd.ID = "\xfe"
			if err := c.Decide(t.Context(), &odd, &v); err != nil || v.Allowed != (i < 10) {
				t.Errorf("call %d: %+v, %v", i, v, err)
			}
		}
	})
}

// A charge whose answer was lost is not sent again.
func TestNeverTwice(t *testing.T) {
	var reached atomic.Int64
	lost := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reached.Add(1) > 1 {
			panic(http.ErrAbortHandler)
		}
		http.Redirect(w, r, "/", http.StatusTemporaryRedirect) // following it would send the charge again
	}))
	defer lost.Close()
	server := grpc.NewServer()
	service := new(unavailableServer)
	penstockv1.RegisterDecisionsServer(server, service)

	for name, c := range map[string]remote{
		"http": openHTTP(t, lost.URL, patience, client.Allow),
		"grpc": openGRPC(t, listen(t, server), patience, client.Allow),
	} {
		for range 3 {
			var v penstock.Verdict
			one := call("/search", "u1")
			if err := c.Decide(t.Context(), &one, &v); !errors.Is(err, penstock.ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if http, grpc := reached.Load(), service.reached.Load(); http != 3 || grpc != 3 {
		t.Errorf("3 calls arrived as %d over HTTP and %d over gRPC", http, grpc)
	}
}

// unavailableServer answers with the status that grpc's own retries are for.
type unavailableServer struct {
	penstockv1.UnimplementedDecisionsServer
	reached atomic.Int64
}

func (u *unavailableServer) Check(context.Context, *penstockv1.CheckRequest) (*penstockv1.Verdict, error) {
	u.reached.Add(1)
	return nil, status.Error(codes.Unavailable, "not now")
}

// A reply that is not the service's own does not make the request invalid.
func TestSomethingElseThere(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"another program": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"nothing there":   http.NotFound,
		"a proxy's no":    func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadRequest) },
		"another's yes":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) },
		"another's no":    problem(http.StatusNotFound, `{"title": "Not Found"}`),
		"half a problem":  problem(http.StatusBadRequest, `{"title": `),
		"like a problem": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"title": "Bad Request"}`))
		},
		"of another kind":  problem(http.StatusTooManyRequests, `{"title": "Slow down"}`),
		"without verdicts": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"results": []}`)) },
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(handler)
			defer server.Close()
			c := openHTTP(t, server.URL, patience, client.Allow)
			calls := []penstock.Call{call("/search", "u1"), call("/search", "u2")}
			verdicts, errs := make([]penstock.Verdict, 2), make([]error, 2)
			c.DecideEach(t.Context(), calls, verdicts, errs)
			for i := range verdicts {
				wantUnchecked(t, &verdicts[i], errs[i], true)
			}
			var v penstock.Verdict
			wantUnchecked(t, &v, c.Decide(t.Context(), &calls[0], &v), true)
		})
	}
}

func problem(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func TestNewMistakes(t *testing.T) {
	for _, base := range []string{"", "penstock:8090", "ftp://penstock", "http://", "http://penstock?x=1", "http://penstock/#here", "http://[::1"} {
		if _, err := client.NewHTTP(base, client.Options{}); !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("a client of %q: %v", base, err)
		}
	}
	for _, o := range []client.Options{{Timeout: -1}, {Connections: -1}, {OnError: 9}} {
		if _, err := client.NewHTTP("http://penstock", o); !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("a client with %+v: %v", o, err)
		}
	}
	for _, o := range []grpcclient.Options{{}, {Timeout: -1}, {OnError: 9}} { // the first lacks credentials
		if _, err := grpcclient.New("penstock:8081", o); !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("a client with %+v: %v", o, err)
		}
	}
	if _, err := client.NewHTTP("ftp://user:secret@penstock", client.Options{}); strings.Contains(err.Error(), "secret") {
		t.Errorf("the error tells the password: %v", err)
	}
}

// A base URL may have a path, as behind a proxy, and the application may supply its own HTTP client.
func TestOwnClient(t *testing.T) {
	var path, token string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, token = r.URL.Path, r.Header.Get("Authorization")
		_, _ = w.Write([]byte(`{"allowed": true, "reason": "ok", "quality": "exact"}`))
	}))
	defer server.Close()
	own := &http.Client{Transport: signingTransport{http.DefaultTransport}}
	c, err := client.NewHTTP(server.URL+"/limits/", client.Options{Client: own, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	var v penstock.Verdict
	one := call("/search", "u1")
	if err := c.Decide(t.Context(), &one, &v); err != nil || !v.Allowed {
		t.Fatalf("%+v, %v", v, err)
	}
	if path != "/limits/v1/check" || token != "Bearer t" {
		t.Errorf("asked at %q with %q", path, token)
	}
	if own.CheckRedirect != nil {
		t.Error("the caller's own client was changed")
	}
}

type signingTransport struct{ http.RoundTripper }

func (s signingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer t")
	return s.RoundTripper.RoundTrip(r)
}

// An answer of another server says so, and does not speak of a store.
func TestAnotherServer(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	c, err := client.NewHTTP(other.URL, client.Options{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	one, v := call("/search", "u1"), penstock.Verdict{}
	err = c.Decide(t.Context(), &one, &v)
	const want = "server unavailable: got 404 Not Found, which is not a response of the decision API: check the address and port"
	if !errors.Is(err, penstock.ErrUnavailable) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
