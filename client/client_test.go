package client_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/penstock-io/penstock"
)

// Of fifty simultaneous requests exactly ten are allowed.
func TestExactly(t *testing.T) {
	overBoth(t, func(t *testing.T, over transport) {
		c := over.connect(t, newEngine(t))
		var allowed atomic.Int64
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				var v penstock.Verdict
				call := call("/search", "u1")
				if err := c.Decide(t.Context(), &call, &v); err != nil {
					t.Error(err)
				}
				if v.Allowed {
					allowed.Add(1)
				}
			})
		}
		calls.Wait()
		if n := allowed.Load(); n != 10 {
			t.Errorf("%d allowed, want 10", n)
		}
	})
}

// fixed always returns the same verdict, and keeps the last request.
type fixed struct {
	verdict penstock.Verdict
	call    penstock.Call
}

func (f *fixed) Decide(_ context.Context, c *penstock.Call, v *penstock.Verdict) error {
	f.call = *c
	*v = f.verdict
	return nil
}

func (f *fixed) Conclude(context.Context, *penstock.Conclusion, *penstock.Verdict) error {
	return penstock.ErrNoReservation
}

// All of a verdict that a client can use arrives, in whole milliseconds, rounded up.
func TestVerdict(t *testing.T) {
	now := penstock.InstantOf(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	limits := []penstock.LimitVerdict{
		{
			Rule: "a", Policy: "a:1m", Banned: true, Algorithm: penstock.TokenBucket, Window: time.Minute,
			Decision: penstock.Decision{Limit: 10, Used: 12, RetryAfter: penstock.Never, ResetAfter: 30 * time.Second},
		},
		{
			Rule: "b", Policy: "b", Shadow: true, Algorithm: penstock.LeakyBucket, Window: time.Second,
			Decision: penstock.Decision{Allowed: true, Limit: 5, Used: 1, Remaining: 4, Delay: 20 * time.Millisecond},
		},
	}
	for name, verdict := range map[string]penstock.Verdict{
		"denied": {
			Reason: penstock.ReasonBanned, Quality: penstock.QualityLocal, Rule: "a", Limits: limits, RulesVersion: 3,
			Now: now, BannedUntil: now.Add(90 * time.Second),
			Decision: penstock.Decision{Limit: 10, RetryAfter: 1500*time.Millisecond - time.Microsecond, ResetAfter: 30 * time.Second},
		},
		"allowed": {
			Allowed: true, Reason: penstock.ReasonDuplicate, Duplicate: true, Rule: "b", Limits: limits[1:], Now: now,
			Delay: 20 * time.Millisecond, Reservation: "some", ReservedFor: 30 * time.Second, OriginalReservation: "first", Decision: penstock.Decision{Allowed: true, Limit: 5, Remaining: 4},
		},
		"never":   {Reason: penstock.ReasonDenyList, Now: now, Decision: penstock.Decision{RetryAfter: penstock.Never}},
		"no rule": {Allowed: true, Reason: penstock.ReasonNoRule, Now: now, Decision: penstock.Decision{Allowed: true}},
	} {
		overBoth(t, func(t *testing.T, over transport) {
			got := penstock.Verdict{Limits: make([]penstock.LimitVerdict, 7)} // of an earlier request
			call := call("/search", "u1")
			if err := over.connect(t, &fixed{verdict: verdict}).Decide(t.Context(), &call, &got); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			want := verdict
			want.Now = got.Now // of the client's clock, as all instants
			if want.BannedUntil != 0 {
				want.BannedUntil = got.Now.Add(90 * time.Second)
				want.Decision.RetryAfter = 1500 * time.Millisecond
			}
			if diff := cmp.Diff(want.Limits, got.Limits); diff != "" && len(want.Limits)+len(got.Limits) > 0 {
				t.Errorf("%s: limits: -want +got\n%s", name, diff)
			}
			want.Limits, got.Limits = nil, nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", name, diff)
			}
		})
	}
}

// All fields of a call arrive.
func TestCall(t *testing.T) {
	overBoth(t, func(t *testing.T, over transport) {
		service := &fixed{verdict: penstock.Verdict{Allowed: true}}
		c := over.connect(t, service)
		for _, want := range []penstock.Call{
			{Domain: "shop", Cost: 7, ID: "id-1", MaxDelay: time.Second, Attributes: []penstock.Attribute{{Name: "user", Value: `"é" \`}}},
			{Cost: 0, Reserve: true, TTL: time.Minute, Attributes: []penstock.Attribute{{Name: "path", Value: "/"}}},
			{Cost: 1, Reserve: true, Attributes: []penstock.Attribute{}},
		} {
			var v penstock.Verdict
			if err := c.Decide(t.Context(), &want, &v); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, service.call, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-sent +arrived\n%s", diff)
			}
		}
	})
}

// An error in one request of a batch affects only that request, whether client or server finds it; requests
// that reserve are decided too.
func TestDecideEach(t *testing.T) {
	overBoth(t, func(t *testing.T, over transport) {
		c := over.connect(t, newEngine(t))
		calls := make([]penstock.Call, 20)
		for i := range calls {
			calls[i] = call("/search", "u1")
		}
		calls[3].Cost = -1
		calls[5] = call("/tokens", "u1")
		calls[5].Reserve = true
		calls[7].Attributes = append(calls[7].Attributes, penstock.Attribute{Name: "user", Value: "twice"})
		verdicts, errs := make([]penstock.Verdict, len(calls)), make([]error, len(calls))
		c.DecideEach(t.Context(), calls, verdicts, errs)

		allowed := 0
		for i := range calls {
			switch i {
			case 3, 7:
				if !errors.Is(errs[i], penstock.ErrInvalid) || verdicts[i].Allowed {
					t.Errorf("call %d: %+v, %v; want it denied as invalid", i, verdicts[i], errs[i])
				}
				continue
			case 5:
				if verdicts[i].Reservation == "" || verdicts[i].Rule != "tokens" {
					t.Errorf("call %d: %+v, %v; want a reservation", i, verdicts[i], errs[i])
				}
				continue
			}
			if errs[i] != nil || verdicts[i].Rule != "search" {
				t.Errorf("call %d: %+v, %v", i, verdicts[i], errs[i])
			}
			if verdicts[i].Allowed {
				allowed++
			}
		}
		if allowed != 10 || !verdicts[0].Allowed || verdicts[19].Allowed {
			t.Errorf("%d allowed, want the first 10", allowed)
		}
		if v := peek(t, c, "/search", "u1"); v.Limits[0].Used != 10 {
			t.Errorf("used %d, want 10", v.Limits[0].Used)
		}
	})
}

// More requests than one message holds, by number and by size, are sent in several.
func TestDecideMany(t *testing.T) {
	overBoth(t, func(t *testing.T, over transport) {
		c := over.connect(t, newEngine(t))
		calls := make([]penstock.Call, 1100)
		for i := range calls {
			calls[i] = call("/search", strconv.Itoa(i))
			if i < 200 {
				calls[i].Attributes = append(calls[i].Attributes, penstock.Attribute{Name: "long", Value: strings.Repeat("x", 8000)})
			}
		}
		verdicts, errs := make([]penstock.Verdict, len(calls)), make([]error, len(calls))
		c.DecideEach(t.Context(), calls, verdicts, errs)
		for i := range calls {
			if errs[i] != nil || !verdicts[i].Allowed || verdicts[i].Limits[0].Used != 1 {
				t.Fatalf("call %d: %+v, %v; want it allowed and charged once", i, verdicts[i], errs[i])
			}
		}
	})
}

func peek(t *testing.T, c penstock.Decider, path, user string) *penstock.Verdict {
	t.Helper()
	var v penstock.Verdict
	call := call(path, user)
	call.Cost = 0
	if err := c.Decide(t.Context(), &call, &v); err != nil {
		t.Fatal(err)
	}
	return &v
}

func TestReservations(t *testing.T) {
	overBoth(t, func(t *testing.T, over transport) {
		c := over.connect(t, newEngine(t))
		reserve := func() string {
			t.Helper()
			var v penstock.Verdict
			call := call("/tokens", "u1")
			call.Cost, call.Reserve, call.TTL = 40, true, time.Minute
			if err := c.Decide(t.Context(), &call, &v); err != nil || v.Reservation == "" {
				t.Fatalf("%+v, %v: no reservation", v, err)
			}
			return v.Reservation
		}
		conclude := func(conclusion penstock.Conclusion) error {
			t.Helper()
			var v penstock.Verdict
			err := c.Conclude(t.Context(), &conclusion, &v)
			if v.Allowed != (err == nil) {
				t.Errorf("%v: %+v with error %v", conclusion.Verb, v, err)
			}
			return err
		}
		wantUsed := func(want int64) {
			t.Helper()
			if v := peek(t, c, "/tokens", "u1"); v.Limits[0].Used != want {
				t.Errorf("used %d, want %d", v.Limits[0].Used, want)
			}
		}

		first := reserve()
		wantUsed(40)
		for _, conclusion := range []penstock.Conclusion{
			{Reservation: first, Verb: penstock.Renew},
			{Reservation: first, Verb: penstock.Renew, TTL: time.Hour},
			{Reservation: first, Verb: penstock.Settle, Cost: 7},
			{Reservation: first, Verb: penstock.Settle, Cost: 7}, // changes nothing
		} {
			if err := conclude(conclusion); err != nil {
				t.Error(err)
			}
		}
		wantUsed(7)
		if err := conclude(penstock.Conclusion{Reservation: first, Verb: penstock.Settle, Cost: 8}); !errors.Is(err, penstock.ErrClosed) {
			t.Errorf("settled in another way: %v", err)
		}
		if err := conclude(penstock.Conclusion{Reservation: reserve(), Verb: penstock.Release}); err != nil {
			t.Error(err)
		}
		wantUsed(7)
		for _, id := range []string{"never-made", "a/b?c#d", "..", "%2F"} {
			if err := conclude(penstock.Conclusion{Reservation: id, Verb: penstock.Release}); !errors.Is(err, penstock.ErrNoReservation) {
				t.Errorf("release %q: %v", id, err)
			}
			if err := conclude(penstock.Conclusion{Reservation: id, Verb: penstock.Settle, Response: &penstock.Response{Status: 200}}); !errors.Is(err, penstock.ErrNoReservation) {
				t.Errorf("report %q: %v", id, err)
			}
		}
		for _, bad := range []penstock.Conclusion{
			{Reservation: first, Verb: 9}, {Verb: penstock.Release},
			{Reservation: first, Verb: penstock.Settle, Cost: -1}, {Reservation: first, Verb: penstock.Renew, TTL: -time.Hour},
		} {
			if err := conclude(bad); !errors.Is(err, penstock.ErrInvalid) {
				t.Errorf("%+v: %v, want it invalid", bad, err)
			}
		}
	})
}

// A client whose reply was lost sends the request again, and takes over what the original reserved: it is
// charged once, and no permit stays taken.
func TestLostReply(t *testing.T) {
	overBoth(t, func(t *testing.T, over transport) {
		c := over.connect(t, newEngine(t))
		reserve := func() *penstock.Verdict {
			t.Helper()
			var v penstock.Verdict
			call := call("/jobs", "u1")
			call.ID, call.Cost, call.Reserve = "job-1", 40, true
			if err := c.Decide(t.Context(), &call, &v); err != nil {
				t.Fatal(err)
			}
			return &v
		}
		conclude := func(reservation string, verb penstock.Verb, cost int64) {
			t.Helper()
			var v penstock.Verdict
			if err := c.Conclude(t.Context(), &penstock.Conclusion{Reservation: reservation, Verb: verb, Cost: cost}, &v); err != nil || !v.Allowed {
				t.Fatalf("%v: %+v, %v", verb, v, err)
			}
			if verb == penstock.Renew && v.ReservedFor != 30*time.Second {
				t.Errorf("renewed for %v, want the permit's 30s", v.ReservedFor)
			}
		}
		wantUsed := func(permits, cost int64) {
			t.Helper()
			if l := peek(t, c, "/jobs", "u1").Limits; l[0].Used != permits || l[1].Used != cost {
				t.Errorf("%d permits and %d are used, want %d and %d", l[0].Used, l[1].Used, permits, cost)
			}
		}

		lost := reserve()
		if lost.Duplicate || lost.OriginalReservation != "" || lost.ReservedFor != 30*time.Second {
			t.Fatalf("the original: %+v", lost)
		}
		again := reserve()
		if !again.Allowed || !again.Duplicate || again.Reservation == "" || again.Reservation == again.OriginalReservation || again.OriginalReservation != lost.Reservation {
			t.Fatalf("the duplicate: %+v", again)
		}
		wantUsed(2, 40)
		if denied := reserve(); denied.Allowed || denied.Reservation != "" || denied.OriginalReservation != lost.Reservation {
			t.Errorf("a duplicate without a permit: %+v", denied)
		}
		conclude(again.Reservation, penstock.Release, 0)
		wantUsed(1, 40)
		conclude(again.OriginalReservation, penstock.Renew, 0)
		conclude(again.OriginalReservation, penstock.Settle, 5000)
		wantUsed(0, 5000)
	})
}
