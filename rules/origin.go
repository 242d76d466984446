package rules

import (
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
)

// Origin is where the number of a limit comes from.
type Origin string

const (
	FromDocument    Origin = "document"
	FromOverride    Origin = "override"
	FromEntitlement Origin = "entitlement"
	FromClaim       Origin = "claim"
	FromHeader      Origin = "header"
	FromAttribute   Origin = "attribute" // that the client of the decision API sends
	FromDefault     Origin = "default"   // data has no valid number
)

// A Number is the number of a limit for a request, and where it came from.
type Number struct {
	Number int64
	Origin Origin
	Source string    // as the rate names it, such as tenant.requests; "": none
	Value  string    // of the attribute that was read
	Until  time.Time // when the number stops to apply; zero: never
	Max    int64     // that data may set; 0: the number does not come from data

	Reason FallbackReason // why it is the default
}

// Why says why the number is the default, or "" if it is not.
func (n *Number) Why() string {
	switch n.Reason {
	case NoFallback:
		return ""
	case NoNumber:
		return "no source has a number for this client"
	case NotNumber:
		return fmt.Sprintf("%s is %.64q, which is not a whole number", n.Source, n.Value)
	case AboveMax:
		return fmt.Sprintf("%s of %.64q is above the maximum of %d", n.Source, n.Value, n.Max)
	}
	return "the algorithm cannot have the number"
}

// dataAt returns what numbers are looked up in at an instant.
func dataAt(e Entitlements, now penstock.Instant) *Data {
	return &Data{Entitlements: e, Now: func() penstock.Instant { return now }}
}

// numbersFor sets the limits with the numbers that apply to a request, and where each number comes from.
func (c *RuleExplanation) numbersFor(call *penstock.Call, data *Data) {
	r := c.Rule
	n, limits := r.limitsOf(c.Override)
	origin, until := FromDocument, r.Expires
	if c.Override != NoOverride {
		origin = FromOverride
		if end := r.Overrides[c.Override].Expires; !end.IsZero() && (until.IsZero() || end.Before(until)) {
			until = end
		}
	}
	if n != nil {
		key := make([]string, len(c.Key))
		for i := range c.Key {
			key[i] = c.Key[i].Value
		}
		limits = n.resolve(r, call, key, data, nil)
		c.Limits = limits.Meters
		for i := range n.limits {
			c.Numbers = append(c.Numbers, n.limits[i].explain(call, key, data, origin, until))
		}
		return
	}
	for _, m := range limits.Meters {
		c.Numbers = append(c.Numbers, Number{Number: m.PerWindow(), Origin: origin, Until: until})
	}
}

// explain returns the number of a limit for a request.
func (l *numbered) explain(call *penstock.Call, key []string, data *Data, origin Origin, until time.Time) Number {
	choice := l.choose(call, key, data)
	n := Number{Number: choice.count, Origin: origin, Value: choice.value, Reason: choice.reason, Until: until}
	if len(l.sources) == 0 {
		return n
	}
	n.Max = l.max
	if choice.reason == NoFallback {
		if limit := l.with(choice.count); limit.Validate() != nil {
			choice.reason, n.Reason, n.Number = NotPossible, NotPossible, l.limit.Count
		}
	}
	if choice.source >= 0 {
		n.Source = l.sources[choice.source].text
	}
	if choice.reason != NoFallback {
		n.Origin = FromDefault
		return n
	}
	n.Origin = l.sources[choice.source].kind
	if end := choice.until.Time(); choice.until != 0 && (until.IsZero() || end.Before(until)) {
		n.Until = end
	}
	return n
}

// An EntitledLimit is a limit whose number an entitlement can set.
type EntitledLimit struct {
	Rule                   *Rule
	Policy                 string
	Attribute, Entitlement string
	Max, Default           int64
}

// EntitledLimits returns all limits whose numbers entitlements can set, in document order.
func (s *Snapshot) EntitledLimits() (all []EntitledLimit) {
	for _, r := range s.Rules {
		for override := NoOverride; override < len(r.Overrides); override++ {
			n, limits := r.limitsOf(override)
			if n == nil {
				continue
			}
			for i := range n.limits {
				l := &n.limits[i]
				for k := range l.sources {
					if e := l.sources[k].entitlement; e != "" {
						all = append(all, EntitledLimit{r, limits.Policies[i], l.sources[k].read, e, l.max, l.limit.Count})
					}
				}
			}
		}
	}
	return all
}
