package index

import (
	"fmt"
	"strings"

	"github.com/penstock-io/penstock"
)

// Values lays out the values of a request, to explain its result.
func (x *Index) Values(call *penstock.Call) *Values {
	v := new(Values)
	v.set(call, x.slots)
	return v
}

// Consider makes item the current one: expressions and keys then see the path in its form, and its wildcards.
func (v *Values) Consider(item *Item) { v.item, v.over = item, nil }

// ConsiderOverride makes an override of the current item the current one, or none.
func (v *Values) ConsiderOverride(item *Item) { v.over = item }

// SetDomain replaces the domain of the request.
func (v *Values) SetDomain(name string) { v.values[domainSlot].text = name }

// KeyValue returns the value of a part of the current item's key. there is false if the request lacks it.
func (x *Index) KeyValue(part KeyPart, v *Values) (text string, there bool) {
	if w, ok := v.item.Path.Wildcard(part.Name); ok {
		if !v.item.PathHolds(v) {
			return "", false
		}
		return w.Of(v.values[v.item.wildcardSlot].text), true
	}
	have := &v.values[x.slots.ofKey(part, v.item.Path.Ignore, nil)]
	return have.text, have.there
}

// Unmet returns the first condition that does not hold, except the expression: domain, method, path or attribute.
// why says it in words. condition is "" if all hold.
func (c *Conditions) Unmet(v *Values) (condition, why string) {
	switch {
	case !c.domainHolds(v):
		return "domain", fmt.Sprintf("the domain is %s, not %q", display(&v.values[domainSlot]), c.Domain)
	case !c.methodHolds(v):
		return "method", fmt.Sprintf("the method is %s, not %s", display(&v.values[methodSlot]), strings.Join(c.Methods, " or "))
	case !c.PathHolds(v):
		return "path", fmt.Sprintf("the path is %s, which does not fit %s", display(&v.values[c.pathSlot]), c.Path.Text)
	}
	for i := range c.Attributes {
		if a := &c.Attributes[i]; !a.holds(&v.values[a.slot]) {
			return "attribute", fmt.Sprintf("%s is %s, not %s", a.Name, display(&v.values[a.slot]), a.Wanted())
		}
	}
	return "", ""
}

// Bounds of the request's values that an explanation quotes.
const (
	maxShownValue    = 128
	maxShownPatterns = 8
)

func display(v *value) string {
	switch {
	case !v.there:
		return "missing"
	case len(v.text) > maxShownValue:
		return fmt.Sprintf("%q…", strings.ToValidUTF8(v.text[:maxShownValue], ""))
	}
	return fmt.Sprintf("%q", v.text)
}

// Wanted lists the patterns, or the first few if there are many.
func (a *Attribute) Wanted() string {
	var b strings.Builder
	for i := range a.Patterns {
		if i == maxShownPatterns {
			fmt.Fprintf(&b, " or %d others", len(a.Patterns)-i)
			break
		}
		if i > 0 {
			b.WriteString(" or ")
		}
		fmt.Fprintf(&b, "%q", a.Patterns[i].Text)
	}
	return b.String()
}
