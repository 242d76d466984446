package rules

import (
	"fmt"
	"strings"

	"github.com/penstock-io/penstock/rules/internal/pattern"
)

// A numberTerm is one place that the number of a rate may come from, as in {claim: quota}, {quota} or
// {tenant.requests}.
type numberTerm struct {
	field       string // claim or header, if the term names a part of the request instead of an attribute
	name        string // of the attribute, claim or header
	entitlement string // name of the entitlement; "": the value itself is the number
}

// maxNumberTerms bounds how many places a rate names.
const maxNumberTerms = 4

// parseNumberTerms reads what is within the braces of a rate.
func parseNumberTerms(text string) (terms []numberTerm, c *valueProblem) {
	for part := range strings.SplitSeq(text, "|") {
		t, c := parseNumberTerm(strings.TrimSpace(part))
		if c != nil {
			return nil, c.in(1)
		}
		terms = append(terms, t)
	}
	if len(terms) > maxNumberTerms {
		return nil, complain("the rate has %d sources for its number, at most %d", len(terms), maxNumberTerms)
	}
	return terms, nil
}

func parseNumberTerm(text string) (numberTerm, *valueProblem) {
	if field, name, ok := strings.Cut(text, ":"); ok {
		t := numberTerm{field: strings.TrimSpace(field), name: strings.TrimSpace(name)}
		switch {
		case t.field != "claim" && t.field != "header":
			return t, complain("a number cannot come from %.40q", t.field).suggest("write {claim: quota}, {header: X-Quota}, the name of an attribute, or {tenant.requests}")
		case t.name == "" || len(t.name) > maxSourceName || strings.ContainsAny(t.name, "{}|: "):
			return t, complain("%.64q cannot be the name of a %s", t.name, t.field)
		}
		return t, nil
	}
	name, entitlement, entitled := strings.Cut(text, ".")
	if c := checkAttributeName(name); c != nil {
		return numberTerm{}, c
	}
	if entitled && (len(entitlement) > MaxEntitlementName || !pattern.IsName(entitlement)) {
		return numberTerm{}, complain("invalid entitlement name %.80q", entitlement).suggest("use up to %d letters, digits, - and _", MaxEntitlementName)
	}
	return numberTerm{name: name, entitlement: entitlement}, nil
}

// Bounds of names, in bytes.
const (
	MaxEntitlementName = 64
	maxSourceName      = 120 // with its field, it is the name of an attribute
)

// attribute returns the name of the attribute whose value the term reads.
func (t numberTerm) attribute() string {
	if t.field != "" {
		return t.field + ":" + t.name
	}
	return t.name
}

func (t numberTerm) String() string {
	switch {
	case t.field != "":
		return t.field + ": " + t.name
	case t.entitlement != "":
		return t.name + "." + t.entitlement
	}
	return t.name
}

// numberText formats terms in the form that Rate.From holds.
func numberText(terms []numberTerm) string {
	texts := make([]string, len(terms))
	for i, t := range terms {
		texts[i] = t.String()
	}
	return strings.Join(texts, " | ")
}

// parseRateCount reads what stands before the slash of a rate: a number, or in braces where it comes from.
func parseRateCount(text string) (count int64, from string, c *valueProblem) {
	inner, ok := strings.CutPrefix(text, "{")
	if !ok {
		count, c = parseCount(text)
		return count, "", c
	}
	if inner, ok = strings.CutSuffix(inner, "}"); !ok {
		return 0, "", complain("the rate %.40q has no closing brace before the slash", text).suggest(`write for example "{claim: quota}/1h"`)
	}
	terms, c := parseNumberTerms(inner)
	if c != nil {
		return 0, "", c
	}
	return 0, numberText(terms), nil
}

// numberTerms returns the terms of a rate that was read without an error.
func (r Rate) numberTerms() []numberTerm {
	if r.From == "" {
		return nil
	}
	terms, _ := parseNumberTerms(r.From)
	return terms
}

// countText returns what stands before the slash.
func (r Rate) countText() string {
	if r.From != "" {
		return "{" + r.From + "}"
	}
	return fmt.Sprint(r.Count)
}
