package wire

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/storage"
)

// The field order and the numbers are a contract, so the whole text is compared.
func TestVerdictAsDocumented(t *testing.T) {
	d := penstock.Decision{Limit: 100, Used: 104, RetryAfter: 11739*time.Millisecond + 1, ResetAfter: time.Minute}
	v := penstock.Verdict{
		Rule: "search-per-user", Reason: penstock.ReasonOverLimit, Decision: d,
		Limits: []penstock.LimitVerdict{
			{Rule: "search-per-user", Policy: "search-per-user", Algorithm: penstock.SlidingWindowCounter, Count: 100, Window: time.Minute, Decision: d},
			{Rule: "tried", Policy: "tried:1h", Shadow: true, Algorithm: penstock.TokenBucket, Refill: penstock.Interval, Window: time.Hour, Decision: penstock.Decision{RetryAfter: penstock.Never}},
		},
	}
	const want = `{"allowed":false,"rule":"search-per-user","reason":"over_limit","quality":"exact",` +
		`"limit":100,"remaining":0,"retry_after_ms":11740,"reset_after_ms":60000,"delay_ms":0,"duplicate":false,` +
		`"limits":[{"rule":"search-per-user","algorithm":"sliding_window_counter","limit":100,"window_ms":60000,"allowed":false,"remaining":0,"retry_after_ms":11740,"reset_after_ms":60000,"used":104,"policy":"search-per-user","count":100},` +
		`{"rule":"tried","algorithm":"token_bucket","limit":0,"window_ms":3600000,"allowed":false,"remaining":0,"retry_after_ms":null,"reset_after_ms":0,"used":0,"policy":"tried:1h","count":0,"refill":"interval","shadow":true}]}`
	if got := string(AppendVerdict(nil, &v)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestVerdictBothWays(t *testing.T) {
	const now = penstock.Instant(5e15)
	d := penstock.Decision{Allowed: true, Limit: 10, Remaining: 4, ResetAfter: time.Second}
	l := d
	l.Used, l.Delay, l.RetryAfter = 6, 2*time.Millisecond, penstock.Never
	want := penstock.Verdict{
		Allowed: true, Rule: "r", Reason: penstock.ReasonDuplicate, Quality: penstock.QualityLocal, Duplicate: true, Decision: d,
		Delay: 3 * time.Millisecond, BannedUntil: now.Add(time.Minute), Reservation: "id", RulesVersion: 9, Now: now,
		ReservedFor: time.Minute, OriginalReservation: "first",
		Limits: []penstock.LimitVerdict{{Rule: "r", Policy: "r:1m", Banned: true, Algorithm: penstock.TokenBucket, Refill: penstock.Interval, Count: 8, Window: time.Minute, Decision: l}},
	}
	var got penstock.Verdict
	if err := ParseVerdict(AppendVerdict(nil, &want), now, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestAnswersAreReadLeniently(t *testing.T) {
	var v penstock.Verdict
	if err := ParseVerdict([]byte(`{"allowed":true,"reason":"ok","news":{"x":1},"limits":[]}`), 1, &v); err != nil || !v.Allowed {
		t.Errorf("got %+v, %v", v, err)
	}
	for _, body := range []string{``, `[]`, `{"allowed":"yes"}`, `{"reason":"because"}`} {
		if err := ParseVerdict([]byte(body), 1, &v); err == nil || v.Allowed {
			t.Errorf("%s: read as %+v", body, v)
		}
	}
}

func TestResults(t *testing.T) {
	sent, errs := []penstock.Verdict{{Allowed: true, Rule: "a"}, {Rule: "b"}}, []error{nil, errors.New(`cost "x"`)}
	body := AppendResults(nil, sent, errs)
	got, gotErrs := make([]penstock.Verdict, 2), []error{errors.New("of the batch before"), nil}
	if err := ParseResults(body, 0, got, gotErrs); err != nil {
		t.Fatal(err)
	}
	if !got[0].Allowed || got[1].Rule != "b" || gotErrs[0] != nil || !errors.Is(gotErrs[1], penstock.ErrInvalid) || !strings.Contains(gotErrs[1].Error(), `cost "x"`) {
		t.Errorf("got %+v, %v", got, gotErrs)
	}
	if err := ParseResults(body, 0, got[:1], gotErrs); err == nil || err.Error() != "read verdicts: 2 for 1 calls" {
		t.Errorf("two results for one call: %v", err)
	}
}

func TestConclusionsBothWays(t *testing.T) {
	if cost, err := ParseSettle(AppendSettle(nil, 37)); cost != 37 || err != nil {
		t.Errorf("got %d, %v", cost, err)
	}
	for _, ttl := range []time.Duration{0, time.Millisecond, storage.MaxReserve} {
		if got, err := ParseRenew(AppendRenew(nil, ttl)); got != ttl || err != nil {
			t.Errorf("%v: got %v, %v", ttl, got, err)
		}
	}
}

func TestEncodingAllocatesNothing(t *testing.T) {
	v := made("search-per-user", "search-per-user:1m", "id", 100, 5e9, 6e9, 0x1ff)
	buffer := AppendVerdict(nil, v)
	if n := testing.AllocsPerRun(100, func() { buffer = AppendVerdict(buffer[:0], v) }); n != 0 {
		t.Errorf("%v allocations for a verdict", n)
	}
}
