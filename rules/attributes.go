package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/rules/internal/index"
)

// CheckAttributes calls check once for every attribute that the rules of the domain read. It passes the source
// that the document names for the attribute, or nil if it names none. It returns the errors, each with the rules
// and lists that read the attribute. Rules with mode off read nothing.
func (s *Snapshot) CheckAttributes(domain string, check func(attribute string, from *attribute.Source) error) error {
	var errs []error
	for _, a := range s.attributesRead(domain) {
		if err := check(a.name, s.source(a.name)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", a.readers(), err))
		}
	}
	return errors.Join(errs...)
}

func (s *Snapshot) source(attribute string) *attribute.Source {
	for i := range s.Sources {
		if s.Sources[i].Attribute == attribute {
			return &s.Sources[i]
		}
	}
	return nil
}

// A readAttribute is an attribute and the rules and lists that read it.
type readAttribute struct {
	name  string
	by    []string
	count int
}

// maxReaders bounds how many readers of an attribute an error lists.
const maxReaders = 3

func (a *readAttribute) readers() string {
	text := strings.Join(a.by, ", ")
	if more := a.count - len(a.by); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// attributesRead returns the attributes that are read for requests of a domain, in document order.
func (s *Snapshot) attributesRead(domain string) (all []*readAttribute) {
	byName := map[string]*readAttribute{}
	add := func(by string, names []string) {
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			a := byName[name]
			if a == nil {
				a = &readAttribute{name: name}
				byName[name] = a
				all = append(all, a)
			}
			if a.count++; len(a.by) < maxReaders {
				a.by = append(a.by, by)
			}
		}
	}
	for _, r := range s.Rules {
		if r.Mode != Off && r.Domain() == domain {
			add(fmt.Sprintf("rule %q", r.Name), r.attributes())
		}
	}
	for i := range s.allow {
		add(fmt.Sprintf("lists.allow[%d]", i), reads(&s.allow[i]))
	}
	for i := range s.deny {
		add(fmt.Sprintf("lists.deny[%d]", i), reads(&s.deny[i]))
	}
	return all
}

// attributes returns the names of the attributes that the rule reads.
func (r *Rule) attributes() []string {
	names := append(reads(&r.item.Conditions), r.clientAttributes()...)
	if r.Cost.estimate != nil {
		names = append(names, r.Cost.estimate.Reads...)
	}
	for _, name := range []string{r.Cost.Attribute, r.DedupAttribute} {
		if name != "" {
			names = append(names, name)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool {
		_, isWildcard := r.item.Path.Wildcard(name)
		return isWildcard || name == "domain"
	})
}

// clientAttributes returns the names of the attributes that the rule's key, overrides and numbers read.
func (r *Rule) clientAttributes() (names []string) {
	for _, part := range r.Key {
		names = append(names, part.Name)
	}
	for i := range r.Overrides {
		names = append(names, reads(&r.Overrides[i].item.Conditions)...)
	}
	for override := NoOverride; override < len(r.Overrides); override++ {
		names = append(names, r.numberAttributes(override)...)
	}
	return names
}

// LimitsBy reports whether the rule treats all requests alike that have the same values of the named attributes: it
// applies to all of them or to none, with the same key, limits and cost, and the allow list does the same.
func (s *Snapshot) LimitsBy(r *Rule, names []string) bool {
	if r.item == nil {
		return false // a Matcher finds it
	}
	all := append(r.attributes(), terms(&r.item.Conditions)...)
	for i := range r.Overrides {
		all = append(all, terms(&r.Overrides[i].item.Conditions)...)
	}
	return containsAll(names, append(all, mentions(s.allow)...))
}

// DeniesBy reports whether the deny list treats all requests alike that have the same values of the named attributes.
func (s *Snapshot) DeniesBy(names []string) bool { return containsAll(names, mentions(s.deny)) }

// mentions returns the names of everything that the entries of a list depend on.
func mentions(list []index.Conditions) (names []string) {
	for i := range list {
		names = append(append(names, reads(&list[i])...), terms(&list[i])...)
	}
	return names
}

// terms returns which of method and path the conditions have terms for.
func terms(c *index.Conditions) (names []string) {
	if len(c.Methods) > 0 {
		names = append(names, "method")
	}
	if c.Path.Text != "" {
		names = append(names, "path")
	}
	return names
}

func containsAll(names, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(names, name) })
}

// reads returns the names of the attributes and path wildcards that the conditions read.
func reads(c *index.Conditions) (names []string) {
	for i := range c.Attributes {
		names = append(names, c.Attributes[i].Name)
	}
	if c.When != nil {
		names = append(names, c.When.Reads...)
	}
	return names
}
