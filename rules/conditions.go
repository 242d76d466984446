package rules

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/urlform"
)

// conditions compiles the match of a rule, or of an override of the rule with these conditions.
func (c *compiler) conditions(m *MatchTerms, at path, of *conditions, ignore urlform.Ignore) conditions {
	k := conditions{domain: m.Domain, path: pathPattern{ignore: ignore}}
	switch {
	case m.Domain == "" && of != nil:
		k.domain = of.domain
	case m.Domain == "":
		k.domain = penstock.DefaultDomain
	}
	if c.sound(at.with("method")) {
		k.methods = c.methods(m.Method, at.with("method"))
	}
	if m.Path != "" && c.sound(at.with("path")) {
		pattern, err := parsePath(m.Path, ignore)
		if err != nil {
			c.fail(at.with("path"), complain("%v", err))
			pattern.text = m.Path // for the names in it
		}
		k.path = pattern
	}
	names := k.path
	if of != nil {
		names = of.path
	}
	k.attributes = c.patterns(m.Attributes, at, names)
	k.when, k.onError = c.when(m.When, at.with("when"), names), m.OnError
	if m.When == "" && c.has(at.with("on_error")) && c.sound(at.with("on_error")) {
		c.failKey(at.with("on_error"), complain("on_error is for expressions, and there is no when"))
	}
	c.comparedPaths(k.when, at.with("when"), ignore)
	c.contradiction(&k, at)
	return k
}

func (c *compiler) methods(methods Values, at path) []string {
	seen := make(map[string]bool, len(methods))
	for i, method := range methods {
		switch upper := strings.ToUpper(method); {
		case !methodName.MatchString(upper):
			c.fail(at.with(i), complain("%.40q is no HTTP method", method))
		case upper != method:
			c.fail(at.with(i), complain("methods are written in upper case").but("did you mean %s?", upper))
		case seen[method]:
			c.fail(at.with(i), complain("the method %s is given twice", method))
		}
		seen[method] = true
	}
	return methods
}

// patterns compiles what attributes must be like, in the order of their names. p is the rule's path.
func (c *compiler) patterns(all Patterns, at path, p pathPattern) []attributeCondition {
	var out []attributeCondition
	for _, name := range slices.Sorted(maps.Keys(all)) {
		at := at.with(name)
		if long := at[:len(at)-1].with("attributes", name); c.has(long) {
			at = long
		}
		if !c.sound(at) {
			continue
		}
		values := all[name]
		if name == "path" {
			values = c.pathValues(values, at, p.ignore)
		}
		a := attributeCondition{name: name, patterns: make([]valuePattern, 0, len(values))}
		for i, text := range values {
			pattern, err := parsePattern(text)
			switch {
			case err != nil:
				c.fail(at.with(i), complain("%v", err))
			case name == "ip" && !pattern.wild && !pattern.network.IsValid():
				c.fail(at.with(i), complain("%.64q is no address and no network", text).but("as in 192.0.2.1 or 192.0.2.0/24"))
			}
			a.patterns = append(a.patterns, pattern)
		}
		c.needs(name, at, p)
		out = append(out, a)
	}
	return out
}

// pathValues returns values of the attribute path in the form in which paths are compared, in the same
// order; those after them are for paths whose trailing slash is ignored.
func (c *compiler) pathValues(values Values, at path, ignore urlform.Ignore) Values {
	out, more := make(Values, len(values)), Values(nil)
	for i, text := range values {
		for segment := range strings.SplitSeq(text, "/") {
			if foreignWildcard(segment) != nil {
				c.fail(at.with(i), complain("the segment %.64q of %.64q is not a wildcard", segment, text).but("use * here, or {name} in the path of a rule's match"))
				break
			}
		}
		switch {
		case strings.Contains(text, "{"):
			c.fail(at.with(i), complain("%.64q is no value of a path, which has no braces", text).but("use * here, or the path of a rule's match"))
		case text == "", strings.ContainsAny(text, "?#"): // which no path has
		case !strings.Contains(text, "*"):
			text = ignore.Path(urlform.Path(text))
		case strings.Contains(text, ";") && ignore&urlform.MatrixParameters != 0:
			c.fail(at.with(i), complain("%.64q never fits: path_matching ignores matrix parameters", text).but("leave out what follows the semicolon"))
		default:
			text = ignore.Text(withoutSlash(text, ignore))
			if before, ok := strings.CutSuffix(text, "/*"); ok && before != "" && ignore&urlform.TrailingSlash != 0 {
				more = append(more, before)
			}
		}
		out[i] = text
	}
	return append(out, more...)
}

func (c *compiler) overrides(t *RuleTerms, at path, rule *conditions, own []penstock.Limit) []Override {
	var out []Override
	seen := map[string]int{}     // matches that never expire
	names := map[uint64]uint64{} // of counters, and the match that has them
	for i := 0; i < len(t.Overrides) && c.goOn(); i++ {
		o, at := &t.Overrides[i], at.with("overrides", i)
		made := Override{Unlimited: o.Limits.Unlimited, Expires: o.ExpiresAt}
		made.conditions = c.conditions(&o.Match, at.with("match"), rule, rule.path.ignore)
		c.expiry(o.ExpiresAt, at, "the override")
		if c.sound(at.with("match")) && c.sound(path{"rules", at[1], "match"}) {
			if why := disjoint(rule, &made.conditions); why != "" {
				c.warn(at.with("match"), complain("the override can never apply: %s", why))
			}
			c.hidden(seen, o, i, at)
		}
		made.MatchID = made.conditions.matchID()
		made.OwnCounters = !o.Limits.Unlimited && !sharesCounters(rule, t.Key, &made.conditions)
		strict := false
		if !o.Limits.Unlimited {
			list := limitList{terms: o.Limits.Limits, at: func(k int) path { return at.with("limits", k) }, whole: at.with("limits")}
			if made.OwnCounters {
				list.scope = made.MatchID
			}
			limits := c.limits(list, t, path{"rules", at[1]})
			made.Limits, made.Policies = limits.meters, policies(t.Name, limits.compiled)
			made.Dedup = c.dedup(t.Dedup, limits, path{"rules", at[1], "dedup"})
			strict = noLooser(limits.compiled, own)
		}
		if made.conditions.onError == ErrorMatches && !strict {
			made.conditions.onError = ErrorSkips // or a client could loosen its limits by an error
		}
		if made.OwnCounters {
			c.separate(names, &made, at)
		}
		out = append(out, made)
	}
	return out
}

// hidden warns of an override that an earlier one always comes before.
func (c *compiler) hidden(seen map[string]int, o *OverrideTerms, i int, at path) {
	const everything = "{}"
	var b strings.Builder
	writeFlow(fieldsToNode(reflect.ValueOf(&o.Match).Elem()), &b, true)
	earlier, same := seen[b.String()]
	if !same {
		earlier, same = seen[everything]
	}
	if same {
		c.warn(at.with("match"), complain("the override can never apply: overrides[%d] holds for all its calls and comes first", earlier))
	}
	if _, known := seen[b.String()]; !known && o.ExpiresAt.IsZero() {
		seen[b.String()] = i
	}
}

// contradiction warns of a match in which one condition excludes another.
func (c *compiler) contradiction(k *conditions, at path) {
	if !c.sound(at) {
		return
	}
	for i := range k.attributes {
		a := &k.attributes[i]
		if a.name == "method" && len(k.methods) > 0 && patternsDisjoint(a.patterns, exactly(k.methods)) {
			c.warn(at.with("method"), complain("this can never match: attributes ask for another method"))
		}
	}
}

// disjoint says why no call can be what two conditions ask for; "" if one may.
func disjoint(a, b *conditions) string {
	if a.domain != b.domain {
		return "the rule is for the domain " + a.domain
	}
	if len(a.methods) > 0 && len(b.methods) > 0 && patternsDisjoint(exactly(a.methods), exactly(b.methods)) {
		return "the rule is for the method " + strings.Join(a.methods, " or ")
	}
	if pathsDisjoint(a.path, b.path) {
		return "the rule is for the path " + a.path.text
	}
	for i := range a.attributes {
		for k := range b.attributes {
			x, y := &a.attributes[i], &b.attributes[k]
			if x.name == y.name && patternsDisjoint(x.patterns, y.patterns) {
				return "the rule is for " + x.name + " " + x.wanted()
			}
		}
	}
	return ""
}

func exactly(texts []string) []valuePattern {
	out := make([]valuePattern, len(texts))
	for i, text := range texts {
		out[i] = valuePattern{text: text}
	}
	return out
}

// pathsDisjoint is sure only where one of the patterns is a path.
func pathsDisjoint(a, b pathPattern) bool {
	switch {
	case a.text == "" || b.text == "":
		return false
	case !strings.Contains(a.text, "{"):
		return !b.fits(a.text)
	case !strings.Contains(b.text, "{"):
		return !a.fits(b.text)
	}
	return false
}

// patternsDisjoint is sure only where there are no wildcards.
func patternsDisjoint(a, b []valuePattern) bool {
	texts := make(map[string]bool, len(a))
	var networks []netip.Prefix
	for i := range a {
		if a[i].wild {
			return false
		}
		texts[a[i].text] = true
		if a[i].network.IsValid() {
			networks = append(networks, a[i].network)
		}
	}
	const most = 8 // networks are compared with each other: with more of them it is not sure
	for i := range b {
		p := &b[i]
		if p.wild || texts[p.text] || p.network.IsValid() && (len(networks) > most || slices.ContainsFunc(networks, p.network.Overlaps)) {
			return false
		}
	}
	return true
}
