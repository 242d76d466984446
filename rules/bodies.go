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
	heads   *index.Index // the entries of lists that do not read it; nil if no entry does
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
	if b.always {
		b.heads = index.Build(nil, without(s.allow, isBody), without(s.deny, isBody), work)
	}
	var items []index.Item
	for _, r := range s.Rules {
		if r.Mode != Off && slices.ContainsFunc(r.attributes(), isBody) {
			of := &r.item.Conditions
			items = append(items, index.Item{
				Conditions: index.Conditions{Domain: of.Domain, Methods: of.Methods, Path: of.Path}, Expires: r.item.Expires,
			})
			r.readsBody = true
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

// without returns copies of the entries that do not read an attribute of a body.
func without(list []index.Conditions, isBody func(string) bool) (kept []index.Conditions) {
	for i := range list {
		if !slices.ContainsFunc(reads(&list[i]), isBody) {
			k := list[i]
			k.Attributes = slices.Clone(k.Attributes)
			for j := range k.Attributes {
				k.Attributes[j].Patterns = slices.Clone(k.Attributes[j].Patterns)
			}
			kept = append(kept, k)
		}
	}
	return kept
}

// MatchHead is Match without the rules and entries of lists that read the body. The allow list decides only if the deny
// list reads nothing of the body: that list goes first.
func (s *Snapshot) MatchHead(call *penstock.Call, now penstock.Instant, m *Match) {
	b := &s.bodies
	if b.heads != nil {
		b.heads.Match(call, now, &m.found)
		m.Denied, m.Allowed = m.found.Denied, m.found.Allowed && len(b.denied) == 0
		m.Rules, m.Failed, m.Refused = m.Rules[:0], m.Failed[:0], nil
		if m.Denied || m.Allowed {
			return
		}
	}
	s.Match(call, now, m)
	if b.heads != nil {
		m.Denied, m.Allowed = false, false
	}
	m.Rules = slices.DeleteFunc(m.Rules, func(f MatchedRule) bool { return f.Rule.readsBody })
	if m.Refused != nil && m.Refused.readsBody {
		m.Refused = nil
	}
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
