package rules

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/strictdoc"
)

const referenceFile = "../docs/reference/rules-reference.md"

// A section of the reference describes the fields of one type.
type section struct {
	title  string
	intro  string
	of     reflect.Type
	at     path // where examples have the fields
	prefix string
}

var sections = []section{
	{"Document", "The fields at the top of a document.", reflect.TypeFor[Document](), nil, ""},
	{"Attribute", "An attribute has one source.", reflect.TypeFor[Source](), path{"attributes", "user"}, "attributes.NAME"},
	{"Rule", "The fields of a rule.", reflect.TypeFor[RuleTerms](), path{"rules", 0}, "rules[]"},
	{"Match", "Conditions of a rule or of an override. All must hold.", reflect.TypeFor[MatchTerms](), path{"rules", 0, "match"}, "rules[].match"},
	{"Limit", "A limit is a rate alone, such as `100/1m`, or a mapping. See [which algorithm](../explanation/algorithms.md).", reflect.TypeFor[LimitTerms](), path{"rules", 0, "limits", 0}, "rules[].limits[]"},
	{"Cost", "A cost is a number, or a mapping with one of `attribute`, `response_header`, `response_bytes` and `response_json`, or `estimate` alone or beside one of the last three.", reflect.TypeFor[CostTerms](), path{"rules", 0, "cost"}, "rules[].cost"},
	{"Dedup", "How duplicates are recognised. See [duplicates](../explanation/around-a-charge.md#duplicates).", reflect.TypeFor[DedupTerms](), path{"rules", 0, "dedup"}, "rules[].dedup"},
	{"Reserve", "How an estimate is settled. See [reservations](../explanation/around-a-charge.md#reservations).", reflect.TypeFor[ReserveTerms](), path{"rules", 0, "reserve"}, "rules[].reserve"},
	{"Overdraft", "How far a balance can fall below zero.", reflect.TypeFor[OverdraftTerms](), path{"rules", 0, "overdraft"}, "rules[].overdraft"},
	{"Penalty", "When a client is banned. See [bans](../explanation/around-a-charge.md#bans).", reflect.TypeFor[PenaltyTerms](), path{"rules", 0, "penalty"}, "rules[].penalty"},
	{"Override", "Other limits for some requests of a rule. See [overrides](rules.md#overrides).", reflect.TypeFor[OverrideTerms](), path{"rules", 0, "overrides", 0}, "rules[].overrides[]"},
	{"Lists", "Lists are checked before rules. An entry is a mapping of attributes to values.", reflect.TypeFor[Lists](), path{"lists"}, "lists"},
}

// referenceFrame is the default document around an example.
var referenceFrame = []struct{ name, text string }{
	{"attributes", "attributes:\n  user: {header: X-User-ID}\n  plan: {claim: plan}\n  tokens: {header: X-Tokens}\n  request: {header: X-Request-ID}\n"},
	{"rules", "rules:\n  - name: search\n    key: [user?]\n    limits: [100/1m]\n"},
}

// ruleFrame is the rest of the rule around an example of its fields.
var ruleFrame = []struct{ name, text string }{{"name", "name: search"}, {"key", "key: [user?]"}, {"limits", "limits: [100/1m]"}}

// exampleDocument returns an example as a whole document. An example of a rule's field begins with the field.
func exampleDocument(s *section, example string) string {
	has := func(name string) bool {
		return strings.HasPrefix("\n"+example, "\n"+name+":") || strings.Contains(example, "\n"+name+":")
	}
	text := example
	if len(s.at) > 1 && s.at[0] == "rules" {
		rule := strings.Split(strings.TrimSpace(example), "\n")
		for _, f := range ruleFrame {
			if !has(f.name) && !(f.name == "limits" && strings.HasPrefix(example, "requests_per_")) {
				rule = append(rule, f.text)
			}
		}
		text = "rules:\n  - " + strings.Join(rule, "\n    ") + "\n"
		has = func(name string) bool { return name == "rules" }
	}
	for _, f := range referenceFrame {
		if !has(f.name) {
			text += f.text
		}
	}
	return text
}

// Every field has an example that compiles without a warning and sets the field.
func TestReferenceExamples(t *testing.T) {
	unused := maps.Clone(referenceExamples)
	for _, s := range sections {
		for _, f := range fieldsOf(s.of) {
			name := strings.TrimPrefix(s.prefix+"."+f.name, ".")
			example := referenceExamples[name]
			delete(unused, name)
			if example == "" {
				t.Errorf("%s has no example", name)
				continue
			}
			text := exampleDocument(&s, example)
			doc, err := Parse("example", []byte(text))
			if err != nil {
				t.Errorf("%s: %v\n%s", name, err, text)
				continue
			}
			if _, warnings, err := Compile(doc, Options{Now: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}); err != nil || len(warnings) > 0 {
				t.Errorf("%s: %v %v\n%s", name, err, warnings, text)
			}
			if !has(doc.found.source.root, s.at.with(f.name)) {
				t.Errorf("%s: the example does not give it\n%s", name, text)
			}
		}
	}
	for name := range unused {
		t.Errorf("%s is not a field", name)
	}
}

func has(n *strictdoc.Node, at path) bool {
	for _, step := range at {
		if n = n.Step(step); n == nil {
			return false
		}
	}
	return true
}

// PENSTOCK_TEST_UPDATE=1 go test ./rules -run TestReferenceIsCurrent writes the page again.
func TestReferenceIsCurrent(t *testing.T) {
	if os.Getenv("PENSTOCK_TEST_UPDATE") != "" {
		if err := os.WriteFile(referenceFile, []byte(reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	published, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(published) != reference() {
		t.Errorf("%s is not current; write it again with PENSTOCK_TEST_UPDATE=1 go test ./rules -run %s", referenceFile, t.Name())
	}
}

func reference() string {
	var b strings.Builder
	b.WriteString("# Rules reference\n\n" +
		"Every field of a rules document, with an example. [Rules](rules.md) explains how they work together.\n\n" +
		"This page is generated from the types that the parser reads, as is [rules.schema.json](../rules.schema.json) for editors. " +
		"Examples of a rule's fields leave out its `name`, `key` and `limits` where these do not matter.\n\n")
	for _, s := range sections {
		fmt.Fprintf(&b, "- [%s](#%s)", s.title, anchor(s.title))
		if s.prefix != "" {
			fmt.Fprintf(&b, ": `%s`", s.prefix)
		}
		b.WriteString("\n")
	}
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", s.title, s.intro)
		for _, f := range fieldsOf(s.of) {
			name := strings.TrimPrefix(s.prefix+"."+f.name, ".")
			fmt.Fprintf(&b, "\n### `%s`\n\n", name)
			form := valueForm(s.of.Field(f.index).Type, &f)
			if f.required {
				form += "; required"
			}
			fmt.Fprintf(&b, "%s.\n\n%s\n\n```yaml\n%s\n```\n", upperFirst(form), f.doc, strings.TrimSpace(referenceExamples[name]))
		}
	}
	return b.String()
}

func anchor(title string) string { return strings.ReplaceAll(strings.ToLower(title), " ", "-") }

func upperFirst(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// writtenAs says how values of some types are written.
var writtenAs = map[reflect.Type]string{
	reflect.TypeFor[Rate]():           "rate: a number, a slash and a time, such as `100/1m`",
	reflect.TypeFor[Duration]():       "duration, such as `30s` or `1h30m`",
	reflect.TypeFor[Seconds]():        "number of seconds, or duration",
	reflect.TypeFor[Budget]():         "number or percentage",
	reflect.TypeFor[KeyPart]():        "name, with `?` if it is optional",
	reflect.TypeFor[time.Time]():      "time in RFC 3339, or `null`",
	reflect.TypeFor[Values]():         "text or list of texts",
	reflect.TypeFor[Patterns]():       "mapping of attributes to one or several values",
	reflect.TypeFor[Failure]():        "one of `local`, `{local: divided}`, `allow`, `deny`",
	reflect.TypeFor[OverrideLimits](): "list of [limits](#limit), or `unlimited`",
	reflect.TypeFor[LimitTerms]():     "[limit](#limit)",
	reflect.TypeFor[CostTerms]():      "number, or mapping, see [Cost](#cost)",
}

// valueForm says how a field is written and what bounds it.
func valueForm(t reflect.Type, f *field) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if form, ok := writtenAs[t]; ok {
		return form
	}
	if names := namesOf(t); names != nil {
		return "one of `" + strings.Join(names, "`, `") + "`"
	}
	if i := slices.IndexFunc(sections, func(s section) bool { return s.of == t }); i >= 0 {
		return fmt.Sprintf("mapping, see [%s](#%s)", sections[i].title, anchor(sections[i].title))
	}
	switch t.Kind() {
	case reflect.Bool:
		return "`true` or `false`"
	case reflect.Int64:
		return fmt.Sprintf("number from %d to %d", f.min, f.max)
	case reflect.Slice:
		return fmt.Sprintf("list of at most %d items, each a %s", f.max, valueForm(t.Elem(), &field{}))
	case reflect.Map:
		return fmt.Sprintf("mapping of at most %d names, each a %s", f.max, valueForm(t.Elem(), &field{}))
	}
	return fmt.Sprintf("text of at most %d characters", f.max)
}
