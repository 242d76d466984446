package ruletest

import (
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

// Bounds of a fixture.
const (
	MaxFixture = 4 << 20    // bytes
	MaxCalls   = 10_000_000 // of all tests together
)

// DefaultStart is when tests begin that do not say.
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

// CommonTerms are what calls are like that do not say otherwise. Attributes are added one by one.
type CommonTerms struct {
	Domain     string            `rules:"domain" max:"255"`
	Attributes map[string]string `rules:"attributes" max:"256"`
	Cost       *int64            `rules:"cost" min:"0" max:"1000000000000"`
	MaxDelay   *Span             `rules:"max_delay"`
}

// A Step is one or several calls at a time, or the end of a reservation, and what is expected of
// each.
type Step struct {
	At    *Moment `rules:"at"`    // from the start of the test, or a date
	After *Span   `rules:"after"` // from the last call before; neither: at the same time

	Call  *CallTerms  `rules:"call"`
	Calls []CallTerms `rules:"calls" min:"1" max:"1000"`
	Times *int64      `rules:"times" min:"1" max:"1000000"` // all calls again
	Every *Span       `rules:"every"`                       // between two times

	Settle  *SettleTerms  `rules:"settle"`
	Release *ReleaseTerms `rules:"release"`
	Renew   *RenewTerms   `rules:"renew"`

	Expect Expectation `rules:"expect"`

	at    penstock.Instant
	calls []CallTerms // Call or Calls, with what is common to all
}

// CallTerms are a call.
type CallTerms struct {
	Domain     string            `rules:"domain" max:"255"`
	Attributes map[string]string `rules:"attributes" max:"256"`
	Cost       *int64            `rules:"cost" min:"0" max:"1000000000000"` // 1 if not given; 0 is a peek
	ID         string            `rules:"id" max:"4096"`
	MaxDelay   *Span             `rules:"max_delay"` // if not given, as at the gateway
	Reserve    bool              `rules:"reserve"`
	TTL        rules.Duration    `rules:"ttl"`
	As         string            `rules:"as" max:"63"` // what later steps call its reservation
}

// SettleTerms say what a reserved call has cost in truth.
type SettleTerms struct {
	Reservation string         `rules:"reservation,required" as:"reservation: answer" max:"63"`
	Cost        *int64         `rules:"cost" min:"0" max:"1000000000000"`
	Response    *ResponseTerms `rules:"response"`
}

// ResponseTerms are what rules take the true cost from.
type ResponseTerms struct {
	Headers map[string]string `rules:"headers" max:"100"`
	Bytes   int64             `rules:"bytes" min:"0" max:"1000000000000"`
}

// ReleaseTerms give a reservation back.
type ReleaseTerms struct {
	Reservation string `rules:"reservation,required" as:"reservation: answer" max:"63"`
}

// RenewTerms prolong a reservation.
type RenewTerms struct {
	Reservation string         `rules:"reservation,required" as:"reservation: answer" max:"63"`
	TTL         rules.Duration `rules:"ttl"`
}

// An Expectation is about a verdict: what it names must be so, the rest may be anything. It holds
// for every call of its step.
type Expectation struct {
	Allowed    *bool            `rules:"allowed"`
	Passed     *int64           `rules:"passed" min:"0" max:"1000000000"` // of the step's calls, so many
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

// A LimitExpectation is about one limit of a verdict, a shadow rule's too.
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

// Parse reads a fixture. An error is of type [rules.Problems] and has every mistake.
func Parse(name string, text []byte) (*Fixture, error) {
	if len(text) > MaxFixture {
		return nil, rules.Problems{{Place: rules.Place{File: name}, Message: "the tests are too long", Hint: "at most 4 MiB; write several files"}}
	}
	f := &Fixture{}
	f.reading = rules.Read(name, text, f)
	f.check()
	if err := f.reading.Err(); err != nil {
		return nil, err
	}
	return f, nil
}
