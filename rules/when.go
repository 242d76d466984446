package rules

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-io/penstock/rules/internal/expr"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

// aboutRequest compiles an expression over the attributes and the wildcards of the rule's path.
func (c *compiler) aboutRequest(text string, at path, p pattern.Path, compile compileFunc) *expr.Expression {
	wildcards := strings.Join(mentionedNames(p.Wildcards(), text), " ")
	return c.expression(text, wildcards, at, func() (*expr.Language, error) { return c.languageWith(wildcards) }, compile)
}

// A compileFunc compiles an expression of a language to a condition or to a number.
type compileFunc func(l *expr.Language, text string) (*expr.Expression, error)

// expression compiles an expression of a language, once for all equal ones. The field at its path says what it is for.
// of names the language, which newLanguage makes when it is first needed.
func (c *compiler) expression(text, of string, at path, newLanguage func() (*expr.Language, error), compile compileFunc) *expr.Expression {
	if text == "" || !c.isValid(at) {
		return nil
	}
	field := at[len(at)-1].(string)
	alike := field + "\x00" + of + "\x00" + text
	if known := c.expressions[alike]; known != nil {
		return known
	}
	if c.written += len(text); c.written > maxExpressions {
		c.fail(at, complain("the expressions have more than %d bytes together, where those that are alike count once", maxExpressions))
		return nil
	}
	if c.languages[of] == nil {
		made, err := newLanguage()
		if err != nil {
			c.fail(at, complain("%v", err))
			return nil
		}
		c.languages[of] = made
	}
	compiled, err := compile(c.languages[of], text)
	if err == nil {
		c.expressions[alike] = compiled
		return compiled
	}
	n := c.source.find(at)
	flawed, ok := errors.AsType[*expr.Error](err)
	if !ok {
		c.fail(at, complain("%v", err))
		return nil
	}
	for _, f := range flawed.Flaws {
		c.add(Mistake, at, c.source.withinLines(n, f.Line, f.Column), complain("%s: %s", field, f.Problem))
	}
	return nil
}

// maxExpressions bounds the total bytes of all expressions in a document: compiling a byte of an expression takes
// about ten times as long as a byte of anything else.
const maxExpressions = 512 << 10

// mentionedNames returns the names that occur in an expression. It may include names that are only part of a word. Few
// expressions need their own language.
func mentionedNames(names []string, text string) []string {
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(text, name) })
	slices.Sort(names)
	return names
}

// maxLanguages bounds the number of languages, at about 100 KB each.
const maxLanguages = 256

// languageWith makes the language over the attributes and the wildcards, which are given as one text.
func (c *compiler) languageWith(wildcards string) (*expr.Language, error) {
	if len(c.languages) == maxLanguages {
		return nil, fmt.Errorf("when: expressions name more than %d different sets of wildcards; use the same names for the same segments", maxLanguages)
	}
	return expr.NewLanguage(slices.Concat(c.attributeNames(), strings.Fields(wildcards)), c.undeclared())
}

// attributeNames returns all attributes that the document mentions.
func (c *compiler) attributeNames() []string {
	if c.attributes != nil {
		return c.attributes
	}
	names := maps.Clone(c.provided)
	match := func(m *MatchTerms) {
		for name := range m.Attributes {
			names[name] = true
		}
	}
	for i := range c.doc.Rules {
		r := &c.doc.Rules[i]
		match(&r.Match)
		for _, part := range r.Key {
			if _, ok := (pattern.Path{Text: r.Match.Path}).Wildcard(part.Name); !ok {
				names[part.Name] = true
			}
		}
		for k := range r.Overrides {
			match(&r.Overrides[k].Match)
		}
	}
	c.attributes = slices.Sorted(maps.Keys(names))
	return c.attributes
}

// undeclared returns the attributes that the document mentions but nothing provides: they may be misspelt.
func (c *compiler) undeclared() (names []string) {
	for _, name := range c.attributeNames() {
		if !c.provided[name] {
			names = append(names, name)
		}
	}
	return names
}

// wildcards reports wildcards of a rule's path that have the name of an attribute: in a key and in an expression
// they would be ambiguous.
func (c *compiler) wildcards(p pattern.Path, at path) {
	if !c.isValid(at) {
		return
	}
	for _, name := range p.Wildcards() {
		if !c.provided[name] && !slices.Contains(expr.AlwaysThere, name) {
			continue
		}
		written := strings.Replace(c.source.find(at).Text, "...}", "}", 1) // at the end
		before, _, _ := strings.Cut(written, "{"+name+"}")
		c.fail(at, complain("the wildcard {%s} has the name of an attribute", name).in(runes(before)).suggest("give it another name"))
	}
}
