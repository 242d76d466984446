package rules

import (
	"slices"
	"sync"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules/internal/index"
)

// bodyReaders are the rules that read the body of a request. The body has to be read before they can be matched, so
// they are found by what is known before: the domain, the method and the path.
type bodyReaders struct {
	always  bool         // a list reads it
	denied  []string     // the attributes of a body that the deny list reads
	rules   *index.Index // nil: no rule does
	readers []*Rule      // of the items
	pool    *sync.Pool   // of *index.Match
}

// build finds the rules that read bodies. It returns those for requests that have none.
func (b *bodyReaders) build(s *Snapshot, work func(steps int) bool) (bodiless []*Rule) {
	body := map[string]bool{}
	for i := range s.Sources {
		if s.Sources[i].JSON != "" {
			body[s.Sources[i].Attribute] = true
		}
	}
	if len(body) == 0 {
		return nil
	}
	isBody := func(name string) bool { return body[name] }
	for i := range s.deny {
		for _, name := range reads(&s.deny[i]) {
			if isBody(name) {
				b.always, b.denied = true, append(b.denied, name)
			}
		}
	}
	for i := range s.allow {
		b.always = b.always || slices.ContainsFunc(reads(&s.allow[i]), isBody)
	}
	var items []index.Item
	for _, r := range s.Rules {
		if r.Mode != Off && slices.ContainsFunc(r.attributes(), isBody) {
			of := &r.item.Conditions
			items = append(items, index.Item{
				Conditions: index.Conditions{Domain: of.Domain, Methods: of.Methods, Path: of.Path}, Expires: r.item.Expires,
			})
			b.readers = append(b.readers, r)
			if of.Domain != penstock.DefaultDomain {
				bodiless = append(bodiless, r)
			}
		}
	}
	if len(items) > 0 {
		b.rules = index.Build(items, nil, nil, work)
		b.pool = &sync.Pool{New: func() any { return new(index.Match) }}
	}
	return bodiless
}

// ReadsBody reports whether matching a request may need attributes of its body, at an instant. The request has its
// other attributes.
func (s *Snapshot) ReadsBody(c *penstock.Call, now penstock.Instant) bool {
	b := &s.bodies
	return b.always || b.mayMatch(c, now, func(*Rule) bool { return true })
}

// NeedsField reports whether the deny list, or a rule that may match a request and enforces its limits, reads an
// attribute of its body. The request has its other attributes.
func (s *Snapshot) NeedsField(c *penstock.Call, now penstock.Instant, attribute string) bool {
	b := &s.bodies
	return slices.Contains(b.denied, attribute) || b.mayMatch(c, now, func(r *Rule) bool {
		return r.Mode == Enforce && slices.Contains(r.attributes(), attribute)
	})
}

// mayMatch reports whether a rule that reads the body may match a request.
func (b *bodyReaders) mayMatch(c *penstock.Call, now penstock.Instant, isWanted func(*Rule) bool) bool {
	if b.rules == nil {
		return false
	}
	m := b.pool.Get().(*index.Match)
	defer b.pool.Put(m)
	b.rules.Match(c, now, m)
	return slices.ContainsFunc(m.Found, func(f index.MatchedItem) bool { return isWanted(b.readers[f.Item]) })
}
