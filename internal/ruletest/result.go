package ruletest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

// A Result is the outcome of a test. The test passed if there are no failures.
type Result struct {
	rules.Position
	Name     string    `json:"name"`
	Calls    int       `json:"calls"`
	Failures []Failure `json:"failures,omitempty"`
}

// A Failure is a step that did not meet its expectation. For several requests it is the first failure.
type Failure struct {
	rules.Position        // of the expectation
	Text           string // the line there

	What        string        // for example: call 3 of 10
	At          time.Duration // from the start of the test
	Differences []Difference
	Call        *penstock.Call    // nil for the end of a reservation
	Verdict     *penstock.Verdict // nil: there is an error instead
	Unevaluated []string          // rules that could not be evaluated for the request, and why
}

// String shows the failure at its place, with everything that is known about the limits.
func (f *Failure) String() string {
	var b strings.Builder
	message := fmt.Sprintf("not as expected: %s at %s", f.What, showSpan(f.At))
	b.WriteString(rules.Problem{Position: f.Position, Text: f.Text, Message: message}.String())
	width := 0
	for _, d := range f.Differences {
		width = max(width, len(d.Field))
	}
	for _, d := range f.Differences {
		fmt.Fprintf(&b, "\n  %-*s  expected %s, got %s", width, d.Field, d.Want, d.Got)
	}
	if f.Call != nil {
		fmt.Fprintf(&b, "\n  the call     %s", showCall(f.Call))
	}
	if f.Verdict != nil {
		fmt.Fprintf(&b, "\n  the verdict  %s", showVerdict(f.Verdict))
		for i := range f.Verdict.Limits {
			fmt.Fprintf(&b, "\n  the limit    %s", showLimit(&f.Verdict.Limits[i]))
		}
	}
	for _, why := range f.Unevaluated {
		fmt.Fprintf(&b, "\n  failed       %s", why)
	}
	return b.String()
}

func showCall(c *penstock.Call) string {
	parts := []string{}
	if c.Domain != "" {
		parts = append(parts, "domain "+c.Domain)
	}
	for _, a := range c.Attributes {
		parts = append(parts, fmt.Sprintf("%s=%s", a.Name, a.Value))
	}
	parts = append(parts, fmt.Sprintf("cost %d", c.Cost))
	if c.ID != "" {
		parts = append(parts, fmt.Sprintf("id %q", c.ID))
	}
	if c.Reserve {
		parts = append(parts, "reserve")
	}
	return strings.Join(parts, " ")
}

func showVerdict(v *penstock.Verdict) string {
	text := "denied"
	if v.Allowed {
		text = "allowed"
	}
	text += ", " + v.Reason.String()
	if v.Rule != "" {
		text += ", by " + v.Rule
	}
	if v.BannedUntil != 0 {
		text += ", banned for " + showSpan(bannedFor(v))
	}
	if v.Delay != 0 {
		text += ", held for " + showSpan(v.Delay)
	}
	if v.Duplicate {
		text += ", a duplicate"
	}
	return text
}

func showLimit(l *penstock.LimitVerdict) string {
	text := fmt.Sprintf("%s %s: %d of %d used, %d left", l.Policy, l.Algorithm, l.Used, l.Limit, l.Remaining)
	if !l.Allowed {
		text += ", denies, retry after " + showSpan(l.RetryAfter)
	}
	if l.ResetAfter != 0 {
		text += ", resets after " + showSpan(l.ResetAfter)
	}
	if l.Shadow {
		text += " (shadow)"
	}
	if l.Banned {
		text += " (banned)"
	}
	return text
}

// verdictJSON is a verdict with the names that the decision API uses.
type verdictJSON struct {
	Allowed bool        `json:"allowed"`
	Reason  string      `json:"reason"`
	Rule    string      `json:"rule,omitempty"`
	Limits  []limitJSON `json:"limits"`
}

type limitJSON struct {
	Policy       string `json:"policy"`
	Algorithm    string `json:"algorithm"`
	Shadow       bool   `json:"shadow,omitempty"`
	Banned       bool   `json:"banned,omitempty"`
	Allowed      bool   `json:"allowed"`
	Limit        int64  `json:"limit"`
	Used         int64  `json:"used"`
	Remaining    int64  `json:"remaining"`
	RetryAfterMS *int64 `json:"retry_after_ms"` // null: never
	ResetAfterMS int64  `json:"reset_after_ms"`
}

// MarshalJSON writes what String shows.
func (f Failure) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		rules.Position
		What        string       `json:"what"`
		At          string       `json:"at"`
		Differences []Difference `json:"differences"`
		Verdict     *verdictJSON `json:"verdict,omitempty"`
		Unevaluated []string     `json:"unevaluated,omitempty"`
	}{f.Position, f.What, showSpan(f.At), f.Differences, toJSON(f.Verdict), f.Unevaluated})
}

func toJSON(v *penstock.Verdict) *verdictJSON {
	if v == nil {
		return nil
	}
	shown := &verdictJSON{v.Allowed, v.Reason.String(), v.Rule, make([]limitJSON, len(v.Limits))}
	for i, l := range v.Limits {
		shown.Limits[i] = limitJSON{
			Policy: l.Policy, Algorithm: l.Algorithm.String(), Shadow: l.Shadow, Banned: l.Banned, Allowed: l.Allowed,
			Limit: l.Limit, Used: l.Used, Remaining: l.Remaining, ResetAfterMS: ceilMilliseconds(l.ResetAfter).Milliseconds(),
		}
		if l.RetryAfter != penstock.Never {
			shown.Limits[i].RetryAfterMS = new(ceilMilliseconds(l.RetryAfter).Milliseconds())
		}
	}
	return shown
}
