package penstock

import (
	"context"
	"time"

	"github.com/penstock-io/penstock/internal/enum"
)

// A Decider answers calls. *engine.Engine is one, and so is a client of a remote Penstock.
//
// Decide always leaves a usable verdict: with an error it is what the rules' failure policies say,
// and the error tells why they were asked. An error that wraps [ErrInvalid] blames the call; the
// verdict then denies it.
type Decider interface {
	Decide(ctx context.Context, c *Call, v *Verdict) error
}

// A Concluder ends or prolongs what an allowed call has reserved: an estimate, or a place among the
// calls that may run at the same time. Errors are those of a [Settler].
type Concluder interface {
	Conclude(ctx context.Context, c *Conclusion, v *Verdict) error
}

// A Conclusion is about the reservation of one verdict.
type Conclusion struct {
	Reservation string
	Verb        Verb
	Cost        int64         // with Settle: the true cost
	TTL         time.Duration // with Renew; 0: as the rules say

	// Response, if given, is what Settle takes the true cost from, each rule in its own way,
	// instead of Cost.
	Response *Response
}

// A Response is what is known of a call when it is over.
type Response struct {
	Header func(name string) string // the first value; "" if there is none
	Bytes  int64                    // of the body; UnknownBytes keeps the estimate of rules that charge them
}

// UnknownBytes is the size of a response nobody could count.
const UnknownBytes = -1

// A Verdict is the answer to a call. Reuse one to decide without allocating.
type Verdict struct {
	Allowed   bool
	Reason    Reason
	Quality   Quality
	Duplicate bool // of an allowed request: some rule charged nothing for it

	// Rule is the one that decided, and Decision its numbers: of the limits that deny, the one
	// with the longest wait; of a call that passes, the one with the least left. Empty and zero if
	// no limit had a say.
	Rule     string
	Decision Decision

	// Delay is how long the call is to be held before it goes on, for leaky buckets.
	Delay time.Duration

	// BannedUntil is not 0 where Reason is ReasonBanned.
	BannedUntil Instant

	// Limits are all that applied, in the rules' order, shadow rules included.
	Limits []LimitVerdict

	// Reservation names what this request reserved, for a Conclusion; "" if it reserved nothing.
	// The program that runs the request concludes it when the request is over. A duplicate reserves only
	// permits of concurrency limits.
	Reservation string

	// ReservedFor is how long Reservation stays open unless it is renewed; 0 if there is none. What it
	// is of several rules ends at different times: this is the first.
	ReservedFor time.Duration

	// OriginalReservation, of a duplicate, names what the original request reserved, also if the
	// duplicate is denied. The original may still be running, and concludes it. A client that lost the
	// reply to the original takes over: it releases Reservation, which is only a second permit, and
	// runs and concludes the request under this name.
	OriginalReservation string

	RulesVersion int64
	Now          Instant // the instant it was decided at
}

// A LimitVerdict is what one limit of one rule said.
type LimitVerdict struct {
	Rule   string
	Policy string // the limit's name: the rule's, or rule:1m if the rule has several
	Shadow bool   // of a rule that is only tried: it had no say
	Banned bool   // the rule has banned the caller

	Algorithm Algorithm
	Count     int64         // how much passes per window; a bucket's capacity is Limit
	Window    time.Duration // of a calendar limit, the length of the current period; of a concurrency limit, its leases' time to live
	Decision
}

// Reset empties the verdict and keeps its memory.
func (v *Verdict) Reset() { *v = Verdict{Limits: v.Limits[:0]} }

// Add reports one more limit. It tells whether the limit now speaks for the verdict, as the strictest so
// far: of the limits that deny, the one with the longest wait; otherwise the one with the least left.
// Allowed and Now are set before. Shadow limits are listed and have no say.
func (v *Verdict) Add(l LimitVerdict) (speaks bool) {
	v.Limits = append(v.Limits, l)
	if l.Shadow {
		return false
	}
	v.Delay = max(v.Delay, l.Delay)
	if speaks = v.Rule == "" || v.isStricter(&l.Decision); speaks {
		v.Rule, v.Decision = l.Rule, l.Decision
	}
	return speaks
}

// isStricter reports whether a decision, rather than the verdict's own, is what the client is told.
func (v *Verdict) isStricter(d *Decision) bool {
	switch {
	case v.Allowed:
		return d.Remaining < v.Decision.Remaining
	case d.Allowed || v.Decision.Allowed:
		return !d.Allowed && v.Decision.Allowed
	case d.RetryAfter == Never || v.Decision.RetryAfter == Never:
		return v.Decision.RetryAfter != Never
	}
	return d.RetryAfter > v.Decision.RetryAfter
}

// Reason says why a call was decided as it was.
type Reason uint8

const (
	ReasonOK         Reason = iota // every limit that applies lets it pass
	ReasonNoRule                   // no limit applies
	ReasonOverLimit                // a limit denies it
	ReasonBanned                   // the caller is banned by a rule, which this call may have brought on
	ReasonDenyList                 // always refused
	ReasonAllowList                // never limited
	ReasonDuplicate                // a repeat of an allowed call
	ReasonStoreError               // the store did not answer: a failure policy did
	ReasonRuleError                // a rule's expression could not be evaluated, and its on_error is deny
)

var reasonNames = [...]string{"ok", "no_rule", "over_limit", "banned", "deny_list", "allow_list", "duplicate", "store_error", "rule_error"}

func (r Reason) String() string { return enum.Name(reasonNames[:], r, "Reason") }

// UnmarshalText reads what String writes.
func (r *Reason) UnmarshalText(text []byte) error {
	return enum.Parse(r, reasonNames[:], text, "reason")
}

func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Quality says what a verdict was decided on.
type Quality uint8

const (
	QualityExact  Quality = iota // the shared state, or no state was needed
	QualityLeased                // permits that were taken of the shared state earlier
	QualityLocal                 // what this node has counted by itself
	QualityOpen                  // nothing: a failure policy lets the call pass
	QualityClosed                // nothing: a failure policy denies the call
)

var qualityNames = [...]string{"exact", "leased", "local", "open", "closed"}

func (q Quality) String() string { return enum.Name(qualityNames[:], q, "Quality") }

// UnmarshalText reads what String writes.
func (q *Quality) UnmarshalText(text []byte) error {
	return enum.Parse(q, qualityNames[:], text, "quality")
}

func (q Quality) MarshalText() ([]byte, error) { return []byte(q.String()), nil }
