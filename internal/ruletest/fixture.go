package ruletest

import (
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

// Bounds of a fixture.
const (
	MaxFixture = 4 << 20    // bytes
	MaxCalls   = 10_000_000 // requests of all tests together
)

// DefaultStart is when tests begin by default.
var DefaultStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// A Fixture is a file of tests. The tags are its grammar; see [rules.Read].
type Fixture struct {
	Rules string      `rules:"rules" max:"4096"`
	Start time.Time   `rules:"start"`
	With  CommonTerms `rules:"with"`
	Tests []Test      `rules:"tests,required" as:"tests: [{name: …, steps: […]}]" min:"1" max:"10000"`

	reading *rules.Reading
}

// A Test begins with nothing consumed. Its steps follow one another in time.
type Test struct {
	Name  string      `rules:"name,required" as:"name: a burst of twenty passes" max:"200"`
	Start time.Time   `rules:"start"`
	With  CommonTerms `rules:"with"`
	Steps []Step      `rules:"steps,required" as:"steps: [{call: {…}, expect: {…}}]" min:"1" max:"10000"`

	start penstock.Instant
}

// CommonTerms are the defaults of requests. Attributes are merged one by one.
type CommonTerms struct {
	Domain     string            `rules:"domain" max:"255"`
	Attributes map[string]string `rules:"attributes" max:"256"`
	Cost       *int64            `rules:"cost" min:"0" max:"1000000000000"`
	MaxDelay   *Span             `rules:"max_delay"`
}

// A Step is one or more requests at a time, or the end of a reservation, and what is expected of each.
type Step struct {
	At    *Moment `rules:"at"`    // from the start of the test, or a date
	After *Span   `rules:"after"` // from the last request before; neither: at the same time

	Call  *CallTerms  `rules:"call"`
	Calls []CallTerms `rules:"calls" min:"1" max:"1000"`
	Times *int64      `rules:"times" min:"1" max:"1000000"` // repeats all requests
	Every *Span       `rules:"every"`                       // between two repetitions

	Settle  *SettleTerms  `rules:"settle"`
	Release *ReleaseTerms `rules:"release"`
	Renew   *RenewTerms   `rules:"renew"`

	Expect Expectation `rules:"expect"`

	at    penstock.Instant
	calls []CallTerms // Call or Calls, with the common terms filled in
}

// CallTerms describe a request.
type CallTerms struct {
	Domain     string            `rules:"domain" max:"255"`
	Attributes map[string]string `rules:"attributes" max:"256"`
	Cost       *int64            `rules:"cost" min:"0" max:"1000000000000"` // 1 if not given; 0 is a peek
	ID         string            `rules:"id" max:"4096"`
	MaxDelay   *Span             `rules:"max_delay"` // if not given, as on the gateway
	Reserve    bool              `rules:"reserve"`
	TTL        rules.Duration    `rules:"ttl"`
	As         string            `rules:"as" max:"63"` // name of its reservation in later steps
}

// SettleTerms give the actual cost of a reservation.
type SettleTerms struct {
	Reservation string         `rules:"reservation,required" as:"reservation: answer" max:"63"`
	Cost        *int64         `rules:"cost" min:"0" max:"1000000000000"`
	Response    *ResponseTerms `rules:"response"`
}

// ResponseTerms are the parts of a response that rules read.
type ResponseTerms struct {
	Status   int64             `rules:"status" min:"100" max:"599"`
	Duration rules.Duration    `rules:"duration"`
	Headers  map[string]string `rules:"headers" max:"100"`
	Bytes    int64             `rules:"bytes" min:"0" max:"1000000000000"`
}

// ReleaseTerms release a reservation.
type ReleaseTerms struct {
	Reservation string `rules:"reservation,required" as:"reservation: answer" max:"63"`
}

// RenewTerms extend a reservation.
type RenewTerms struct {
	Reservation string         `rules:"reservation,required" as:"reservation: answer" max:"63"`
	TTL         rules.Duration `rules:"ttl"`
}

// An Expectation is about a verdict. The fields that it sets must match; the rest may be anything. It applies to
// every request of its step.
type Expectation struct {
	Allowed    *bool            `rules:"allowed"`
	Passed     *int64           `rules:"passed" min:"0" max:"1000000000"` // how many of the step's requests pass
	Reason     *penstock.Reason `rules:"reason"`
	Rule       string           `rules:"rule" max:"63"`
	Limit      *int64           `rules:"limit" min:"0" max:"1000000000000"`
	Used       *int64           `rules:"used" min:"0" max:"1000000000000"`
	Remaining  *int64           `rules:"remaining" min:"0" max:"1000000000000"`
	RetryAfter *Wait            `rules:"retry_after"`
	ResetAfter *Span            `rules:"reset_after"`
	Delay      *Span            `rules:"delay"`
	Duplicate  *bool            `rules:"duplicate"`
	BannedFor  *Span            `rules:"banned_for"`

	Limits    []LimitExpectation `rules:"limits" max:"1024"`
	WouldDeny []string           `rules:"would_deny" max:"64"` // shadow rules, exactly these

	Error string `rules:"error" max:"1000"` // a part of its text
}

// A LimitExpectation is about one limit of a verdict, including those of shadow rules.
type LimitExpectation struct {
	Policy     string `rules:"policy,required" as:"policy: search-per-user, or search-per-user:1m" max:"100"`
	Allowed    *bool  `rules:"allowed"`
	Shadow     *bool  `rules:"shadow"`
	Banned     *bool  `rules:"banned"`
	Limit      *int64 `rules:"limit" min:"0" max:"1000000000000"`
	Used       *int64 `rules:"used" min:"0" max:"1000000000000"`
	Remaining  *int64 `rules:"remaining" min:"0" max:"1000000000000"`
	RetryAfter *Wait  `rules:"retry_after"`
	ResetAfter *Span  `rules:"reset_after"`
	Delay      *Span  `rules:"delay"`
}

// Parse reads a fixture. An error is of type [rules.Problems] and contains every error.
func Parse(name string, text []byte) (*Fixture, error) {
	if len(text) > MaxFixture {
		return nil, rules.Problems{{Position: rules.Position{File: name}, Message: "the tests are too long", Hint: "at most 4 MiB; write several files"}}
	}
	f := &Fixture{}
	f.reading = rules.Read(name, text, f)
	f.check()
	if err := f.reading.Err(); err != nil {
		return nil, err
	}
	return f, nil
}
