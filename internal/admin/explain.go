package admin

import (
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/bounds"
	"github.com/penstock-io/penstock/internal/wire"
	"github.com/penstock-io/penstock/rules"
)

// An Explanation says how every rule applies to a request.
type Explanation struct {
	Block *BlockNote        `json:"block,omitempty"` // it decides, and neither a list nor a rule applies
	List  string            `json:"list,omitempty"`  // allow or deny: the list decides, and no rule applies
	Entry int               `json:"entry,omitempty"`
	Rules []RuleExplanation `json:"rules"`

	// EntitlementsHidden says that numbers are those of a client without entitlements, which only operators see.
	EntitlementsHidden bool `json:"entitlements_hidden,omitempty"`
}

// A RuleExplanation says how one rule applies.
type RuleExplanation struct {
	Rule      string           `json:"rule"`
	Applies   bool             `json:"applies"`
	Mode      string           `json:"mode"`
	Reason    string           `json:"reason,omitempty"` // why the rule does not apply
	Why       string           `json:"why,omitempty"`
	Key       EchoedAttributes `json:"key,omitempty"`
	Limits    []string         `json:"limits,omitempty"`
	Numbers   []Number         `json:"numbers,omitempty"` // of the limits, in their order
	Unlimited bool             `json:"unlimited,omitempty"`
	Override  *int             `json:"override,omitempty"`     // counted from 0
	Own       bool             `json:"own_counters,omitempty"` // the override has its own counters
	Response  []string         `json:"response,omitempty"`     // conditions about the response, as written
	Failures  []string         `json:"failures,omitempty"`     // expressions that could not be evaluated, and the consequence
	Refuses   bool             `json:"refuses,omitempty"`      // the request, because of such a failure
}

// EchoedAttributes repeat the attributes that the client sent. Unlike [Attributes] they are shown to everyone
// unmasked: masking them would tell viewers the masked form of a value of their choice.
type EchoedAttributes map[string]string

// A BlockNote says that an operator has blocked a request's client.
type BlockNote struct {
	ID     string    `json:"id"`
	Reason string    `json:"reason"`
	Until  time.Time `json:"until"`
}

// Explain reports which rules apply to a request, and why the others do not. Numbers of limits are looked up in
// entitlements, which may be nil.
func Explain(s *rules.Snapshot, call *penstock.Call, now penstock.Instant, entitlements rules.Entitlements) *Explanation {
	found := s.Explain(call, now, entitlements)
	e := &Explanation{Entry: found.Entry, Rules: each(found.Rules, explanationOf)}
	switch {
	case found.Denied:
		e.List = "deny"
	case found.Allowed:
		e.List = "allow"
	}
	return e
}

func explanationOf(c *rules.RuleExplanation) RuleExplanation {
	r := RuleExplanation{
		Rule: c.Rule.Name, Applies: c.Matches, Mode: c.Rule.Mode.String(),
		Reason: string(c.Reason), Why: c.Why, Unlimited: c.Unlimited, Failures: c.Failures, Refuses: c.Refuses,
	}
	if !c.Matches {
		return r
	}
	if c.Override != rules.NoOverride {
		r.Override, r.Own = &c.Override, c.Rule.Overrides[c.Override].OwnCounters
	}
	r.Key = EchoedAttributes(attributesOf(c.Key))
	r.Response = c.Rule.Outcome.Conditions()
	r.Limits = each(c.Limits, func(m **algorithm.Meter) string { return (*m).String() })
	r.Numbers = each(c.Numbers, numberOf)
	return r
}

// A Number says where the number of a limit comes from.
type Number struct {
	Number int64        `json:"number"`
	Origin rules.Origin `json:"origin"`
	Source string       `json:"source,omitempty"` // as the rate names it
	Value  string       `json:"value,omitempty"`  // of the attribute that was read
	Max    int64        `json:"max,omitempty"`    // that data may set
	Until  *time.Time   `json:"until,omitempty"`
	Reason string       `json:"reason,omitempty"` // why it is the default
	Why    string       `json:"why,omitempty"`
}

func numberOf(n *rules.Number) Number {
	told := Number{Number: n.Number, Origin: n.Origin, Source: n.Source, Value: n.Value, Max: n.Max, Until: timeOrNil(n.Until), Why: n.Why()}
	if n.Reason != rules.NoFallback {
		told.Reason = n.Reason.String()
	}
	return told
}

// requestInput describes a client or a request.
type requestInput struct {
	Domain     string     `json:"domain"`
	Attributes Attributes `json:"attributes"`
}

// call converts the description to a penstock.Call. It appends errors to mistakes.
func (q *requestInput) call(mistakes *wire.FieldErrors) *penstock.Call {
	c := &penstock.Call{Domain: q.Domain}
	if len(q.Domain) > bounds.Domain {
		mistakes.Add("domain", "has %d bytes; at most %d", len(q.Domain), bounds.Domain)
	}
	if len(q.Attributes) > bounds.Attributes {
		mistakes.Add("attributes", "%d of them; at most %d", len(q.Attributes), bounds.Attributes)
		return c
	}
	for name, value := range q.Attributes {
		if len(name) == 0 || len(name) > bounds.AttributeName {
			mistakes.Add(fmt.Sprintf("attributes.%.32s", name), "a name of %d bytes, must be from 1 to %d", len(name), bounds.AttributeName)
		}
		if len(value) > bounds.AttributeValue {
			mistakes.Add(fmt.Sprintf("attributes.%.32s", name), "a value of %d bytes; at most %d", len(value), bounds.AttributeValue)
		}
		c.Attributes = append(c.Attributes, penstock.Attribute{Name: name, Value: value})
	}
	return c
}

func (a *Admin) explain(x *apiRequest, asked *struct {
	requestInput
	At time.Time `json:"at"` // zero: now
}) (any, error) {
	var mistakes wire.FieldErrors
	call := asked.call(&mistakes)
	if err := mistakes.Err(); err != nil {
		return nil, err
	}
	at := a.Now()
	if !asked.At.IsZero() {
		at = asked.At
	}
	entitlements := a.Entitlements
	if x.who.role < Operator {
		entitlements = nil // as at /v1/entitlements
	}
	told := Explain(a.Rules.Live.Load(), call, penstock.InstantOf(at), entitlements)
	told.EntitlementsHidden = a.Entitlements != nil && entitlements == nil
	// A viewer must not learn whether a client of their choice is blocked.
	if b := a.Blocks.List().Find(call); b != nil && b.Holds(at) && x.who.role >= Operator {
		told.Block = &BlockNote{b.ID, b.Reason, b.Until}
	}
	return told, nil
}
