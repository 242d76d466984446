package rules

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/strictdoc"
	"github.com/penstock-io/penstock/internal/usage"
	"github.com/penstock-io/penstock/rules/internal/expr"
	"github.com/penstock-io/penstock/rules/internal/pattern"
	"github.com/penstock-io/penstock/storage"
)

func (c *compiler) cost(t *CostTerms, countDenied bool, at path, p pattern.Path) Cost {
	if t == nil || !c.isValid(at) {
		return Cost{}
	}
	if t.Fixed != 0 {
		return Cost{Fixed: t.Fixed}
	}
	cost := Cost{
		Attribute: t.Attribute, ResponseHeader: t.ResponseHeader, ResponseBytes: t.ResponseBytes, ResponseJSON: t.ResponseJSON,
		Cut: t.Cut, Default: t.Default, Max: t.Max,
	}
	if !c.checkCostSources(t, at) {
		return cost
	}
	c.needs(t.Attribute, at.with("attribute"), p)
	cost.estimate = c.aboutRequest(t.Estimate, at.with("estimate"), p, (*expr.Language).CompileNumber)
	if t.ResponseHeader != "" && !httpToken.MatchString(t.ResponseHeader) {
		c.fail(at.with("response_header"), complain("%.64q cannot be the name of a header", t.ResponseHeader))
	}
	c.checkField(t.ResponseJSON, at.with("response_json"))
	if t.Cut && !usage.IsTokens(t.ResponseJSON) {
		c.fail(at.with("cut"), complain("cut needs a cost that is known while a response is streamed").
			suggest("give response_json: %s, %s or %s", usage.TotalTokens, usage.InputTokens, usage.OutputTokens))
	}
	if t.Cut && countDenied {
		c.fail(at.with("cut"), complain("cut cannot be given beside count_denied: a response that is cut would count for more than it used"))
	}
	cost.Max, cost.Default = cmp.Or(cost.Max, algorithm.MaxCount), cmp.Or(cost.Default, 1)
	if cost.Default > cost.Max {
		c.fail(at.with("default"), complain("default %d is more than max %d", cost.Default, cost.Max))
	}
	return cost
}

// checkCostSources reports a cost that has no source or several.
func (c *compiler) checkCostSources(t *CostTerms, at path) bool {
	given := 0
	for _, is := range []bool{t.Attribute != "", t.ResponseHeader != "", t.ResponseBytes, t.ResponseJSON != ""} {
		if is {
			given++
		}
	}
	switch {
	case given > 1, given == 0 && t.Estimate == "":
		c.fail(at, complain("the cost has %d sources", given).suggest("give one of attribute, response_header, response_bytes: true, response_json, estimate, or a number"))
		return false
	case t.Attribute != "" && t.Estimate != "":
		c.fail(at.with("estimate"), complain("the cost is an attribute and needs no estimate").suggest("write estimate: int(%s) alone", t.Attribute))
		return false
	}
	return true
}

func (c *compiler) reserve(r *Rule, t *RuleTerms, at path) {
	at = at.with("reserve")
	if t.Reserve == nil || !c.isValid(at) {
		return
	}
	r.Reserve, r.Overage = time.Duration(t.Reserve.TTL), t.Reserve.Overage
	if r.Reserve < algorithm.MinWindow || r.Reserve > storage.MaxReserve {
		c.fail(at.with("ttl"), complain("ttl %v must be from %v to %v", t.Reserve.TTL, Duration(algorithm.MinWindow), Duration(storage.MaxReserve)))
	}
	if r.Overage == algorithm.OverageDebt && t.Overdraft == nil {
		c.warn(at.with("overage"), complain("debt goes as far as the overdraft, and there is none").suggest("give overdraft: {max: …}, or write allow"))
	}
}

// defaultForgive is how long it takes to forgive a strike if the penalty does not say.
const defaultForgive = 24 * time.Hour

// defaultBans are the bans of enable_progressive_limits alone. Each of its denials leads to a ban.
var defaultBans = []time.Duration{time.Minute, 5 * time.Minute, time.Hour}

func (c *compiler) penalty(t *RuleTerms, at path) *algorithm.Penalty {
	terms, bans := c.penaltyTerms(t, at)
	if terms == nil {
		return nil
	}
	penalty, err := terms.Compile()
	for _, e := range fieldErrors(err) {
		where := at.with("penalty", e.Field)
		if strings.HasPrefix(e.Field, "bans") {
			where = bans
			for i := range terms.Bans {
				if e.Field == banField(i) {
					where = bans.with(i)
				}
			}
		}
		if c.isValid(where) { // unreadable values are already reported
			c.fail(where, complain("%v", e))
		}
	}
	return penalty
}

// penaltyTerms returns the penalty of a rule, or nil if it has none, and the path of its bans.
func (c *compiler) penaltyTerms(t *RuleTerms, at path) (*algorithm.PenaltyTerms, path) {
	progressive := false
	for _, name := range []string{"enable_progressive_limits", "progressive_ban_durations"} {
		if !c.has(at.with(name)) {
			continue
		}
		if progressive = true; c.has(at.with("penalty")) {
			c.failKey(at.with(name), complain("%s is short for a penalty and cannot be given beside one", name))
		}
	}
	switch {
	case progressive && c.has(at.with("penalty")):
		return nil, nil
	case progressive:
		return c.progressivePenalty(t, at)
	case t.Penalty == nil || c.source.find(at.with("penalty")).Kind != strictdoc.Mapping:
		return nil, nil
	}
	p := t.Penalty
	forgive := cmp.Or(time.Duration(p.ForgiveAfter), defaultForgive)
	return &algorithm.PenaltyTerms{After: p.After, Within: time.Duration(p.Within), ForgiveAfter: forgive, Bans: lengths(p.Bans)}, at.with("penalty", "bans")
}

// progressivePenalty returns the penalty that enable_progressive_limits abbreviates.
func (c *compiler) progressivePenalty(t *RuleTerms, at path) (*algorithm.PenaltyTerms, path) {
	bans := at.with("progressive_ban_durations")
	if !c.isValid(at.with("enable_progressive_limits")) || !c.isValid(bans) {
		return nil, nil
	}
	if !t.EnableProgressiveLimits {
		if c.has(bans) {
			c.warn(bans, complain("no client is banned").suggest("write enable_progressive_limits: true"))
		}
		return nil, nil
	}
	terms := &algorithm.PenaltyTerms{After: 1, Within: time.Minute, ForgiveAfter: defaultForgive, Bans: defaultBans}
	if len(t.ProgressiveBanDurations) > 0 {
		terms.Bans = lengths(t.ProgressiveBanDurations)
	}
	return terms, bans
}

func banField(i int) string { return path{"bans", i}.String() }

func lengths[D ~int64](durations []D) []time.Duration {
	out := make([]time.Duration, len(durations))
	for i, d := range durations {
		out[i] = time.Duration(d)
	}
	return out
}

// dedup compiles a rule's dedup for some limits. Its budget depends on the smallest of them.
func (c *compiler) dedup(t *DedupTerms, limits compiledLimits, at path) *algorithm.Dedup {
	if t == nil || c.source.find(at).Kind != strictdoc.Mapping || !limits.complete || len(limits.compiled) == 0 {
		return nil
	}
	dedup, err := dedupTerms(t, limits.usual).Compile()
	for _, e := range fieldErrors(err) {
		where := at.with(e.Field)
		if e.Field != "ttl" && e.Field != "max_replays" {
			where = at.with("replay_budget")
		}
		if c.isValid(where) { // report once: overrides come here too
			c.fail(where, complain("%v", e))
		}
	}
	return dedup
}

// checkReplays warns about a budget that is smaller than what a duplicate costs.
func (c *compiler) checkReplays(r *Rule, at path) {
	if r.Dedup == nil {
		return
	}
	if cost, budget := max(r.Cost.Fixed, r.Cost.Most()), r.Dedup.Budget.Capacity; cost > budget {
		c.warn(at.with("dedup"), complain("every duplicate is charged, because it may cost %d and replay_budget is %d", cost, budget).
			suggest("raise replay_budget, or give the cost a max that is not above it"))
	}
}

// dedupTerms returns the terms of a rule's dedup for some limits. Duplicates must fit into the smallest limit, and into
// the slowest one if that is another: a budget for each second would add up to many times the limit of an hour.
func dedupTerms(t *DedupTerms, limits []penstock.Limit) algorithm.DedupTerms {
	least, slowest := slices.MinFunc(limits, smaller), slices.MinFunc(limits, slower)
	terms := algorithm.DedupTerms{TTL: time.Duration(t.TTL), MaxReplays: cmp.Or(t.MaxReplays, 1), Beside: least}
	if least.Count == 0 {
		return terms // it blocks, also duplicates of requests that other limits of the rule allowed
	}
	terms.Budget = t.ReplayBudget.of(&least)
	if slower(slowest, least) < 0 {
		terms.Burst, terms.Budget, terms.Beside = terms.Budget, t.ReplayBudget.of(&slowest), slowest
	}
	return terms
}

// of returns the budget beside a limit.
func (b Budget) of(l *penstock.Limit) int64 {
	if b.Count != 0 {
		return b.Count
	}
	const defaultPercent = 10
	percent := cmp.Or(b.Percent, defaultPercent)
	return max(1, l.Count/100*percent+l.Count%100*percent/100)
}

// smaller orders limits by how much they allow. Concurrency limits come last, because they do not bound the
// number of requests.
func smaller(a, b penstock.Limit) int {
	return cmp.Or(
		cmp.Compare(rank(&a), rank(&b)),
		cmp.Compare(a.Count, b.Count),
		-cmp.Compare(a.Window, b.Window),
		-cmp.Compare(a.Period, b.Period),
	)
}

// slower orders limits by how much they allow in the long run, concurrency limits last.
func slower(a, b penstock.Limit) int {
	return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(pace(&a), pace(&b)))
}

func rank(l *penstock.Limit) int {
	if l.Algorithm == penstock.Concurrency {
		return 1
	}
	return 0
}

// pace returns how much a limit allows in a nanosecond.
func pace(l *penstock.Limit) float64 {
	periods := [...]time.Duration{l.Window, penstock.Hour: time.Hour, penstock.Day: day, penstock.Week: 7 * day, penstock.Month: 31 * day, penstock.Year: 366 * day}
	return float64(l.Count) / float64(periods[l.Period])
}
