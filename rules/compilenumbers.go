package rules

import (
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

// namedSources returns the claims and headers that rates name without an attribute, by the attribute that holds each.
func namedSources(doc *Document) map[string]Source {
	found := map[string]Source{}
	add := func(limits []LimitTerms) {
		for i := range limits {
			for _, t := range limits[i].Rate.numberTerms() {
				switch t.field {
				case "claim":
					found[t.attribute()] = Source{Claim: t.name}
				case "header":
					found[t.attribute()] = Source{Header: t.name}
				}
			}
		}
	}
	for i := range doc.Rules {
		r := &doc.Rules[i]
		add(r.Limits)
		for k := range r.Overrides {
			add(r.Overrides[k].Limits.Limits)
		}
	}
	return found
}

// isData reports whether the number of a limit comes from data.
func (l *compiledLimits) isData(i int) bool {
	return l.numbered != nil && len(l.numbered[i].sources) > 0
}

// checkData reports settings of numbers from data that are missing, or that have no meaning.
func (c *compiler) checkData(t *LimitTerms, at path) {
	isData := t.Rate.From != ""
	switch {
	case isData && t.Max == 0:
		c.fail(at, complain("max is missing: a number that comes from data needs a maximum").suggest("as in max: 100000"))
	case isData && t.Default == nil:
		c.fail(at, complain("default is missing: the number used if the data has none").suggest("as in default: 100"))
	case isData && *t.Default > t.Max:
		c.fail(at.with("default"), complain("default %d is more than max %d", *t.Default, t.Max))
	case !isData && t.Max != 0:
		c.fail(at.with("max"), complain("max is only for numbers that come from data").suggest(`as in rate: "{claim: quota}/1h"`))
	case !isData && t.Default != nil:
		c.fail(at.with("default"), complain("default is only for numbers that come from data").suggest(`as in rate: "{claim: quota}/1h"`))
	}
}

// MaxDataLimits is how many limits of a rule can have numbers from data.
const MaxDataLimits = 4

// defaultLimits returns the limits with the numbers that apply where data has none, and sets where numbers come from.
func (c *compiler) defaultLimits(l *compiledLimits, terms []*LimitTerms, t *RuleTerms, at []path, ruleAt path) []penstock.Limit {
	if !slices.ContainsFunc(terms, func(t *LimitTerms) bool { return t.Rate.From != "" }) {
		return l.compiled
	}
	l.numbered = make([]numbered, len(terms))
	data := 0
	usual := slices.Clone(l.compiled)
	for i, limit := range usual {
		l.numbered[i] = numbered{limit: limit, max: limit.Count}
		if terms[i].Rate.From == "" {
			continue
		}
		if data++; data > MaxDataLimits {
			c.fail(at[i], complain("more than %d limits take their numbers from data", MaxDataLimits).suggest("make another rule for the others"))
		}
		l.numbered[i].limit.Count = *terms[i].Default
		l.numbered[i].sources = c.numberSources(terms[i], t, limit.Scope, at[i], ruleAt)
		usual[i] = l.numbered[i].with(*terms[i].Default)
		if !c.validate(usual[i], terms[i], at[i], ruleAt) {
			l.complete = false
		}
	}
	return usual
}

// numberSources compiles where the number of a limit comes from.
func (c *compiler) numberSources(l *LimitTerms, t *RuleTerms, scope uint64, at, ruleAt path) (all []numberSource) {
	if c.has(at.with("rate")) {
		at = at.with("rate")
	}
	own := false
	for _, term := range l.Rate.numberTerms() {
		s := numberSource{numberTerm: term, text: term.String(), read: term.attribute(), part: -1}
		s.part = slices.IndexFunc(t.Key, func(k KeyPart) bool { return k.value() == s.read })
		s.kind = c.numberKind(&s, at)
		if s.part < 0 && term.field == "" {
			c.needs(s.read, at, c.rulePath(t))
		}
		own = own || s.part < 0
		s.own = own
		s.scopes = c.hasher.Rule(strconv.FormatUint(scope, 16), "number", s.text)
		all = append(all, s)
	}
	return all
}

// rulePath returns the pattern of a rule's path, for the names in it.
func (c *compiler) rulePath(t *RuleTerms) pattern.Path {
	p, _ := pattern.ParsePath(t.Match.Path, c.ignored(t)) // errors are reported with the match
	return p
}

// numberKind returns the kind of a source. It reports numbers that clients could choose themselves.
func (c *compiler) numberKind(s *numberSource, at path) Origin {
	if s.entitlement != "" {
		return FromEntitlement
	}
	source, declared := c.doc.Attributes[s.read]
	if s.field != "" {
		source, declared = c.named[s.read], true
	}
	switch {
	case slices.Contains(builtin, s.read):
		c.fail(at, complain("%s is not a number", s.read).suggest("take it from a verified claim or from a header that only your proxy sets"))
	case !declared:
		return FromAttribute
	case source.Claim != "":
		return FromClaim
	case source.Header != "":
		c.warn(at, complain("anyone who sends the header %s chooses the limit, up to max", source.Header).suggest("let only your own proxy set it, or take the number from a verified claim"))
		return FromHeader
	default:
		c.fail(at, complain("clients choose %s themselves, and would choose their own limit", s.read).
			suggest("take the number from a verified claim, or from a header that only your proxy sets"))
	}
	return FromAttribute
}

// numbers returns what makes limits whose numbers come from data, or nil if all are the document's.
func (c *compiler) numbers(rule string, l *compiledLimits, policies []string, dedup *algorithm.Dedup, t *RuleTerms) *numbers {
	if l.numbered == nil || !l.complete || len(l.meters) != len(l.numbered) {
		return nil
	}
	if c.sets == nil {
		c.sets = new(limitCache)
	}
	n := &numbers{limits: l.numbered, dedup: t.Dedup, cache: c.sets}
	n.defaults = Limits{Meters: l.meters, Policies: policies, Dedup: dedup}
	for i := range n.limits {
		limit := &n.limits[i]
		n.defaults.Data = append(n.defaults.Data, LimitNumber{len(limit.sources) > 0, limit.limit.Count, limit.limit.Scope})
	}
	h := fnv.New64a()
	h.Write([]byte(rule))
	n.seed = h.Sum64()
	return n
}

// numberAttributes returns the names of the attributes that numbers of limits are read from.
func (r *Rule) numberAttributes(override int) (names []string) {
	if n, _ := r.limitsOf(override); n != nil {
		for i := range n.limits {
			for k := range n.limits[i].sources {
				names = append(names, n.limits[i].sources[k].read)
			}
		}
	}
	return names
}
