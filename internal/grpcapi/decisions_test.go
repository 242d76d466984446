package grpcapi_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/penstock-io/penstock/internal/grpcapi"
	penstockv1 "github.com/penstock-io/penstock/proto/penstock/v1"
)

// Spaces around a value make no other client.
func TestSpacesAroundValues(t *testing.T) {
	client := newClient(t)
	for i, user := range []string{"u1", " u1", "u1 ", "\tu1", "u1 \t", "u1", "u1", "u1", "u1", "u1", " u1"} {
		v, err := client.Check(patient(t), &penstockv1.CheckRequest{Attributes: map[string]string{"path": " /search", "user": user}})
		if err != nil || v.Allowed != (i < 10) {
			t.Errorf("request %d, user %q: %v, %v", i, user, v, err)
		}
	}
}

// Of fifty concurrent checks exactly ten are allowed.
func TestExactly(t *testing.T) {
	client := newClient(t)
	ctx := patient(t)
	verdicts := make([]*penstockv1.Verdict, 50)
	var checks sync.WaitGroup
	for i := range verdicts {
		checks.Go(func() {
			v, err := client.Check(ctx, call("/search"))
			if err != nil {
				t.Error(err)
			}
			verdicts[i] = v
		})
	}
	checks.Wait()
	allowed := 0
	for _, v := range verdicts {
		if v.GetAllowed() {
			allowed++
		}
	}
	if allowed != 10 {
		t.Errorf("%d allowed, want 10", allowed)
	}
}

func TestVerdict(t *testing.T) {
	client := newClient(t)
	got, err := client.Check(patient(t), &penstockv1.CheckRequest{Attributes: map[string]string{"path": "/search", "user": "u1"}, Cost: proto.Int64(11)})
	if err != nil {
		t.Fatal(err)
	}
	want := &penstockv1.Verdict{
		Rule: "search", Reason: penstockv1.Reason_REASON_OVER_LIMIT, Quality: penstockv1.Quality_QUALITY_EXACT,
		Limit: 10, Remaining: 10, ResetAfterMs: proto.Int64(0), RulesVersion: 7,
		Limits: []*penstockv1.LimitVerdict{
			{Rule: "search", Policy: "search", Algorithm: penstockv1.Algorithm_ALGORITHM_FIXED_WINDOW, WindowMs: 60_000, Limit: 10, Remaining: 10, ResetAfterMs: proto.Int64(0)},
			{Rule: "tried", Policy: "tried", Algorithm: penstockv1.Algorithm_ALGORITHM_SLIDING_WINDOW_COUNTER, Shadow: true, WindowMs: 60_000, ResetAfterMs: proto.Int64(0)},
		},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(want.Limits[0], "count")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// All spellings of a host are one client.
func TestSpellingsOfHosts(t *testing.T) {
	client := newClient(t)
	for i, host := range []string{"h.example", "H.example", "h.example.", "h.example:80", "h.EXAMPLE:8080", "other.example"} {
		v, err := client.Check(patient(t), &penstockv1.CheckRequest{Attributes: map[string]string{"path": "/host", "host": host}})
		if err != nil || v.Allowed != (i < 3 || i == 5) {
			t.Errorf("request %d, host %q: %v, %v", i, host, v, err)
		}
	}
	_, err := client.Check(patient(t), &penstockv1.CheckRequest{Attributes: map[string]string{"host": "a b"}})
	if got := violations(t, err); !slices.Equal(got, []string{`attributes["host"]: "a b" is not a host: must be a name or an address, with or without a port`}) {
		t.Errorf("%q", got)
	}
}

func TestRefill(t *testing.T) {
	client := newClient(t)
	for path, want := range map[string]penstockv1.Refill{"/steps": penstockv1.Refill_REFILL_INTERVAL, "/search": penstockv1.Refill_REFILL_CONTINUOUS} {
		if v, err := client.Check(patient(t), call(path)); err != nil || v.Limits[0].Refill != want {
			t.Errorf("%s: %v, %v, want %v", path, v, err, want)
		}
	}
}

func TestBatch(t *testing.T) {
	e := newEngine(t, nil)
	for name, o := range map[string]grpcapi.Options{
		"together":   {Decider: e, Concluder: e, Batch: e},
		"one by one": {Decider: e, Concluder: e},
	} {
		t.Run(name, func(t *testing.T) {
			client := penstockv1.NewDecisionsClient(serve(t, o))
			batch := new(penstockv1.CheckBatchRequest)
			for range 12 {
				batch.Calls = append(batch.Calls, &penstockv1.CheckRequest{Attributes: map[string]string{"path": "/search", "user": name}})
			}
			reply, err := client.CheckBatch(patient(t), batch)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range reply.Results {
				if v.Allowed != (i < 10) || v.Error != "" {
					t.Errorf("call %d: %v", i, v)
				}
			}
		})
	}
}

func TestReservations(t *testing.T) {
	client := newClient(t)
	ctx := patient(t)
	used := func() int64 {
		t.Helper()
		peek := call("/tokens")
		peek.Cost = proto.Int64(0)
		v, err := client.Check(ctx, peek)
		if err != nil {
			t.Fatal(err)
		}
		return v.Limits[0].Used
	}
	reserve := func(cost int64) string {
		t.Helper()
		c := call("/tokens")
		c.Cost = proto.Int64(cost)
		v, err := client.Reserve(ctx, &penstockv1.ReserveRequest{Call: c, TtlMs: 60_000})
		if err != nil || !v.Allowed || v.Reservation == "" {
			t.Fatalf("reserve: %v, %v", v, err)
		}
		return v.Reservation
	}

	first := reserve(40)
	if n := used(); n != 40 {
		t.Errorf("reserved %d, want 40", n)
	}
	if v, err := client.Renew(ctx, &penstockv1.RenewRequest{Reservation: first, TtlMs: 120_000}); err != nil || !v.Allowed {
		t.Errorf("renew: %v, %v", v, err)
	}
	for range 2 { // the second changes nothing
		if v, err := client.Settle(ctx, &penstockv1.SettleRequest{Reservation: first, Cost: proto.Int64(7)}); err != nil || !v.Allowed {
			t.Errorf("settle: %v, %v", v, err)
		}
	}
	if n := used(); n != 7 {
		t.Errorf("settled %d, want 7", n)
	}
	_, err := client.Settle(ctx, &penstockv1.SettleRequest{Reservation: first, Cost: proto.Int64(8)})
	wantCode(t, err, codes.FailedPrecondition)
	_, err = client.Release(ctx, &penstockv1.ReleaseRequest{Reservation: "never-made"})
	wantCode(t, err, codes.NotFound)

	second := reserve(50)
	if _, err := client.Release(ctx, &penstockv1.ReleaseRequest{Reservation: second}); err != nil {
		t.Error(err)
	}
	if n := used(); n != 7 {
		t.Errorf("after a release %d, want 7", n)
	}
}

// The rule takes the actual cost from the response.
func TestSettleWithResponse(t *testing.T) {
	client := newClient(t)
	v, err := client.Check(patient(t), call("/told"))
	if err != nil || v.Reservation == "" {
		t.Fatalf("%v, %v: no reservation", v, err)
	}
	v, err = client.Settle(patient(t), &penstockv1.SettleRequest{
		Reservation: v.Reservation, Response: &penstockv1.Response{Headers: map[string]string{"x-cost": "12"}},
	})
	if err != nil || v.Limits[0].Used != 12 {
		t.Errorf("%v, %v: want 12 used", v, err)
	}
}
