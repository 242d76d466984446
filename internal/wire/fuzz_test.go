package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
)

// FuzzCheck checks that an accepted body means the same to encoding/json, and survives a round trip.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"domain":"d","attributes":{"a":"\ud834\udd1e\\","b":""},"cost":3,"id":"i","max_delay_ms":5,"ttl_ms":9}`))
	f.Add([]byte(`{"attributes":{"a":"x","a":"y"}}`))
	f.Add([]byte(`{"attributes":{"a":"\ud800"},"x":[{"y":"]}"},null,true,1.5e3]}`))
	f.Add([]byte("\t{ \"attributes\"\r:\n{ } } "))
	f.Fuzz(func(t *testing.T, body []byte) {
		var got penstock.Call
		if ParseReserve(body, &got) != nil {
			return
		}
		var want struct {
			Domain     string            `json:"domain"`
			Attributes map[string]string `json:"attributes"`
			Cost       *int64            `json:"cost"`
			ID         string            `json:"id"`
			MaxDelay   int64             `json:"max_delay_ms"`
			TTL        int64             `json:"ttl_ms"`
		}
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("accepted %q, encoding/json: %v", body, err)
		}
		cost := int64(1)
		if want.Cost != nil {
			cost = *want.Cost
		}
		if got.Domain != want.Domain || got.ID != want.ID || got.Cost != cost || len(got.Attributes) != len(want.Attributes) ||
			got.MaxDelay.Milliseconds() != want.MaxDelay || got.TTL.Milliseconds() != want.TTL {
			t.Fatalf("%q: got %+v, want %+v", body, got, want)
		}
		for _, a := range got.Attributes {
			if value, ok := want.Attributes[a.Name]; !ok || value != a.Value {
				t.Fatalf("%q: attribute %q is %q, want %q", body, a.Name, a.Value, value)
			}
		}
		var again penstock.Call
		if err := ParseReserve(AppendCall(nil, &got), &again); err != nil {
			t.Fatalf("%q written again: %v", body, err)
		}
		if len(got.Attributes) == 0 {
			got.Attributes, again.Attributes = nil, nil
		}
		if !reflect.DeepEqual(got, again) {
			t.Fatalf("%q: got %+v, written and read again %+v", body, got, again)
		}
	})
}

// FuzzBatch checks that no input panics.
func FuzzBatch(f *testing.F) {
	f.Add([]byte(`{"calls":[{"attributes":{"a":"b"}},{"attributes":{},"cost":0}]}`))
	f.Add([]byte(`{"calls":[[],"\"",1,null]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		calls, err := ParseBatch(body)
		if err != nil {
			return
		}
		again, err := ParseBatch(AppendBatch(nil, calls))
		if err != nil || len(again) != len(calls) {
			t.Fatalf("%q: %d calls, written and read again %d: %v", body, len(calls), len(again), err)
		}
	})
}

// FuzzVerdict checks that the encoder writes what encoding/json would, and that the result can be parsed.
func FuzzVerdict(f *testing.F) {
	f.Add("rule", "rule:1m", "id", int64(100), int64(-1), int64(1500), uint16(0xffff))
	f.Add("a\"<\x00é\u2028", "", "", int64(-5), int64(1), int64(0), uint16(0))
	f.Fuzz(func(t *testing.T, rule, policy, id string, count, retry, wait int64, bits uint16) {
		if !utf8.ValidString(rule) || !utf8.ValidString(policy) || !utf8.ValidString(id) {
			return // rules and reservations are valid
		}
		v := made(rule, policy, id, count, retry, wait, bits)
		got := AppendVerdict(nil, v)
		want, err := json.Marshal(formatted(v))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
		var again penstock.Verdict
		if err := ParseVerdict(got, v.Now, &again); err != nil {
			t.Fatal(err)
		}
		if second := AppendVerdict(nil, &again); !bytes.Equal(second, got) {
			t.Fatalf("got %s\nread and written again %s", got, second)
		}
	})
}

func made(rule, policy, id string, count, retry, wait int64, bits uint16) *penstock.Verdict {
	on := func(i int) bool { return bits&(1<<i) != 0 }
	const most = int64(algorithm.MaxWindow)
	d := penstock.Decision{
		Allowed: on(0), Limit: count, Used: count / 2, Remaining: count / 3,
		RetryAfter: max(penstock.Never, time.Duration(retry%most)), ResetAfter: max(0, time.Duration(wait%most)),
	}
	v := &penstock.Verdict{
		Allowed: on(0), Reason: penstock.Reason(bits >> 1 % 8), Quality: penstock.Quality(bits >> 4 % 3), Duplicate: on(6),
		Rule: rule, Decision: d, Delay: max(0, time.Duration(wait%most)), Reservation: id, RulesVersion: count, Now: 1e15,
		ReservedFor: max(0, time.Duration(wait%most)), OriginalReservation: policy,
	}
	if on(7) {
		v.BannedUntil = v.Now.Add(max(0, time.Duration(wait%most)))
	}
	if on(8) {
		l := penstock.LimitVerdict{Rule: rule, Policy: policy, Shadow: on(9), Banned: on(10), Algorithm: penstock.TokenBucket, Count: count / 5, Window: time.Minute, Decision: d}
		l.Delay, l.Refill = v.Delay, penstock.Refill(bits>>11%2)
		v.Limits = append(v.Limits, l, penstock.LimitVerdict{Algorithm: penstock.Concurrency})
	}
	return v
}

// formatted returns a verdict in the types of the format.
func formatted(v *penstock.Verdict) *verdict {
	out := &verdict{
		Allowed: v.Allowed, Rule: v.Rule, Reason: v.Reason, Quality: v.Quality, Limit: v.Decision.Limit, Remaining: v.Decision.Remaining,
		RetryAfter: ceiling(v.Decision.RetryAfter), ResetAfter: ceiling(v.Decision.ResetAfter), Delay: *ceiling(v.Delay),
		Duplicate: v.Duplicate, Limits: []limit{}, Reservation: v.Reservation, RulesVersion: v.RulesVersion,
		ReservedFor: *ceiling(v.ReservedFor), OriginalReservation: v.OriginalReservation,
	}
	if v.BannedUntil != 0 {
		out.BannedFor = ceiling(v.BannedUntil.Sub(v.Now))
	}
	for _, l := range v.Limits {
		out.Limits = append(out.Limits, limit{
			Rule: l.Rule, Algorithm: l.Algorithm, Limit: l.Limit, Window: *ceiling(l.Window), Allowed: l.Allowed, Remaining: l.Remaining,
			RetryAfter: ceiling(l.RetryAfter), ResetAfter: ceiling(l.ResetAfter), Used: l.Used, Policy: l.Policy, Count: l.Count,
			Refill: l.Refill, Delay: *ceiling(l.Delay), Shadow: l.Shadow, Banned: l.Banned,
		})
	}
	return out
}

func ceiling(d time.Duration) *int64 {
	if d < 0 {
		return nil
	}
	ms := int64((d + time.Millisecond - 1) / time.Millisecond)
	return &ms
}
