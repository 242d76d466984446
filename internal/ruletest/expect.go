package ruletest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
)

// A Difference is an expectation that a verdict does not meet.
type Difference struct {
	Field string `json:"field"`
	Want  string `json:"want"`
	Got   string `json:"got"`

	at []any // within expect
}

// differenceList collects the differences of one verdict.
type differenceList struct {
	list []Difference
	at   []any // path of the part being compared
	name string
}

func (d *differenceList) add(field, want, got string) {
	d.list = append(d.list, Difference{d.name + field, want, got, append(slices.Clone(d.at), field)})
}

// compareField records a field that is expected and differs.
func compareField[T comparable](d *differenceList, field string, want *T, got T) {
	if want != nil && *want != got {
		d.add(field, fmt.Sprint(*want), fmt.Sprint(got))
	}
}

// sameSpan compares in whole milliseconds, rounded up, as clients see them.
func sameSpan[T ~int64](d *differenceList, field string, want *T, got time.Duration) {
	if want == nil {
		return
	}
	if want, got := showSpan(time.Duration(*want)), showSpan(got); want != got {
		d.add(field, want, got)
	}
}

// differences returns everything in which a verdict differs from the expectation.
func (e *Expectation) differences(v *penstock.Verdict, err error) []Difference {
	d := &differenceList{}
	if !e.sameError(d, err) {
		return d.list
	}
	compareField(d, "allowed", e.Allowed, v.Allowed)
	compareField(d, "reason", e.Reason, v.Reason)
	if e.Rule != "" && e.Rule != v.Rule {
		d.add("rule", e.Rule, cmp.Or(v.Rule, "none"))
	}
	compareField(d, "limit", e.Limit, v.Decision.Limit)
	compareField(d, "used", e.Used, v.Decision.Used)
	compareField(d, "remaining", e.Remaining, v.Decision.Remaining)
	sameSpan(d, "retry_after", e.RetryAfter, v.Decision.RetryAfter)
	sameSpan(d, "reset_after", e.ResetAfter, v.Decision.ResetAfter)
	sameSpan(d, "delay", e.Delay, v.Delay)
	compareField(d, "duplicate", e.Duplicate, v.Duplicate)
	sameSpan(d, "banned_for", e.BannedFor, bannedFor(v))
	e.sameShadows(d, v)
	for i := range e.Limits {
		d.at, d.name = []any{"limits", i}, e.Limits[i].Policy+" "
		e.Limits[i].differences(d, v)
	}
	return d.list
}

// sameError reports whether there is a verdict to compare.
func (e *Expectation) sameError(d *differenceList, err error) bool {
	switch {
	case err == nil && e.Error == "":
		return true
	case err == nil:
		d.add("error", fmt.Sprintf("%q", e.Error), "none")
		return false
	case e.Error == "":
		d.add("error", "none", err.Error())
		return false
	case !strings.Contains(err.Error(), e.Error):
		d.add("error", fmt.Sprintf("%q", e.Error), err.Error())
		return false
	}
	return true
}

func bannedFor(v *penstock.Verdict) time.Duration {
	if v.BannedUntil == 0 {
		return 0
	}
	return v.BannedUntil.Sub(v.Now)
}

// sameShadows compares the shadow rules that would have denied the request.
func (e *Expectation) sameShadows(d *differenceList, v *penstock.Verdict) {
	if e.WouldDeny == nil {
		return
	}
	got := []string{}
	for i := range v.Limits {
		if l := &v.Limits[i]; l.Shadow && !l.Allowed {
			got = append(got, l.Rule)
		}
	}
	want := slices.Sorted(slices.Values(e.WouldDeny))
	slices.Sort(got)
	if want, got = slices.Compact(want), slices.Compact(got); !slices.Equal(want, got) {
		d.add("would_deny", fmt.Sprint(want), fmt.Sprint(got))
	}
}

func (e *LimitExpectation) differences(d *differenceList, v *penstock.Verdict) {
	i := slices.IndexFunc(v.Limits, func(l penstock.LimitVerdict) bool { return l.Policy == e.Policy })
	if i < 0 {
		names := make([]string, len(v.Limits))
		for i := range v.Limits {
			names[i] = v.Limits[i].Policy
		}
		d.add("policy", "to apply", fmt.Sprint(names))
		return
	}
	l := &v.Limits[i]
	compareField(d, "allowed", e.Allowed, l.Allowed)
	compareField(d, "shadow", e.Shadow, l.Shadow)
	compareField(d, "banned", e.Banned, l.Banned)
	compareField(d, "limit", e.Limit, l.Limit)
	compareField(d, "used", e.Used, l.Used)
	compareField(d, "remaining", e.Remaining, l.Remaining)
	sameSpan(d, "retry_after", e.RetryAfter, l.RetryAfter)
	sameSpan(d, "reset_after", e.ResetAfter, l.ResetAfter)
	sameSpan(d, "delay", e.Delay, l.Delay)
}
