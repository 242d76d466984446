package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// The types of the clients for Node and Python are made from docs/openapi.json. After a change there: make generate
func TestTypesOfClientsIsCurrent(t *testing.T) {
	var document struct {
		Components struct{ Schemas map[string]schema }
	}
	text, err := os.ReadFile("../../docs/openapi.json")
	if err == nil {
		err = json.Unmarshal(text, &document)
	}
	if err != nil {
		t.Fatal(err)
	}
	schemas := document.Components.Schemas
	var node, python strings.Builder
	node.WriteString("// Generated from docs/openapi.json by make generate. Do not edit.\n")
	for _, name := range []string{"Limit", "Verdict", "Call", "Report"} {
		schemas[name].typeScript(&node, name)
	}
	python.WriteString(`"""Generated from docs/openapi.json by make generate. Do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional
`)
	for _, name := range []string{"Limit", "Verdict"} {
		schemas[name].python(&python, name)
	}
	checkGenerated(t, "../../clients/node/src/types.gen.ts", node.String())
	checkGenerated(t, "../../clients/python/src/penstock/_types.py", python.String())
}

func checkGenerated(t *testing.T, file, want string) {
	t.Helper()
	if os.Getenv("PENSTOCK_TEST_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not what docs/openapi.json says (%v): make generate", file, err)
	}
}

// A schema is what of JSON Schema describes these types.
type schema struct {
	Type                 any // a string, or strings of which one is "null"
	Enum                 []string
	Const                any
	Ref                  string `json:"$ref"`
	Minimum              int64
	Items                *schema
	Properties           properties
	AdditionalProperties json.RawMessage
	Required             []string
	Description          string
}

// properties are those of a type in the order of the document.
type properties []property

type property struct {
	name string
	schema
}

func (f *properties) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		next := property{name: name.(string)}
		if err := d.Decode(&next.schema); err != nil {
			return err
		}
		*f = append(*f, next)
	}
	return nil
}

func (s schema) ref() string { return strings.TrimPrefix(s.Ref, "#/components/schemas/") }

// nullable returns the type that is not null, and whether it can be null.
func (s schema) nullable() (string, bool) {
	switch v := s.Type.(type) {
	case string:
		return v, false
	case []any:
		for _, one := range v {
			if one != "null" {
				return one.(string), true
			}
		}
	}
	return "", false
}

func (s schema) typeScript(b *strings.Builder, name string) {
	fmt.Fprintf(b, "\nexport interface %s {\n", name)
	for _, f := range s.Properties {
		if f.Description != "" {
			b.WriteString(wrap("  /** "+f.Description+" */", "   * "))
		}
		mark := "?"
		if slices.Contains(s.Required, f.name) {
			mark = ""
		}
		fmt.Fprintf(b, "  %s%s: %s;\n", f.name, mark, f.typeScriptType())
	}
	b.WriteString("}\n")
}

func (s schema) typeScriptType() string {
	name, null := s.nullable()
	switch {
	case s.Ref != "":
		name = s.ref()
	case s.Const != nil:
		name = "boolean"
	case s.Enum != nil:
		name = `"` + strings.Join(s.Enum, `" | "`) + `"`
	case name == "integer":
		name = "number"
	case name == "array":
		name = s.Items.typeScriptType() + "[]"
	case name == "object":
		name = "Record<string, string>"
	}
	if null {
		name += " | null"
	}
	return name
}

func (s schema) python(b *strings.Builder, name string) {
	fmt.Fprintf(b, "\n\n@dataclass(frozen=True)\nclass %s:\n", name)
	for _, f := range s.Properties {
		if f.Description != "" {
			b.WriteString(wrap("    #: "+f.Description, "    #: "))
		}
		fmt.Fprintf(b, "    %s: %s\n", f.name, f.pythonType(slices.Contains(s.Required, f.name)))
	}
}

// pythonType returns the type of a field and its default. A field that may be absent is None then, unless 0 means the
// same.
func (s schema) pythonType(required bool) string {
	name, null := s.nullable()
	switch {
	case s.Const != nil || name == "boolean":
		return "bool = False"
	case s.Enum != nil:
		return `str = "` + s.Enum[0] + `"`
	case name == "array":
		return "tuple[" + s.Items.ref() + ", ...] = ()"
	case null:
		return "Optional[int] = 0"
	case name == "integer" && (required || s.Minimum < 1):
		return "int = 0"
	case name == "integer":
		return "Optional[int] = None"
	case required:
		return `str = ""`
	}
	return "Optional[str] = None"
}

// wrap breaks text into lines, of which those after the first begin with a prefix.
func wrap(text, prefix string) string {
	const width = 118
	var b strings.Builder
	for len(text) > width {
		at := strings.LastIndexByte(text[:width], ' ')
		b.WriteString(text[:at] + "\n")
		text = prefix + text[at+1:]
	}
	return b.String() + text + "\n"
}
