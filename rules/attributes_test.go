package rules_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/rules"
)

const readsEverywhere = `
attributes: {key: {header: K}, tokens: {query: t}}
rules:
  - name: a
    match: {path: "/x/{id}", attributes: {matched: "1"}, when: 'seen == "1" && id != "" && domain != ""'}
    key: [key, id, optional?]
    limits: [5/1m]
    cost: {attribute: tokens}
    dedup: {ttl: 10s, attribute: request_id}
    overrides: [{match: {attributes: {plan: gold}, when: 'tier == "2"'}, limits: [9/1m]}]
  - {name: b, match: {attributes: {seen: "1"}}, key: [], limits: [5/1m]}
  - {name: c, mode: 'off', match: {attributes: {of_a_rule_that_is_off: "1"}}, key: [], limits: [5/1m]}
  - {name: d, match: {domain: other, attributes: {of_another_domain: "1"}}, key: [], limits: [5/1m]}
lists:
  allow: [{ip: 192.0.2.1}]
  deny: [{device: "7"}]
`

// Every attribute is checked once, wherever rules and lists read it, with its source.
func TestCheckAttributes(t *testing.T) {
	s, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(readsEverywhere)}}, rules.Options{Provided: []string{"seen", "tier"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = s.CheckAttributes(penstock.DefaultDomain, func(attribute string, from *attribute.Source) error {
		if from != nil {
			attribute += "=" + from.Header + from.Query
		}
		got = append(got, attribute)
		return nil
	})
	slices.Sort(got)
	want := "[device ip key=K matched optional plan request_id seen tier tokens=t]"
	if err != nil || fmt.Sprint(got) != want {
		t.Errorf("checked %v, %v; want %s", got, err, want)
	}
	missing := errors.New("missing")
	err = s.CheckAttributes(penstock.DefaultDomain, func(attribute string, _ *attribute.Source) error {
		if attribute == "seen" || attribute == "device" {
			return missing
		}
		return nil
	})
	if !errors.Is(err, missing) || !strings.Contains(err.Error(), `rule "a", rule "b": missing`) || !strings.Contains(err.Error(), `lists.deny[0]: missing`) {
		t.Errorf("%v", err)
	}
}

// An error names some of many rules.
func TestCheckAttributesOfManyRules(t *testing.T) {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range 100 {
		fmt.Fprintf(&b, "  - {name: r%d, key: [user], limits: [5/1m]}\n", i)
	}
	s, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(b.String())}}, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = s.CheckAttributes(penstock.DefaultDomain, func(string, *attribute.Source) error { return errors.New("missing") })
	if want := `rule "r0", rule "r1", rule "r2" and 97 more: missing`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
