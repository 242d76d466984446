package envoyratelimit

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/rls"
	"github.com/penstock-io/penstock/rules"
)

// Convert converts the limits to Penstock rules as far as possible: one rule for each limit. The notes list what
// cannot be converted.
func (c *Config) Convert() (doc *rules.Document, notes []string) {
	v := &converter{names: map[string]bool{}, attributes: map[string][]string{}}
	for _, domain := range c.order {
		v.level(domain, c.domains[domain], nil)
	}
	v.drop()
	v.depths()
	return v.document(), v.notes
}

type converter struct {
	rules []convertedRule
	notes []string
	names map[string]bool // names in use

	attributes map[string][]string // attributes of the descriptors of each domain
}

// convertedRule is a rule and the path to the limit it was made from.
type convertedRule struct {
	rules.RuleTerms
	way descriptorPath
}

type descriptorPath []step

func (w descriptorPath) last() *step { return &w[len(w)-1] }

func (w descriptorPath) has(attribute string) bool {
	return slices.ContainsFunc(w, func(s step) bool { return s.attribute == attribute })
}

// A step is an entry on the path to a limit: a descriptor, its attribute, and the values that precede it at its
// level.
type step struct {
	*descriptor
	attribute string
	before    []string // values of the same key that are more specific
}

func (v *converter) note(format string, args ...any) {
	v.notes = append(v.notes, fmt.Sprintf(format, args...))
}

func (v *converter) level(domain string, l *level, to descriptorPath) {
	for _, d := range l.all {
		on := append(to[:len(to):len(to)], step{d, to.attribute(d.key), l.before(d)})
		if a := on.last().attribute; !slices.Contains(v.attributes[domain], a) {
			v.attributes[domain] = append(v.attributes[domain], a)
		}
		if d.limit != nil && !d.limit.unlimited { // without a rule there is no limit
			v.rule(domain, on)
		}
		v.level(domain, d.below, on)
	}
}

// attribute returns the name that [rls.Calls] gives to an entry of a key at the end of the path.
func (w descriptorPath) attribute(key string) string {
	nth := 1
	for i := range w {
		if w[i].key == key {
			nth++
		}
	}
	return rls.AttributeName(key, nth)
}

// before returns the values of the same key that requests are matched with before d.
func (l *level) before(d *descriptor) (values []string) {
	for _, other := range l.all {
		if other.key == d.key && other.value != "" && !other.wild && (d.value == "" || d.wild && fits(d.value, other.value)) {
			values = append(values, other.value)
		}
	}
	for _, other := range l.wild[d.key] {
		if other == d {
			break
		}
		if d.value == "" || d.wild {
			values = append(values, other.value)
		}
	}
	return values
}

func (v *converter) rule(domain string, to descriptorPath) {
	l := to.last().limit
	r := convertedRule{way: to, RuleTerms: rules.RuleTerms{
		Name:   v.name(l),
		Limits: []rules.LimitTerms{termsOf(l)},
		Match:  rules.MatchTerms{Domain: domain, Attributes: rules.Patterns{}},
		Key:    []rules.KeyPart{},
	}}
	if l.shadow {
		r.Mode = rules.Shadow
	}
	for i := range to {
		v.step(&r.RuleTerms, &to[i])
	}
	v.leftOut(r.Name, l, to.last())
	v.rules = append(v.rules, r)
}

// step adds the conditions for one entry.
func (v *converter) step(r *rules.RuleTerms, s *step) {
	if s.value != "" {
		r.Match.Attributes[s.attribute] = rules.Values{s.value}
	}
	if _, err := netip.ParsePrefix(s.value); err == nil {
		v.note("%s: %s is a network there, and was only a text", r.Name, s.value)
	}
	if s.value == "" || s.wild && !s.shared {
		r.Key = append(r.Key, rules.KeyPart{Name: s.attribute})
	}
	if len(s.before) > 0 {
		r.Overrides = append(r.Overrides, rules.OverrideTerms{
			Match:  rules.MatchTerms{Attributes: rules.Patterns{s.attribute: s.before}},
			Limits: rules.OverrideLimits{Unlimited: true},
		})
	}
}

func (v *converter) document() *rules.Document {
	doc := &rules.Document{Rules: make([]rules.RuleTerms, len(v.rules))}
	for i := range v.rules {
		doc.Rules[i] = v.rules[i].RuleTerms
	}
	return doc
}

// drop removes rules that do not compile.
func (v *converter) drop() {
	if firstError(v.document().Rules...) == nil {
		return
	}
	v.rules = slices.DeleteFunc(v.rules, func(r convertedRule) bool {
		err := firstError(r.RuleTerms)
		if err != nil {
			v.note("%s is left out: %v", r.way.last().limit.path, err)
		}
		return err != nil
	})
}

// firstError returns the first error of rules.
func firstError(all ...rules.RuleTerms) error {
	_, _, err := rules.Compile(&rules.Document{Rules: all}, rules.Options{})
	if problems, ok := errors.AsType[rules.Problems](err); ok {
		return errors.New(problems[0].Message)
	}
	return err
}

// depths restricts rules to requests with as many entries as the limit has: a limit does not apply to requests with
// more.
func (v *converter) depths() {
	nameable := v.nameable()
	for i := range v.rules {
		r := &v.rules[i]
		var absent, unnamed []string
		for _, attribute := range v.attributes[r.Match.Domain] {
			switch {
			case r.way.has(attribute):
			case nameable[attribute]:
				absent = append(absent, attribute+` == ""`)
			default:
				unnamed = append(unnamed, attribute)
			}
		}
		r.Match.When = strings.Join(absent, " && ")
		if len(unnamed) > 0 {
			v.note("%s: calls that have %s too are under it as well, as expressions cannot name that", r.Name, strings.Join(unnamed, ", "))
		}
	}
}

// nameable returns the attributes that expressions can name: those that some rule mentions.
func (v *converter) nameable() map[string]bool {
	known := map[string]bool{}
	for i := range v.rules {
		for _, s := range v.rules[i].way {
			if _, asked := known[s.attribute]; !asked {
				known[s.attribute] = firstError(rules.RuleTerms{
					Name: "probe", Key: []rules.KeyPart{{Name: s.attribute}}, Match: rules.MatchTerms{When: s.attribute + ` == ""`},
					Limits: []rules.LimitTerms{{Rate: rules.Rate{Count: 1, Window: day}}},
				}) == nil
			}
		}
	}
	return known
}

// termsOf returns the limit as it is written in rules.
func termsOf(l *limit) rules.LimitTerms {
	if l.algorithm == penstock.Concurrency {
		return rules.LimitTerms{Concurrent: l.count, TTL: rules.Duration(l.window)}
	}
	return rules.LimitTerms{Rate: rules.Rate{Count: l.count, Window: l.window}, Algorithm: cmp.Or(l.algorithm, penstock.FixedWindow), Burst: l.burst}
}

// leftOut notes what the rule does not express.
func (v *converter) leftOut(name string, l *limit, s *step) {
	if l.quota {
		v.note("%s: quota_mode: it denies by itself, not only if all others of that mode do", name)
	}
	if len(l.replaces) > 0 {
		v.note("%s: replaces %s: those apply too; an override of theirs can say otherwise", name, strings.Join(l.replaces, ", "))
	}
	if len(l.metadata) > 0 {
		v.note("%s: metadata is left out; Envoy is told the name of a rule that denies", name)
	}
	if l.isDetailed {
		v.note("%s: detailed_metric is left out; metrics are by the names of rules", name)
	}
	if s.isNamedByValue {
		v.note("%s: value_to_metric is left out; metrics are by the names of rules", name)
	}
}

// name returns a valid and unused name for a rule.
func (v *converter) name(l *limit) string {
	const most = 56 // leaves room for a suffix that makes it unique
	base := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '-'
	}, strings.ToLower(l.policy()))
	base = strings.TrimLeft(base[:min(len(base), most)], "._-")
	if base == "" {
		base = "limit"
	}
	name := base
	for n := 2; v.names[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	v.names[name] = true
	return name
}
