package rules

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/penstock-io/penstock/attribute"
)

// sources returns the sources of attributes, ordered by attribute name.
func (c *compiler) sources() (all []attribute.Source) {
	for _, name := range slices.Sorted(maps.Keys(c.doc.Attributes)) {
		at := path{"attributes", name}
		if !c.isValid(at) {
			continue
		}
		if slices.Contains(builtin, name) {
			c.fail(at, complain("%s is always there", name).suggest("give this attribute another name"))
		}
		s := c.doc.Attributes[name]
		c.checkSource(&s, name, at)
		all = append(all, attribute.Source{
			Attribute: name, Header: s.Header, Cookie: s.Cookie, Query: s.Query, Claim: s.Claim, Certificate: s.Certificate,
			JSON: s.JSON, Default: s.Default, OnUnreadable: s.OnUnreadable,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(c.named)) {
		s := c.named[name]
		all = append(all, attribute.Source{Attribute: name, Header: s.Header, Claim: s.Claim})
	}
	return all
}

// checkField reports a path to a field of a JSON body that leads nowhere.
func (c *compiler) checkField(field string, at path) {
	if field != "" && (slices.Contains(strings.Split(field, "."), "") || strings.ContainsFunc(field, unicode.IsControl)) {
		c.fail(at, complain("%.64q cannot be a field of a JSON text", field).suggest("write the names of the objects around it and its own, as in params.name"))
	}
}

func (c *compiler) checkSource(s *Source, name string, at path) {
	for field, value := range map[string]string{"header": s.Header, "cookie": s.Cookie} {
		if value != "" && !httpToken.MatchString(value) {
			c.fail(at.with(field), complain("%.64q cannot be the name of a %s", value, field))
		}
	}
	if strings.ContainsFunc(s.Query, unicode.IsControl) {
		c.fail(at.with("query"), complain("%.64q cannot be the name of a query parameter", s.Query))
	}
	c.checkField(s.JSON, at.with("json"))
	if s.Default != "" && s.JSON == "" {
		c.fail(at.with("default"), complain("default can only be used with json"))
	}
	if s.OnUnreadable != attribute.DenyUnreadable && s.JSON == "" {
		c.fail(at.with("on_unreadable"), complain("on_unreadable can only be used with json"))
	}
	given := 0
	var known []string
	for _, f := range fieldsOf(reflect.TypeFor[Source]()) {
		if f.name == "default" || f.name == "on_unreadable" {
			continue
		}
		known = append(known, f.name)
		if !reflect.ValueOf(s).Elem().Field(f.index).IsZero() {
			given++
		}
	}
	if given != 1 {
		c.fail(at, complain("%s has %d sources", name, given).suggest("give one of %s", strings.Join(known, ", ")))
	}
}
