package rules

import (
	"time"

	"github.com/penstock-io/penstock"
)

// Conditions are what a rule's or an override's match asks of a call, checked and ready to be
// indexed. All must hold; the zero value holds for every call.
type conditions struct {
	domain     string      // "": any, as a list's entry means it; rules always name one
	methods    []string    // upper case; none: any
	path       pathPattern // without text: any
	pathSlot   int         // where the call's path is laid out as the pattern compares it; newIndex sets it
	attributes []attributeCondition
	when       *expression // nil: none
	onError    OnError     // what happens if when fails
}

// An attributeCondition holds if the attribute is there and any of the patterns fits its value.
type attributeCondition struct {
	name     string
	patterns []valuePattern // at least one
	slot     int            // where a call's value is laid out; newIndex sets it
}

// A listEntry is one entry of the allow or the deny list.
type listEntry struct{ conditions conditions }

func (c *conditions) domainHolds(v *callValues) bool {
	return c.domain == "" || c.domain == v.values[domainSlot].text
}

func (c *conditions) methodHolds(v *callValues) bool {
	if len(c.methods) == 0 {
		return true
	}
	have := &v.values[methodSlot]
	for _, method := range c.methods {
		if have.there && have.text == method {
			return true
		}
	}
	return false
}

func (c *conditions) pathHolds(v *callValues) bool {
	have := &v.values[c.pathSlot]
	return c.path.text == "" || have.there && c.path.fits(have.text)
}

func (a *attributeCondition) holds(have *value) bool {
	if !have.there {
		return false
	}
	for i := range a.patterns {
		if a.patterns[i].fits(have) {
			return true
		}
	}
	return false
}

// expired tells whether what ends at a given time, the zero one being never, has ended.
func expired(end time.Time, now penstock.Instant) bool {
	return !end.IsZero() && now >= penstock.InstantOf(end)
}
