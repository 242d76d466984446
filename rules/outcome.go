package rules

import (
	"fmt"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules/internal/expr"
)

// An Outcome says how the response to a request corrects what the request was charged. The conditions are as
// written; an empty one is not given. At most one of ChargeIf and RefundIf is.
type Outcome struct {
	ChargeIf, RefundIf, StrikeIf string

	charge, refund, strike *expr.Expression
}

// Conditions returns the conditions as written, each with its field. There are none if o is nil.
func (o *Outcome) Conditions() (all []string) {
	if o == nil {
		return nil
	}
	for _, c := range [][2]string{{"charge_if", o.ChargeIf}, {"refund_if", o.RefundIf}, {"strike_if", o.StrikeIf}} {
		if c[1] != "" {
			all = append(all, c[0]+": "+c[1])
		}
	}
	return all
}

// Charges reports whether the charge stays. It stays if the response is unknown, or if the condition cannot be
// evaluated: otherwise a client could choose not to be charged.
func (o *Outcome) Charges(r *penstock.Response) (bool, error) {
	if o.charge != nil {
		holds, err := holds(o.charge, "charge_if", r)
		return holds || isUnknown(r) || err != nil, err
	}
	refund, err := holds(o.refund, "refund_if", r)
	return !refund, err
}

// Strikes reports whether the response is a strike against the client. It is none if the response is unknown, or if
// the condition cannot be evaluated.
func (o *Outcome) Strikes(r *penstock.Response) (bool, error) { return holds(o.strike, "strike_if", r) }

// holds evaluates a condition. Nothing holds of a response that is unknown.
func holds(e *expr.Expression, field string, r *penstock.Response) (bool, error) {
	if e == nil || isUnknown(r) {
		return false, nil
	}
	holds, err := e.HoldsFor(&expr.Response{Status: r.Status, Duration: r.Duration, Header: r.Header})
	if err != nil {
		return false, fmt.Errorf("evaluate %s: %w", field, err)
	}
	return holds, nil
}

// clientLeft is the status that proxies record for a client that has disconnected before the response.
const clientLeft = 499

// isUnknown reports whether it is not known how a request ended. A client that disconnects early must not avoid a
// charge.
func isUnknown(r *penstock.Response) bool { return r.Status == 0 || r.Status == clientLeft }

// Corrected reports whether the response to a request corrects what the rule charges for it: the charge is
// reserved until then.
func (r *Rule) Corrected() bool { return r.Cost.Afterwards() || r.Outcome != nil }

// outcome compiles the conditions of a rule about the response; nil if there are none.
func (c *compiler) outcome(t *RuleTerms, at path) *Outcome {
	o := &Outcome{ChargeIf: t.ChargeIf, RefundIf: t.RefundIf, StrikeIf: t.strikeIf()}
	if *o == (Outcome{}) {
		return nil
	}
	if o.ChargeIf != "" && o.RefundIf != "" {
		c.failKey(at.with("refund_if"), complain("refund_if cannot be given beside charge_if").suggest("write both as one condition, as in charge_if: A && !(B)"))
	}
	if t.Consistency == Leased {
		c.fail(at.with("consistency"), complain("leased quota cannot be corrected by a response").suggest("use exact, or leave it out"))
	}
	o.charge = c.aboutResponse(o.ChargeIf, at.with("charge_if"))
	o.refund = c.aboutResponse(o.RefundIf, at.with("refund_if"))
	o.strike = c.aboutResponse(o.StrikeIf, at.with("penalty", "strike_if"))
	return o
}

// strikeIf returns the condition of the rule's penalty; "" if there is none.
func (t *RuleTerms) strikeIf() string {
	if t.Penalty == nil {
		return ""
	}
	return t.Penalty.StrikeIf
}

// isCorrected reports whether a response corrects what the rule charges.
func (t *RuleTerms) isCorrected() bool {
	return t.ChargeIf != "" || t.RefundIf != "" || t.strikeIf() != ""
}

// aboutResponse compiles an expression about a response, once for all equal ones.
func (c *compiler) aboutResponse(text string, at path) *expr.Expression {
	const language = "\x00response" // no wildcard has this name
	return c.expression(text, language, at, expr.NewResponseLanguage, (*expr.Language).Compile)
}
