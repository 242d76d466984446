package naive

import (
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/urlform"
	"github.com/penstock-io/penstock/rules/internal/expr"
	"github.com/penstock-io/penstock/rules/internal/index"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

// Items returns the rules and lists in the form that the index uses.
func (w *Rules) Items() (items []index.Item, allow, deny []index.Conditions, err error) {
	language, err := NewLanguage()
	if err != nil {
		return nil, nil, nil, err
	}
	match := func(m Match, ignore urlform.Ignore) index.Conditions {
		c, failed := m.Conditions(language, ignore)
		if failed != nil {
			err = failed
		}
		return c
	}
	for _, r := range w.Rules {
		item := index.Item{Conditions: match(r.Match, r.Ignore), Key: r.Key, Expires: end(r.Expires), Off: r.Off}
		for _, o := range r.Overrides {
			item.Overrides = append(item.Overrides, index.Item{Conditions: match(o.Match, r.Ignore), Expires: end(o.Expires)})
		}
		items = append(items, item)
	}
	for _, m := range w.Allow {
		allow = append(allow, match(m, 0))
	}
	for _, m := range w.Deny {
		deny = append(deny, match(m, 0))
	}
	return items, allow, deny, err
}

// NewLanguage returns the language of [Whens].
func NewLanguage() (*expr.Language, error) {
	return expr.NewLanguage([]string{"user", "plan", "x", "r"}, nil)
}

func end(t time.Time) penstock.Instant {
	if t.IsZero() {
		return 0
	}
	return penstock.InstantOf(t)
}

// Conditions returns the match in the form that the index uses.
func (m Match) Conditions(l *expr.Language, ignore urlform.Ignore) (c index.Conditions, err error) {
	c.Domain, c.Methods, c.Path.Ignore = m.Domain, m.Methods, ignore
	if m.Path != "" {
		if c.Path, err = pattern.ParsePath(m.Path, ignore); err != nil {
			return c, err
		}
	}
	for _, a := range m.Attributes {
		condition := index.Attribute{Name: a.Name}
		for _, text := range a.Values {
			p, err := pattern.ParseValue(text)
			if err != nil {
				return c, err
			}
			condition.Patterns = append(condition.Patterns, p)
		}
		c.Attributes = append(c.Attributes, condition)
	}
	if m.When != "" {
		c.When, err = l.Compile(m.When)
		c.SkipOnError = m.OnError == Skips
	}
	return c, err
}

// Call returns a request with attributes, given as names and values.
func Call(domain string, pairs ...string) *penstock.Call {
	c := &penstock.Call{Domain: domain}
	for i := 0; i < len(pairs); i += 2 {
		c.Attributes = append(c.Attributes, penstock.Attribute{Name: pairs[i], Value: pairs[i+1]})
	}
	return c
}
