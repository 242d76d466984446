package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/rules/internal/index"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

// A rule does not apply to a request without an attribute of its key. If no other rule limits such requests, a client
// gets around the limit by leaving out a header. That is almost never meant, so it is a warning.

const (
	maxUncounted = 100 // warnings
	maxAlike     = 16  // rules of one path that are compared
)

// uncounted warns about rules that requests without a part of the key pass uncounted.
func (c *compiler) uncounted(all []Rule) {
	var covers map[string][]cover // by the shape of their path
	told := 0
	for i := 0; i < len(all) && told < maxUncounted && c.goOn(); i++ {
		r := &all[i]
		if r.Mode != Enforce || r.Domain() != penstock.DefaultDomain {
			continue // clients of other domains, such as Envoy, choose what they send
		}
		for k, part := range r.Key {
			what := c.leftOut(r, part)
			if what == "" {
				continue
			}
			if covers == nil {
				covers = c.covers(all)
			}
			if !isCovered(r.item, part.Name, covers) {
				told++
				c.warn(path{"rules", i, "key", k}, complain("requests%s without %s are not limited", toPath(r.item.Path), what).
					suggest("write %s? to count them together, or add a rule for them, for example with key: [ip]", part.value()))
			}
			break
		}
	}
}

func toPath(p pattern.Path) string {
	if p.Text == "" {
		return ""
	}
	return fmt.Sprintf(" to %.64s", p.Text)
}

// leftOut says what clients leave out to lack a part of the key, or returns "" if they cannot, or if the match asks for
// it.
func (c *compiler) leftOut(r *Rule, part KeyPart) string {
	if _, isWildcard := r.item.Path.Wildcard(part.Name); isWildcard || part.Optional {
		return ""
	}
	if asksFor(&r.item.Conditions, part.Name) {
		return ""
	}
	switch s := c.doc.Attributes[part.Name]; {
	case s.Header != "":
		return "the header " + s.Header
	case s.Cookie != "":
		return "the cookie " + s.Cookie
	case s.Query != "":
		return "the parameter " + s.Query
	case s.Claim != "":
		return "a valid token with the claim " + s.Claim
	case s.Certificate != attribute.NoCertificate:
		return "a client certificate"
	}
	return ""
}

// asksFor reports whether conditions are about an attribute.
func asksFor(k *index.Conditions, name string) bool {
	return slices.ContainsFunc(k.Attributes, func(a index.Attribute) bool { return a.Name == name }) ||
		k.When != nil && slices.Contains(k.When.Reads, name)
}

// A cover is a rule that limits every request that it matches.
type cover struct {
	*index.Item
	without string // it is for requests without this attribute; "": for all
}

// covers returns the covers by the shape of their path.
func (c *compiler) covers(all []Rule) map[string][]cover {
	covers := map[string][]cover{}
	for i := range all {
		r := &all[i]
		if r.Mode != Enforce || r.Domain() != penstock.DefaultDomain || len(r.item.Attributes) > 0 {
			continue
		}
		found := cover{Item: r.item}
		if when := r.item.When; when != nil {
			name, isMissing := strings.CutSuffix(strings.ReplaceAll(when.Text, " ", ""), `==""`)
			if !isMissing || !pattern.IsName(name) {
				continue
			}
			found.without = name
		}
		needs := slices.ContainsFunc(r.Key, func(part KeyPart) bool { return c.leftOut(r, part) != "" })
		if shape := r.item.Path.Shape(); !needs && len(covers[shape]) < maxAlike {
			covers[shape] = append(covers[shape], found)
		}
	}
	return covers
}

// isCovered reports whether one of the covers matches every request without an attribute that an item is for. It knows
// those for the same path, for a tree around it, and for all paths.
func isCovered(item *index.Item, missing string, covers map[string][]cover) bool {
	limits := func(other cover) bool {
		return other.Path.Ignore&item.Path.Ignore == item.Path.Ignore && (other.without == "" || other.without == missing) &&
			(len(other.Methods) == 0 || len(item.Methods) > 0 && !slices.ContainsFunc(item.Methods, func(m string) bool { return !slices.Contains(other.Methods, m) }))
	}
	shape := item.Path.Shape()
	if slices.ContainsFunc(covers[""], limits) || slices.ContainsFunc(covers[shape], limits) {
		return true
	}
	for at := strings.LastIndexByte(shape, '/'); at >= 0; at = strings.LastIndexByte(shape[:at], '/') {
		if slices.ContainsFunc(covers[shape[:at]+"/{...}"], limits) {
			return true
		}
	}
	return false
}
