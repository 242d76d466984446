package wire

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
)

// verdict is the JSON format, in its order.
type verdict struct {
	Allowed     bool             `json:"allowed"`
	Rule        string           `json:"rule"`
	Reason      penstock.Reason  `json:"reason"`
	Quality     penstock.Quality `json:"quality"`
	Limit       int64            `json:"limit"`
	Remaining   int64            `json:"remaining"`
	RetryAfter  *int64           `json:"retry_after_ms"`
	ResetAfter  *int64           `json:"reset_after_ms"`
	Delay       int64            `json:"delay_ms"`
	Duplicate   bool             `json:"duplicate"`
	Limits      []limit          `json:"limits"`
	Reservation string           `json:"reservation,omitempty"`

	ReservedFor         int64  `json:"reserved_for_ms,omitempty"`
	OriginalReservation string `json:"original_reservation,omitempty"`

	BannedFor    *int64 `json:"banned_for_ms,omitempty"`
	RulesVersion int64  `json:"rules_version,omitempty"`
	Error        string `json:"error,omitempty"`
}

type limit struct {
	Rule       string             `json:"rule"`
	Algorithm  penstock.Algorithm `json:"algorithm"`
	Limit      int64              `json:"limit"`
	Window     int64              `json:"window_ms"`
	Allowed    bool               `json:"allowed"`
	Remaining  int64              `json:"remaining"`
	RetryAfter *int64             `json:"retry_after_ms"`
	ResetAfter *int64             `json:"reset_after_ms"`
	Used       int64              `json:"used"`
	Policy     string             `json:"policy"`
	Count      int64              `json:"count"`
	Refill     penstock.Refill    `json:"refill,omitempty"`
	Delay      int64              `json:"delay_ms,omitempty"`
	Shadow     bool               `json:"shadow,omitempty"`
	Banned     bool               `json:"banned,omitempty"`
}

// ParseVerdict parses a verdict into v, and reuses v's memory. Its instants are relative to now on the reader's
// clock, since the clocks of two machines differ.
func ParseVerdict(body []byte, now penstock.Instant, v *penstock.Verdict) error {
	var read verdict
	v.Reset()
	if err := json.Unmarshal(body, &read); err != nil {
		return fmt.Errorf("read a verdict: %w", err)
	}
	read.fill(v, now)
	return nil
}

// ParseResults parses the verdicts of a batch; there must be as many as in verdicts. Requests that could not be
// decided get an error that wraps [penstock.ErrInvalid].
func ParseResults(body []byte, now penstock.Instant, verdicts []penstock.Verdict, errs []error) error {
	var read struct {
		Results []verdict `json:"results"`
	}
	if err := json.Unmarshal(body, &read); err != nil {
		return fmt.Errorf("read verdicts: %w", err)
	}
	if len(read.Results) != len(verdicts) {
		return fmt.Errorf("read verdicts: %d for %d calls", len(read.Results), len(verdicts))
	}
	for i := range read.Results {
		verdicts[i].Reset()
		read.Results[i].fill(&verdicts[i], now)
		errs[i] = nil
		if text := read.Results[i].Error; text != "" {
			errs[i] = fmt.Errorf("%w: %s", penstock.ErrInvalid, text)
		}
	}
	return nil
}

// fill sets an empty verdict.
func (r *verdict) fill(v *penstock.Verdict, now penstock.Instant) {
	v.Allowed, v.Rule, v.Reason, v.Quality = r.Allowed, r.Rule, r.Reason, r.Quality
	v.Duplicate, v.Delay = r.Duplicate, fromMilliseconds(&r.Delay)
	v.Reservation, v.OriginalReservation = r.Reservation, r.OriginalReservation
	v.ReservedFor, v.RulesVersion, v.Now = fromMilliseconds(&r.ReservedFor), r.RulesVersion, now
	if r.BannedFor != nil {
		v.BannedUntil = now.Add(fromMilliseconds(r.BannedFor))
	}
	v.Decision = penstock.Decision{
		Allowed: r.Allowed, Limit: r.Limit, Remaining: r.Remaining,
		RetryAfter: fromMilliseconds(r.RetryAfter), ResetAfter: fromMilliseconds(r.ResetAfter),
	}
	for i := range r.Limits {
		v.Limits = append(v.Limits, r.Limits[i].verdict())
	}
}

func (l *limit) verdict() penstock.LimitVerdict {
	return penstock.LimitVerdict{
		Rule: l.Rule, Policy: l.Policy, Shadow: l.Shadow, Banned: l.Banned,
		Algorithm: l.Algorithm, Refill: l.Refill, Count: l.Count, Window: fromMilliseconds(&l.Window),
		Decision: penstock.Decision{
			Allowed: l.Allowed, Limit: l.Limit, Used: l.Used, Remaining: l.Remaining,
			RetryAfter: fromMilliseconds(l.RetryAfter), ResetAfter: fromMilliseconds(l.ResetAfter),
			Delay: fromMilliseconds(&l.Delay),
		},
	}
}

func fromMilliseconds(ms *int64) time.Duration {
	if ms == nil {
		return penstock.Never
	}
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(max(-most, min(*ms, most))) * time.Millisecond
}
