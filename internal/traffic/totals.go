package traffic

import (
	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

const (
	reasons   = int(penstock.ReasonBlocked) + 1
	qualities = int(penstock.QualityClosed) + 1
)

// Totals count requests.
type Totals struct {
	Decisions [reasons][qualities][2]int64 // the last index is whether the request was allowed
	Shadow    int64                        // that a shadow rule would have denied
	Invalid   int64                        // invalid requests, which were not decided
	Failed    int64                        // that the store did not answer
	Beyond    int64                        // times that a rule was left out because too many applied
}

func (t *Totals) add(u *Totals) {
	for r := range t.Decisions {
		for q := range t.Decisions[r] {
			for a := range t.Decisions[r][q] {
				t.Decisions[r][q][a] += u.Decisions[r][q][a]
			}
		}
	}
	t.Shadow += u.Shadow
	t.Invalid += u.Invalid
	t.Failed += u.Failed
	t.Beyond += u.Beyond
}

// Result is what a rule decided for a request.
type Result uint8

const (
	Allowed Result = iota
	Denied
	ShadowAllowed // by a shadow rule
	ShadowDenied
	results
)

var resultNames = [...]string{"allowed", "denied", "shadow_allowed", "shadow_denied"}

func (r Result) String() string { return resultNames[r] }

func resultOf(shadow, allowed bool) Result {
	switch {
	case shadow && allowed:
		return ShadowAllowed
	case shadow:
		return ShadowDenied
	case allowed:
		return Allowed
	}
	return Denied
}

// RuleTotals count the requests under a rule.
type RuleTotals struct {
	Decisions [results][qualities]int64
	Failures  int64 // times that the rule could not be evaluated

	// Fallbacks are the times that a limit had its default number because data had no valid one, by reason.
	Fallbacks [rules.FallbackReasons]int64
}

func (t *RuleTotals) add(u *RuleTotals) {
	for r := range t.Decisions {
		for q := range t.Decisions[r] {
			t.Decisions[r][q] += u.Decisions[r][q]
		}
	}
	t.Failures += u.Failures
	for reason := range t.Fallbacks {
		t.Fallbacks[reason] += u.Fallbacks[reason]
	}
}

// Counts are the numbers of requests in a period: for all rules, or under one.
type Counts struct {
	Allowed  int64 `json:"allowed"`
	Denied   int64 `json:"denied"`
	Shadow   int64 `json:"shadow"`   // that shadow rules would have denied
	Degraded int64 `json:"degraded"` // that were decided without the shared state
	Errors   int64 `json:"errors"`   // invalid ones
}

// StoreCounts are the numbers of operations that were sent to the store.
type StoreCounts struct {
	Operations int64 `json:"operations"`
	Failed     int64 `json:"failed"` // without an answer
}

// Add adds other numbers.
func (c *StoreCounts) Add(d StoreCounts) {
	c.Operations += d.Operations
	c.Failed += d.Failed
}

// Add adds other numbers.
func (c *Counts) Add(d Counts) {
	c.Allowed += d.Allowed
	c.Denied += d.Denied
	c.Shadow += d.Shadow
	c.Degraded += d.Degraded
	c.Errors += d.Errors
}

func (t *RuleTotals) counts() (c Counts) {
	for q := range qualities {
		d := &t.Decisions
		c.Allowed += d[Allowed][q] + d[ShadowAllowed][q]
		c.Denied += d[Denied][q]
		c.Shadow += d[ShadowDenied][q]
		if degraded(penstock.Quality(q)) {
			c.Degraded += d[Allowed][q] + d[Denied][q]
		}
	}
	return c
}

// Counts reduces the totals to the few numbers that are shown over time.
func (t *Totals) Counts() (c Counts) {
	for r := range t.Decisions {
		for q := range t.Decisions[r] {
			denied, allowed := t.Decisions[r][q][0], t.Decisions[r][q][1]
			c.Allowed += allowed
			c.Denied += denied
			if degraded(penstock.Quality(q)) {
				c.Degraded += allowed + denied
			}
		}
	}
	c.Shadow, c.Errors = t.Shadow, t.Invalid
	return c
}
