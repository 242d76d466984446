package index

import (
	"github.com/penstock-io/penstock/rules/internal/expr"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

// Conditions are what a rule's or an override's match asks of a call, checked and ready to be
// indexed. All must hold; the zero value holds for every call.
type Conditions struct {
	Domain     string       // "": any, as a list's entry means it; rules always name one
	Methods    []string     // upper case; none: any
	Path       pattern.Path // without text: any
	Attributes []Attribute
	When       *expr.Expression // nil: none

	SkipOnError bool // the conditions do not hold if When fails

	pathSlot int // where the call's path is laid out as the pattern compares it; Build sets it
}

// An Attribute holds if the attribute is there and any of the patterns fits its value.
type Attribute struct {
	Name     string
	Patterns []pattern.Value // at least one
	slot     int             // where a call's value is laid out; Build sets it
}

func (c *Conditions) domainHolds(v *Values) bool {
	return c.Domain == "" || c.Domain == v.values[domainSlot].text
}

func (c *Conditions) methodHolds(v *Values) bool {
	if len(c.Methods) == 0 {
		return true
	}
	have := &v.values[methodSlot]
	for _, method := range c.Methods {
		if have.there && have.text == method {
			return true
		}
	}
	return false
}

// PathHolds tells whether the path of a call is what the conditions ask for.
func (c *Conditions) PathHolds(v *Values) bool {
	have := &v.values[c.pathSlot]
	return c.Path.Text == "" || have.there && c.Path.Fits(have.text)
}

func (a *Attribute) holds(have *value) bool { return have.there && a.Fits(have.text) }

// Fits tells whether any of the patterns fits a value.
func (a *Attribute) Fits(text string) bool {
	for i := range a.Patterns {
		if a.Patterns[i].Fits(text) {
			return true
		}
	}
	return false
}
