package rules

import (
	"cmp"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/urlform"
	"github.com/penstock-io/penstock/rules/internal/expr"
	"github.com/penstock-io/penstock/rules/internal/index"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

// conditions compiles the match of a rule, or of an override. of is the rule of the override.
func (c *compiler) conditions(m *MatchTerms, at path, of *index.Item, ignore urlform.Ignore) index.Conditions {
	k := index.Conditions{Domain: cmp.Or(m.Domain, penstock.DefaultDomain), Path: pattern.Path{Ignore: ignore}, SkipOnError: m.OnError == ErrorSkips}
	if m.Domain == "" && of != nil {
		k.Domain = of.Domain
	}
	if c.isValid(at.with("method")) {
		k.Methods = c.methods(m.Method, at.with("method"))
	}
	if m.Path != "" && c.isValid(at.with("path")) {
		pattern, err := pattern.ParsePath(m.Path, ignore)
		if err != nil {
			c.fail(at.with("path"), complain("%v", err))
			pattern.Text = m.Path // for the names in it
		}
		k.Path = pattern
	}
	names := k.Path
	if of != nil {
		names = pattern.Path{Text: of.Path.Text, Ignore: ignore}
	}
	k.Attributes = c.patterns(m.Attributes, at, names, k.Domain)
	k.When = c.aboutRequest(m.When, at.with("when"), names, (*expr.Language).Compile)
	if m.When == "" && c.has(at.with("on_error")) && c.isValid(at.with("on_error")) {
		c.failKey(at.with("on_error"), complain("on_error is for expressions, and there is no when"))
	}
	c.comparedPaths(k.When, at.with("when"), ignore)
	c.comparedHosts(k.When, at.with("when"))
	c.contradiction(&k, at)
	return k
}

func (c *compiler) methods(methods Values, at path) []string {
	seen := make(map[string]bool, len(methods))
	for i, method := range methods {
		if seen[method] {
			c.fail(at.with(i), complain("the method %s is given twice", method))
			continue
		}
		seen[method] = true
		c.method(method, false, at.with(i))
	}
	return methods
}

// patterns compiles the patterns of attributes, ordered by attribute name. p and domain are the rule's; lists have no
// domain.
func (c *compiler) patterns(all Patterns, at path, p pattern.Path, domain string) []index.Attribute {
	var out []index.Attribute
	for _, name := range slices.Sorted(maps.Keys(all)) {
		at := at.with(name)
		if long := at[:len(at)-1].with("attributes", name); c.has(long) {
			at = long
		}
		if !c.isValid(at) {
			continue
		}
		values := all[name]
		if name == "path" {
			values = c.pathValues(values, at, p.Ignore)
		}
		a := index.Attribute{Name: name, Patterns: make([]pattern.Value, 0, len(values))}
		for i, text := range values {
			pattern, err := pattern.ParseValue(text)
			switch {
			case err != nil:
				c.fail(at.with(i), complain("%v", err))
			case name == "ip" && !pattern.Wild && !pattern.Network.IsValid():
				c.fail(at.with(i), complain("invalid address or network %.64q", text).suggest("as in 192.0.2.1 or 192.0.2.0/24"))
			default:
				c.normalForm(name, pattern, at.with(i), domain)
			}
			a.Patterns = append(a.Patterns, pattern)
		}
		c.needs(name, at, p)
		out = append(out, a)
	}
	return out
}

// pathValues returns values of the attribute path in the form in which paths are compared, in the same order. It
// appends variants for paths whose trailing slash is ignored.
func (c *compiler) pathValues(values Values, at path, ignore urlform.Ignore) Values {
	out, more := make(Values, len(values)), Values(nil)
	for i, text := range values {
		for segment := range strings.SplitSeq(text, "/") {
			if pattern.ForeignWildcard(segment) != nil {
				c.fail(at.with(i), complain("the segment %.64q of %.64q is not a wildcard", segment, text).suggest("use * here, or {name} in the path of a rule's match"))
				break
			}
		}
		problem := checkPathPattern(text)
		switch {
		case strings.Contains(text, "{"):
			c.fail(at.with(i), complain("%.64q cannot match a path, which never has braces", text).suggest("use * here, or the path of a rule's match"))
		case text == "": // reported as an empty value
		case problem != nil:
			c.fail(at.with(i), problem)
		case !strings.Contains(text, "*"):
			text = ignore.Path(urlform.Path(text))
		case strings.Contains(text, ";") && ignore&urlform.MatrixParameters != 0:
			c.fail(at.with(i), complain("%.64q never fits: path_matching ignores matrix parameters", text).suggest("leave out what follows the semicolon"))
		default:
			text = ignore.Text(pattern.WithoutSlash(text, ignore))
			if before, ok := strings.CutSuffix(text, "/*"); ok && before != "" && ignore&urlform.TrailingSlash != 0 {
				more = append(more, before)
			}
		}
		out[i] = text
	}
	return append(out, more...)
}

func (c *compiler) overrides(t *RuleTerms, at path, rule *index.Item, own *compiledLimits) []Override {
	var out []Override
	rule.Overrides = make([]index.Item, len(t.Overrides))
	seen := map[string]int{}     // matches that never expire
	names := map[uint64]uint64{} // counter names, and the match that owns each
	for i := 0; i < len(t.Overrides) && c.goOn(); i++ {
		o, at := &t.Overrides[i], at.with("overrides", i)
		item := &rule.Overrides[i]
		ignore := rule.Path.Ignore
		if c.loosens(o, t, own) {
			ignore = 0 // a client must not get more by spelling a path in another way
		}
		*item = index.Item{Conditions: c.conditions(&o.Match, at.with("match"), rule, ignore), Expires: endOf(o.ExpiresAt)}
		made := Override{Unlimited: o.Limits.Unlimited, Expires: o.ExpiresAt, item: item, onError: o.Match.OnError}
		c.expiry(o.ExpiresAt, at, "the override")
		if c.isValid(at.with("match")) && c.isValid(path{"rules", at[1], "match"}) {
			if why := disjoint(&rule.Conditions, &item.Conditions); why != "" {
				c.warn(at.with("match"), complain("the override can never apply: %s", why))
			}
			c.hidden(seen, o, i, at)
		}
		made.MatchID = matchID(&item.Conditions)
		made.OwnCounters = !o.Limits.Unlimited && !sharesCounters(&rule.Conditions, t.Key, &item.Conditions)
		strict := false
		if !o.Limits.Unlimited {
			list := limitList{terms: o.Limits.Limits, at: func(k int) path { return at.with("limits", k) }, whole: at.with("limits")}
			if made.OwnCounters {
				list.scope = made.MatchID
			}
			limits := c.limits(list, t, path{"rules", at[1]})
			made.Limits, made.Policies = limits.meters, policies(t.Name, limits.compiled)
			made.Dedup = c.dedup(t.Dedup, limits, path{"rules", at[1], "dedup"})
			made.numbers = c.numbers(t.Name, &limits, made.Policies, made.Dedup, t)
			strict = own.numbered == nil && noLooser(limits.compiled, own.compiled)
		}
		if made.onError == ErrorMatches && !strict {
			made.onError, item.SkipOnError = ErrorSkips, true // otherwise a client could loosen its limits by causing an error
		}
		if made.OwnCounters {
			c.separate(names, &made, at)
		}
		out = append(out, made)
	}
	return out
}

// loosens reports whether an override may allow more than its rule, or differently. It is false for limits that are
// invalid, which are reported elsewhere.
func (c *compiler) loosens(o *OverrideTerms, t *RuleTerms, own *compiledLimits) bool {
	if o.Limits.Unlimited || own.numbered != nil {
		return true
	}
	quiet := *c
	quiet.quiet = true
	var limits []penstock.Limit
	for i := range o.Limits.Limits {
		limit, ok := quiet.limit(&o.Limits.Limits[i], path{})
		if !ok {
			return false
		}
		c.copySettings(&limit, t)
		limits = append(limits, limit)
	}
	return !noLooser(limits, own.compiled)
}

// hidden warns about an override that never applies because an earlier one always does.
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

// contradiction warns about a match in which one condition excludes another.
func (c *compiler) contradiction(k *index.Conditions, at path) {
	if !c.isValid(at) {
		return
	}
	for i := range k.Attributes {
		a := &k.Attributes[i]
		if a.Name == "method" && len(k.Methods) > 0 && patternsDisjoint(a.Patterns, exactly(k.Methods)) {
			c.warn(at.with("method"), complain("this can never match: attributes ask for another method"))
		}
	}
}

// disjoint returns why no request can meet both sets of conditions, or "" if one may.
func disjoint(a, b *index.Conditions) string {
	if a.Domain != b.Domain {
		return "the rule is for the domain " + a.Domain
	}
	if len(a.Methods) > 0 && len(b.Methods) > 0 && patternsDisjoint(exactly(a.Methods), exactly(b.Methods)) {
		return "the rule is for the method " + strings.Join(a.Methods, " or ")
	}
	if pathsDisjoint(a.Path, b.Path) {
		return "the rule is for the path " + a.Path.Text
	}
	for i := range a.Attributes {
		for k := range b.Attributes {
			x, y := &a.Attributes[i], &b.Attributes[k]
			if x.Name == y.Name && (x.Name != "path" || a.Path.Ignore == b.Path.Ignore) && patternsDisjoint(x.Patterns, y.Patterns) {
				return "the rule is for " + x.Name + " " + x.Wanted()
			}
		}
	}
	return ""
}

func exactly(texts []string) []pattern.Value {
	out := make([]pattern.Value, len(texts))
	for i, text := range texts {
		out[i] = pattern.Value{Text: text}
	}
	return out
}

// pathsDisjoint reports whether no path matches both patterns. It is certain only if one of them is a literal
// path.
func pathsDisjoint(a, b pattern.Path) bool {
	switch {
	case a.Text == "" || b.Text == "":
		return false
	case a.Ignore != b.Ignore: // b is that of an override, which ignores nothing
		return !strings.Contains(b.Text, "{") && !a.Fits(a.Ignore.Path(b.Text))
	case !strings.Contains(a.Text, "{"):
		return !b.Fits(a.Text)
	case !strings.Contains(b.Text, "{"):
		return !a.Fits(b.Text)
	}
	return false
}

// patternsDisjoint reports whether no value matches both lists. It is certain only without wildcards.
func patternsDisjoint(a, b []pattern.Value) bool {
	texts := make(map[string]bool, len(a))
	var networks []netip.Prefix
	for i := range a {
		if a[i].Wild {
			return false
		}
		texts[a[i].Text] = true
		if a[i].Network.IsValid() {
			networks = append(networks, a[i].Network)
		}
	}
	const most = 8 // networks are compared pairwise; with more of them the answer is "not certain"
	for i := range b {
		p := &b[i]
		if p.Wild || texts[p.Text] || p.Network.IsValid() && (len(networks) > most || slices.ContainsFunc(networks, p.Network.Overlaps)) {
			return false
		}
	}
	return true
}
