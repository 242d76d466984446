package penstock

import (
	"context"
	"time"

	"github.com/penstock-io/penstock/internal/enum"
)

// A Decider decides requests. *engine.Engine is one, and so is a client of a remote Penstock.
//
// Decide always leaves a usable verdict. With an error, the verdict follows the rules' failure policies, and
// the error says why they were needed. An error that wraps [ErrInvalid] means that the request is invalid;
// the verdict then denies it.
type Decider interface {
	Decide(ctx context.Context, c *Call, v *Verdict) error
}

// A Concluder settles, releases or renews what an allowed request has reserved: an estimated cost, or a
// permit of a concurrency limit. Errors are those of a [storage.Settler].
type Concluder interface {
	Conclude(ctx context.Context, c *Conclusion, v *Verdict) error
}

// A Conclusion settles, releases or renews the reservation of one verdict.
type Conclusion struct {
	Reservation string
	Verb        Verb
	Cost        int64         // with Settle: the true cost; with Renew: what to charge in addition under rules that cut
	TTL         time.Duration // with Renew; 0: as the rules say

	// Response, if set, replaces Cost: Settle takes the true cost from it, as each rule specifies.
	Response *Response
}

// A Response is what is known of a request when it has finished.
type Response struct {
	// Status is the HTTP status, or the one that corresponds to the status of a gRPC response. 0 and 499 mean that the
	// client disconnected before the response was known. Duration is how long it took until the response began. Rules
	// charge, refund and strike by them.
	Status   int
	Duration time.Duration

	Header func(name string) string // the first value; "" if there is none; nil: the response has no headers
	Bytes  int64                    // of the body; with UnknownBytes, rules that charge bytes keep their estimate

	// JSON returns a field of the body that [Verdict.Metering] names. If it is unknown, or JSON is nil, the rule keeps
	// its estimate.
	JSON func(field string) (n int64, ok bool)

	Charged int64 // what renewals have charged in addition
}

// UnknownBytes is the size of a response whose bytes were not counted.
const UnknownBytes = -1

// A Verdict is the result for a request. Reuse one to decide without allocating.
type Verdict struct {
	Allowed   bool
	Reason    Reason
	Quality   Quality
	Duplicate bool // of an allowed request: at least one rule recognised a duplicate and charged nothing

	// Rule is the rule that decided, and Decision its numbers: of the limits that deny, the one with the
	// longest wait; of an allowed request, the one with the least left. They are empty and zero if no limit
	// applied.
	Rule     string
	Decision Decision

	// Delay is how long to hold the request before it proceeds, for leaky buckets.
	Delay time.Duration

	// BannedUntil is when the ban or the block ends. It is set if Reason is ReasonBanned or ReasonBlocked.
	BannedUntil Instant

	// CacheFor is how long this denial can be given to every request that has the same values of the attributes in
	// [Call.CacheBy], without asking: only an operator could allow one of them earlier. 0 means not at all. Only an
	// engine's Decide sets it.
	CacheFor time.Duration

	// Limits are all limits that applied, in the order of the rules, shadow rules included.
	Limits []LimitVerdict

	// Reservation names what this request reserved, for a Conclusion; "" if it reserved nothing. The program
	// that runs the request concludes it when the request has finished. A duplicate reserves only permits of
	// concurrency limits.
	Reservation string

	// ReservedFor is how long Reservation stays open unless it is renewed; 0 if there is none. If several
	// rules reserved something, their reservations end at different times: this is the first.
	ReservedFor time.Duration

	// SettleEarly says that the header of the response decides everything that Reservation holds. If it is
	// settled before that header is sent, the client can be told the corrected numbers. A remote Penstock never
	// sets it.
	SettleEarly bool

	// OriginalReservation, of a duplicate, names what the original request reserved, even if the duplicate is
	// denied. The original may still be running, and concludes it. A client that lost the reply to the
	// original takes over: it releases Reservation, which is only a second permit, and runs and concludes the
	// request under this name.
	OriginalReservation string

	// Metering says what the rules take from the body of the response; nil: nothing.
	Metering *Metering

	RulesVersion int64
	Now          Instant // when it was decided
}

// Metering is what a program that runs a request reads from the response's body, to settle the request with it.
type Metering struct {
	Fields []string // of the JSON body, or of server-sent events; a.b is b within a

	// Cut is the field whose rules end a response when the limits allow no more than is Reserved: "" if none does. To
	// continue, renew the reservation with a Cost. If that is denied, end the response.
	Cut      string
	Reserved int64 // the least that such a rule has reserved; without one, the most that any has
}

// A LimitVerdict is the decision of one limit of one rule.
type LimitVerdict struct {
	Rule   string
	Policy string // the limit's name: the rule's, or rule:1m if the rule has several
	Shadow bool   // of a shadow rule: it does not affect the verdict
	Banned bool   // the rule has banned the client

	Algorithm Algorithm
	Refill    Refill        // of a token bucket
	Count     int64         // how much is allowed per window; a bucket's capacity is Limit
	Window    time.Duration // the current period's length (calendar limit) or the permits' time to live (concurrency limit)
	Decision
}

// Reset clears the verdict and keeps its memory.
func (v *Verdict) Reset() { *v = Verdict{Limits: v.Limits[:0]} }

// Add adds one more limit. It reports whether the limit now determines Rule and Decision, as the strictest so
// far: of the limits that deny, the one with the longest wait; otherwise the one with the least left. Set
// Allowed and Now before calling it. Shadow limits are listed but do not affect the verdict.
func (v *Verdict) Add(l LimitVerdict) (speaks bool) {
	v.Limits = append(v.Limits, l)
	if l.Shadow {
		return false
	}
	return v.include(l.Rule, &l.Decision)
}

// include is Add for a limit that is not listed.
func (v *Verdict) include(rule string, d *Decision) (speaks bool) {
	v.Delay = max(v.Delay, d.Delay)
	if speaks = v.Rule == "" || d.IsStricter(&v.Decision, v.Allowed); speaks {
		v.Rule, v.Decision = rule, *d
	}
	return speaks
}

// Reason says why a verdict is what it is.
type Reason uint8

const (
	ReasonOK         Reason = iota // every limit that applies allows the request
	ReasonNoRule                   // no limit applies
	ReasonOverLimit                // a limit denies the request
	ReasonBanned                   // a rule bans the client, perhaps because of this request
	ReasonDenyList                 // always denied
	ReasonAllowList                // never limited
	ReasonDuplicate                // a duplicate of an allowed request
	ReasonStoreError               // the store did not answer, so a failure policy decided
	ReasonRuleError                // a rule's expression could not be evaluated, and its on_error is deny
	ReasonBlocked                  // an operator has blocked a key of the request for a time
)

var reasonNames = [...]string{"ok", "no_rule", "over_limit", "banned", "deny_list", "allow_list", "duplicate", "store_error", "rule_error", "blocked"}

func (r Reason) String() string { return enum.Name(reasonNames[:], r, "Reason") }

// UnmarshalText reads what String writes.
func (r *Reason) UnmarshalText(text []byte) error {
	return enum.Parse(r, reasonNames[:], text, "reason")
}

func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Quality says what a verdict is based on.
type Quality uint8

const (
	QualityExact  Quality = iota // the shared state, or no state was needed
	QualityLeased                // quota leased from the shared state earlier
	QualityLocal                 // the counters of this node alone
	QualityOpen                  // nothing: a failure policy allows the request
	QualityClosed                // nothing: a failure policy denies the request
)

var qualityNames = [...]string{"exact", "leased", "local", "open", "closed"}

func (q Quality) String() string { return enum.Name(qualityNames[:], q, "Quality") }

// UnmarshalText reads what String writes.
func (q *Quality) UnmarshalText(text []byte) error {
	return enum.Parse(q, qualityNames[:], text, "quality")
}

func (q Quality) MarshalText() ([]byte, error) { return []byte(q.String()), nil }
