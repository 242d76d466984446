package engine

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/rules"
)

// settleWithin is how long the response of a request may take if it decides what is charged and the rule
// does not set a time.
const settleWithin = 5 * time.Minute

// costOf returns what a request costs under a rule when it is decided: an estimate if the cost comes with the
// response. Only the request itself can be a peek: a client that controls an attribute must not be able to
// write 0 and never be limited.
func costOf(m *rules.MatchedRule, c *penstock.Call) int64 {
	cost := &m.Rule.Cost
	switch {
	case c.Cost == 0:
		return 0
	case cost.IsEstimated():
		return m.Estimate
	case cost.Fixed != 0:
		return cost.Fixed
	case cost.Attribute != "":
		text, _ := c.Attribute(cost.Attribute)
		return max(1, costFrom(cost, text))
	case cost.Afterwards():
		return cost.Default
	}
	return c.Cost
}

// costFrom parses a cost from untrusted text.
func costFrom(cost *rules.Cost, text string) int64 {
	if text == "" {
		return cost.Default
	}
	n, err := strconv.ParseInt(text, 10, 64) // the maximum if it is too large
	if err != nil && !errors.Is(err, strconv.ErrRange) || n < 0 {
		return cost.Default
	}
	return min(n, cost.Max)
}

// reserveFor returns how long a request's cost can be settled under a rule; 0 if it cannot.
func reserveFor(r *rules.Rule, c *penstock.Call) time.Duration {
	asks := c.Reserve && r.Reserve != 0
	switch {
	case c.Cost == 0 || !asks && !r.Corrected():
		return 0
	case asks:
		return cmp.Or(c.TTL, r.Reserve)
	}
	return cmp.Or(r.Reserve, settleWithin)
}

// settledCost returns the true cost under a rule. It is unknown if the response does not contain the rule's
// cost: the estimate then stays.
func settledCost(r *rules.Rule, c *penstock.Conclusion) (_ int64, known bool) {
	cost, response := &r.Cost, c.Response
	switch {
	case cost.Fixed != 0:
		return cost.Fixed, true
	case response == nil && cost.Max != 0:
		return min(c.Cost, cost.Max), true
	case response == nil:
		return c.Cost, true
	case cost.ResponseBytes && response.Bytes < 0:
		return cost.Default, true
	case cost.ResponseBytes:
		return min(response.Bytes, cost.Max), true
	case cost.ResponseHeader != "" && response.Header == nil:
		return cost.Default, true
	case cost.ResponseHeader != "":
		return costFrom(cost, response.Header(cost.ResponseHeader)), true
	case cost.ResponseJSON != "" && response.JSON != nil:
		n, ok := response.JSON(cost.ResponseJSON)
		if cost.Cut {
			n = max(n-response.Charged, 0)
		}
		return min(n, cost.Max), ok
	}
	return 0, false
}

// overageOf returns what happens to a cost above the estimate. When the response arrives the work is done and
// can no longer be denied: what fits is charged, and debt if the rule allows it.
func overageOf(r *rules.Rule) algorithm.Overage {
	if r.Cost.Afterwards() && r.Overage == algorithm.OverageDeny {
		return algorithm.OverageDebt
	}
	return r.Overage
}
