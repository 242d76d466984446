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
	always bool         // a list reads it
	rules  *index.Index // nil: no rule does
	pool   *sync.Pool   // of *index.Match
}

func (b *bodyReaders) build(s *Snapshot, work func(steps int) bool) {
	body := map[string]bool{}
	for i := range s.Sources {
		if s.Sources[i].JSON != "" {
			body[s.Sources[i].Attribute] = true
		}
	}
	if len(body) == 0 {
		return
	}
	isBody := func(name string) bool { return body[name] }
	for _, list := range [][]index.Conditions{s.allow, s.deny} {
		for i := range list {
			b.always = b.always || slices.ContainsFunc(reads(&list[i]), isBody)
		}
	}
	var items []index.Item
	for _, r := range s.Rules {
		if r.Mode != Off && slices.ContainsFunc(r.attributes(), isBody) {
			of := &r.item.Conditions
			items = append(items, index.Item{
				Conditions: index.Conditions{Domain: of.Domain, Methods: of.Methods, Path: of.Path}, Expires: r.item.Expires,
			})
		}
	}
	if len(items) > 0 {
		b.rules = index.Build(items, nil, nil, work)
		b.pool = &sync.Pool{New: func() any { return new(index.Match) }}
	}
}

// ReadsBody reports whether matching a request may need attributes of its body, at an instant. The request has its
// other attributes.
func (s *Snapshot) ReadsBody(c *penstock.Call, now penstock.Instant) bool {
	b := &s.bodies
	if b.always || b.rules == nil {
		return b.always
	}
	m := b.pool.Get().(*index.Match)
	defer b.pool.Put(m)
	b.rules.Match(c, now, m)
	return len(m.Found) > 0
}
