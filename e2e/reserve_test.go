package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/redistest"
)

const reserving = `
attributes: {user: {header: X-User}}
rules:
  - {name: tokens, match: {path: /x}, key: [user], limits: [{rate: 100/30d, algorithm: sliding_window_log}], reserve: {ttl: 1h, overage: deny}}
  - {name: places, match: {path: /held}, key: [user], limits: [{concurrent: 1, ttl: 1h}]}
  - {name: costly, match: {path: /costly}, key: [user], limits: [{rate: 100/30d, algorithm: sliding_window_log}], cost: {response_header: X-Cost}}
`

func startTwo(t *testing.T) (first, second *node, up *upstream) {
	t.Helper()
	up = newUpstream(t)
	nodes := startAll(t, 2, onRedis("single", redistest.Start(t).Addr), up.config(), rulesFile(t, reserving))
	return nodes[0], nodes[1], up
}

// What one node reserves another settles or releases, over HTTP and gRPC and from one to the other.
func TestReservationsAcrossNodes(t *testing.T) {
	t.Parallel()
	first, second, _ := startTwo(t)
	for name, clients := range map[string][2]remote{
		"http":            {first.http, second.http},
		"grpc":            {first.grpc, second.grpc},
		"http, then grpc": {first.http, second.grpc},
		"grpc, then http": {first.grpc, second.http},
	} {
		t.Run(name, func(t *testing.T) {
			user := &reserver{t, name, clients[0], clients[1], first}
			user.wants(0)
			settled := user.reserve(40)
			released := user.reserve(50)
			user.wants(90)
			user.conclude(nil, penstock.Conclusion{Reservation: settled, Verb: penstock.Settle, Cost: 7})
			user.wants(57)
			user.conclude(nil, penstock.Conclusion{Reservation: settled, Verb: penstock.Settle, Cost: 7}) // a repeat
			user.conclude(penstock.ErrClosed, penstock.Conclusion{Reservation: settled, Verb: penstock.Settle, Cost: 8})
			user.wants(57)
			user.conclude(nil, penstock.Conclusion{Reservation: released, Verb: penstock.Renew})
			user.conclude(nil, penstock.Conclusion{Reservation: released, Verb: penstock.Release})
			user.wants(7)
			user.conclude(penstock.ErrNoReservation, penstock.Conclusion{Reservation: "made-up", Verb: penstock.Release})
		})
	}
}

// A reserver takes at one client and concludes at another.
type reserver struct {
	t           *testing.T
	name        string
	take, after remote
	at          *node
}

func (r *reserver) reserve(cost int64) string {
	r.t.Helper()
	call := newCall(r.name)
	call.Cost, call.Reserve = cost, true
	var v penstock.Verdict
	if err := r.take.Decide(context.Background(), &call, &v); err != nil || !v.Allowed || v.Reservation == "" || v.Quality != penstock.QualityExact {
		r.t.Fatalf("reserve %d: %v: %+v", cost, err, v)
	}
	return v.Reservation
}

func (r *reserver) conclude(want error, c penstock.Conclusion) {
	r.t.Helper()
	var v penstock.Verdict
	if err := r.after.Conclude(context.Background(), &c, &v); !errors.Is(err, want) {
		r.t.Errorf("%v with cost %d: %v, want %v", c.Verb, c.Cost, err, want)
	}
}

func (r *reserver) wants(used int64) {
	r.t.Helper()
	if v := r.at.peek(r.name); v.used("tokens") != used {
		r.t.Errorf("%d used, want %d", v.used("tokens"), used)
	}
}

// The same with nothing but HTTP.
func TestReservationAsJSON(t *testing.T) {
	t.Parallel()
	first, second, _ := startTwo(t)
	var v verdict
	first.read(first.post("/v1/reserve", `{"attributes": {"user": "u", "path": "/x"}, "cost": 40, "ttl_ms": 60000}`), &v)
	if !v.Allowed || v.Reservation == "" {
		t.Fatalf("reserve: %+v", v)
	}
	at := "/v1/reservations/" + v.Reservation
	second.read(second.post(at+"/renew", `{"ttl_ms": 120000}`), &v)
	second.read(second.post(at+"/settle", `{"cost": 37}`), &v)
	if used := first.peek("u").used("tokens"); used != 37 {
		t.Errorf("%d used after it was settled, want 37", used)
	}
	if a := second.send(http.MethodDelete, "http", at, ""); a.StatusCode != http.StatusConflict {
		t.Errorf("releasing what was settled: %s: %s", a.Status, a.body)
	}
	if a := second.post("/v1/reservations/made-up/settle", `{"cost": 1}`); a.StatusCode != http.StatusNotFound {
		t.Errorf("settling what nobody reserved: %s: %s", a.Status, a.body)
	}
}

// A permit is taken on all nodes until the response ends.
func TestLeaseEndsWithTheResponse(t *testing.T) {
	t.Parallel()
	first, second, up := startTwo(t)
	statuses := make(chan int, 1)
	go func() { statuses <- first.get("gateway", "/held", "X-User: u").StatusCode }()
	up.await(t)
	for _, n := range []*node{first, second} {
		if a := n.get("gateway", "/held", "X-User: u"); a.StatusCode != http.StatusTooManyRequests {
			t.Errorf("while a call runs: %s: %s", a.Status, a.body)
		}
	}
	up.free(t)
	if code := <-statuses; code != http.StatusOK {
		t.Errorf("the first call got %d", code)
	}

	peek := `{"attributes": {"user": "u", "path": "/held"}, "cost": 0}`
	eventually(t, "the place is free", func() bool { return second.check(peek).used("places") == 0 })
	go func() { statuses <- second.get("gateway", "/held", "X-User: u").StatusCode }()
	up.await(t)
	up.free(t)
	if code := <-statuses; code != http.StatusOK {
		t.Errorf("the call after it got %d", code)
	}
}

// A cost that the server names with its response is charged by then.
func TestResponseHeaderSettlesTheCost(t *testing.T) {
	t.Parallel()
	first, second, _ := startTwo(t)
	for i, n := range []*node{first, second, first} {
		if a := n.get("gateway", "/costly", "X-User: u"); a.StatusCode != http.StatusOK {
			t.Errorf("call %d: %s: %s", i+1, a.Status, a.body)
		}
		want := int64(30 * (i + 1))
		eventually(t, fmt.Sprint("calls that cost ", want), func() bool {
			return second.check(`{"attributes": {"user": "u", "path": "/costly"}, "cost": 0}`).used("costly") == want
		})
	}
}
