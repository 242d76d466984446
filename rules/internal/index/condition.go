package index

import (
	"slices"

	"github.com/penstock-io/penstock/rules/internal/expr"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

// Conditions are what the match of a rule or an override requires of a request, validated and ready for the
// index. All must hold. The zero value holds for every request.
type Conditions struct {
	Domain     string       // "": any, for entries of a list; rules always name one
	Methods    []string     // upper case; empty: any
	Path       pattern.Path // empty: any
	Attributes []Attribute
	When       *expr.Expression // nil: none

	SkipOnError bool // the conditions do not hold if When fails

	// Slots of the request's path, set by Build: in the form that the pattern compares; in the one that the wildcards
	// of a key are taken from, which keeps case; and in the one that overrides take wildcards from that ignore nothing,
	// which also keeps a trailing slash. All of them have the same segments.
	pathSlot, wildcardSlot, exactSlot int
}

// ReadsPath reports whether the conditions depend on the path of a request.
func (c *Conditions) ReadsPath() bool {
	return c.Path.Text != "" || slices.ContainsFunc(c.Attributes, func(a Attribute) bool { return a.Name == "path" }) ||
		c.When != nil && slices.Contains(c.When.Reads, "path")
}

// An Attribute holds if the attribute is present and one of the patterns matches its value.
type Attribute struct {
	Name     string
	Patterns []pattern.Value // at least one
	slot     int             // slot of the request's value; set by Build
}

func (c *Conditions) domainHolds(v *Values) bool {
	return c.Domain == "" || c.Domain == v.values[domainSlot].text
}

func (c *Conditions) methodHolds(v *Values) bool {
	have := &v.values[methodSlot]
	return len(c.Methods) == 0 || have.there && slices.Contains(c.Methods, have.text)
}

// PathHolds reports whether the path of a request meets the conditions.
func (c *Conditions) PathHolds(v *Values) bool {
	have := &v.values[c.pathSlot]
	return c.Path.Text == "" || have.there && c.Path.Fits(have.text)
}

func (a *Attribute) holds(have *value) bool { return have.there && a.Fits(have.text) }

// Fits reports whether one of the patterns matches a value.
func (a *Attribute) Fits(text string) bool {
	for i := range a.Patterns {
		if a.Patterns[i].Fits(text) {
			return true
		}
	}
	return false
}
