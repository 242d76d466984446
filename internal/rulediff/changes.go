package rulediff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-io/penstock/rules"
)

// A Change is what happened to one rule, attribute or list entry.
type Change struct {
	Op     string  `json:"op"`   // add, change or remove
	Kind   string  `json:"kind"` // rule, attribute, path_matching, allow, deny, order
	Name   string  `json:"name,omitempty"`
	Value  string  `json:"value,omitempty"`  // what was added or removed
	Fields []Field `json:"fields,omitempty"` // what was changed
}

// A Field is a changed field, as it is written.
type Field struct {
	Field string `json:"field"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
}

// Values of Change.Op.
const (
	Add    = "add"
	Alter  = "change"
	Remove = "remove"
)

// facts are the contents of documents in a form to compare. Values are as they are written.
type facts struct {
	Attributes map[string]json.RawMessage
	Paths      json.RawMessage `json:"path_matching"`
	Rules      []map[string]json.RawMessage
	Lists      struct{ Allow, Deny []json.RawMessage }
}

// factsOf parses files that are one set of rules. An error is of type [rules.Problems].
func factsOf(files []rules.File) (*facts, error) {
	all := &facts{Attributes: map[string]json.RawMessage{}}
	for _, file := range files {
		doc, err := rules.Parse(file.Name, file.Data)
		if err != nil && len(files) == 1 { // one of several may have no rules
			return nil, err
		}
		var one facts
		if err := json.Unmarshal(doc.JSON(), &one); err != nil {
			return nil, fmt.Errorf("compare %s: %w", file.Name, err)
		}
		maps.Copy(all.Attributes, one.Attributes)
		if one.Paths != nil {
			all.Paths = one.Paths
		}
		all.Rules = append(all.Rules, one.Rules...)
		all.Lists.Allow = append(all.Lists.Allow, one.Lists.Allow...)
		all.Lists.Deny = append(all.Lists.Deny, one.Lists.Deny...)
	}
	return all, nil
}

// changesOf returns the changes that lead from one to the other.
func changesOf(from, to *facts) []Change {
	changes := changedRules(from, to)
	for _, name := range slices.Sorted(maps.Keys(merged(from.Attributes, to.Attributes))) {
		if c, ok := changedFields("attribute", name, wrap(from.Attributes[name]), wrap(to.Attributes[name])); ok {
			changes = append(changes, c)
		}
	}
	if c, ok := changedFields("path_matching", "", servers(from.Paths), servers(to.Paths)); ok {
		changes = append(changes, c)
	}
	changes = append(changes, changedList("allow", from.Lists.Allow, to.Lists.Allow)...)
	return append(changes, changedList("deny", from.Lists.Deny, to.Lists.Deny)...)
}

func changedRules(from, to *facts) (changes []Change) {
	before, after := named(from.Rules), named(to.Rules)
	for _, name := range namesOf(to.Rules) {
		if c, ok := changedFields("rule", name, before[name], after[name]); ok {
			changes = append(changes, c)
		}
	}
	for _, name := range namesOf(from.Rules) {
		if after[name] == nil {
			changes = append(changes, Change{Op: Remove, Kind: "rule", Name: name, Value: summary(before[name])})
		}
	}
	stay := func(all []map[string]json.RawMessage, in map[string]map[string]json.RawMessage) []string {
		return slices.DeleteFunc(namesOf(all), func(name string) bool { return in[name] == nil })
	}
	if !slices.Equal(stay(from.Rules, after), stay(to.Rules, before)) {
		changes = append(changes, Change{Op: Alter, Kind: "order", Value: "of the rules"})
	}
	return changes
}

// changedFields compares two values with one name. One of them may be nil.
func changedFields(kind, name string, from, to map[string]json.RawMessage) (Change, bool) {
	switch {
	case from == nil:
		return Change{Op: Add, Kind: kind, Name: name, Value: summary(to)}, true
	case to == nil:
		return Change{Op: Remove, Kind: kind, Name: name, Value: summary(from)}, true
	}
	c := Change{Op: Alter, Kind: kind, Name: name}
	for _, field := range slices.Sorted(maps.Keys(merged(from, to))) {
		if !bytes.Equal(from[field], to[field]) {
			c.Fields = append(c.Fields, Field{field, flow(from[field]), flow(to[field])})
		}
	}
	return c, len(c.Fields) > 0
}

func changedList(kind string, from, to []json.RawMessage) (changes []Change) {
	setOf := func(list []json.RawMessage) map[string]bool {
		set := make(map[string]bool, len(list))
		for _, entry := range list {
			set[string(entry)] = true
		}
		return set
	}
	before, after := setOf(from), setOf(to)
	for _, entry := range to {
		if !before[string(entry)] {
			changes = append(changes, Change{Op: Add, Kind: kind, Value: flow(entry)})
		}
	}
	for _, entry := range from {
		if !after[string(entry)] {
			changes = append(changes, Change{Op: Remove, Kind: kind, Value: flow(entry)})
		}
	}
	return changes
}

func merged(a, b map[string]json.RawMessage) map[string]json.RawMessage {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

// wrap returns a map with value as its one field, or nil for nil.
// servers is wrap for path_matching, which no document lacks: its default has no name here.
func servers(value json.RawMessage) map[string]json.RawMessage {
	return map[string]json.RawMessage{"servers": value}
}

func wrap(value json.RawMessage) map[string]json.RawMessage {
	if value == nil {
		return nil
	}
	return map[string]json.RawMessage{"from": value}
}

func ruleName(rule map[string]json.RawMessage) string {
	var name string
	_ = json.Unmarshal(rule["name"], &name) // cannot fail: compiled rules have a name
	return name
}

func namesOf(all []map[string]json.RawMessage) []string {
	names := make([]string, len(all))
	for i, rule := range all {
		names[i] = ruleName(rule)
	}
	return names
}

func named(all []map[string]json.RawMessage) map[string]map[string]json.RawMessage {
	byName := make(map[string]map[string]json.RawMessage, len(all))
	for _, rule := range all {
		byName[ruleName(rule)] = rule
	}
	return byName
}

// summary describes a rule or an attribute in brief.
func summary(fields map[string]json.RawMessage) string {
	var parts []string
	for _, name := range []string{"key", "limits", "requests_per_minute", "requests_per_hour", "mode", "from"} {
		if value, ok := fields[name]; ok {
			parts = append(parts, name+" "+flow(value))
		}
	}
	return strings.Join(parts, ", ")
}
