package envoyratelimit

import (
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/rls"
	"github.com/penstock-io/penstock/rules"
)

var _ rules.KeyedMatcher = (*Config)(nil)

// Keyed returns the limits that count clients with these attributes: those for which every entry on the path has an
// attribute, or a value in the file.
func (c *Config) Keyed(call *penstock.Call) (found []rules.RuleExplanation) {
	for _, domain := range c.order {
		if call.Domain == "" || call.Domain == domain {
			found = c.keyed(found, domain, c.domains[domain], call)
		}
	}
	return found
}

func (c *Config) keyed(found []rules.RuleExplanation, domain string, at *level, call *penstock.Call) []rules.RuleExplanation {
	for _, d := range at.all {
		if d.limit != nil && d.limit.rule != nil {
			if entries := d.limit.entriesOf(call); entries != nil && c.find(domain, entries) == d.limit {
				found = append(found, d.limit.considered(entries))
			}
		}
		found = c.keyed(found, domain, d.below, call)
	}
	return found
}

// entriesOf returns the descriptor that the attributes form on the path to the limit. It returns nil if they form
// none, or if none of them is on the path. Attributes have the names that rules use.
func (l *limit) entriesOf(call *penstock.Call) []penstock.Attribute {
	entries := make([]penstock.Attribute, len(l.way))
	nth, isAbout := map[string]int{}, len(call.Attributes) == 0
	for i, d := range l.way {
		nth[d.key]++
		value, given := call.Attribute(rls.AttributeName(d.key, nth[d.key]))
		if !given && nth[d.key] == 1 {
			value, given = call.Attribute(d.key)
		}
		switch {
		case !given && (d.value == "" || d.wild && !d.shared):
			return nil
		case !given:
			value = d.value
		}
		isAbout = isAbout || given
		entries[i] = penstock.Attribute{Name: d.key, Value: value}
	}
	if !isAbout {
		return nil
	}
	return entries
}

// considered returns the limit with the key it counts a descriptor by.
func (l *limit) considered(entries []penstock.Attribute) rules.RuleExplanation {
	c := rules.RuleExplanation{Rule: l.rule, Matches: true, Override: rules.NoOverride, Limits: l.rule.Limits}
	for i, value := range l.appendKey(nil, rls.Countable(entries)) {
		c.Key = append(c.Key, penstock.Attribute{Name: entries[i].Name, Value: value})
	}
	return c
}

// byHand is a penalty that requests never trigger: only operators ban.
var byHand = func() *algorithm.Penalty {
	p, err := algorithm.PenaltyTerms{
		After: algorithm.MaxStrikes, Within: algorithm.MinWindow, Bans: []time.Duration{algorithm.MinWindow}, ForgiveAfter: algorithm.MinWindow,
	}.Compile()
	if err != nil {
		panic(err) // the terms are valid
	}
	return p
}()
