package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/bounds"
)

// Schema returns the JSON Schema of documents, for editors. It is built from the same types and tags that the
// parser uses. A document that the schema accepts may still have errors that only Compile finds.
func Schema() []byte {
	s := &schemas{defs: map[string]any{}}
	root := s.fields(reflect.TypeFor[Document]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Penstock rules"
	root["$defs"] = s.defs
	text, _ := json.MarshalIndent(root, "", "  ") // cannot fail: maps, texts and numbers
	return append(text, '\n')
}

// schemas collects the definitions of structs.
type schemas struct{ defs map[string]any }

func (s *schemas) of(t reflect.Type) map[string]any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Name() != "" && t.Kind() == reflect.Struct && len(fieldsOf(t)) > 0 {
		return s.reference(t)
	}
	return s.inline(t)
}

func (s *schemas) reference(t reflect.Type) map[string]any {
	if _, known := s.defs[t.Name()]; !known {
		s.defs[t.Name()] = nil // in case it refers to itself
		s.defs[t.Name()] = s.inline(t)
	}
	return map[string]any{"$ref": "#/$defs/" + t.Name()}
}

func (s *schemas) inline(t reflect.Type) map[string]any {
	if shaped, ok := reflect.New(t).Interface().(shaper); ok {
		return shaped.schema(s)
	}
	if names := namesOf(t); names != nil {
		return map[string]any{"enum": names}
	}
	if form, ok := textPatterns[t]; ok {
		return maps.Clone(form) // each field adds its description
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Struct:
		return s.fields(t)
	case reflect.Slice:
		return map[string]any{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return map[string]any{
			"type":                 "object",
			"propertyNames":        map[string]any{"pattern": "^" + attributePattern + "$"},
			"additionalProperties": s.of(t.Elem()),
		}
	}
	return map[string]any{"type": "string"}
}

var attributePattern = fmt.Sprintf("[A-Za-z0-9_-]{1,%d}", bounds.AttributeName)

const durationPattern = "([0-9]+(ms|s|m|min|h|d|w))+"

// textPatterns are the schemas of single values.
var textPatterns = map[reflect.Type]map[string]any{
	reflect.TypeFor[Rate]():      patternSchema(`^([0-9][0-9_]*|\{[^{}/]+\})/(` + durationPattern + "|ms|s|m|min|h|d|w|hour|day|week|month|year)$"),
	reflect.TypeFor[Duration]():  patternSchema("^" + durationPattern + "$"),
	reflect.TypeFor[Seconds]():   anyOf(map[string]any{"type": "integer", "minimum": 1}, patternSchema("^"+durationPattern+"$")),
	reflect.TypeFor[Budget]():    anyOf(map[string]any{"type": "integer", "minimum": 1}, patternSchema("^([1-9][0-9]?|100)%$")),
	reflect.TypeFor[KeyPart]():   patternSchema("^" + attributePattern + `(/(3[3-9]|[4-9][0-9]|1[01][0-9]|12[0-8]))?\??$`),
	reflect.TypeFor[time.Time](): {"type": "string", "format": "date-time"},
}

func patternSchema(expression string) map[string]any {
	return map[string]any{"type": "string", "pattern": expression}
}

func anyOf(forms ...map[string]any) map[string]any { return map[string]any{"anyOf": forms} }

// single is a value that is read as text in whatever form it is written.
var single = map[string]any{"type": []string{"string", "number", "boolean"}}

// fields describes a struct as a mapping.
func (s *schemas) fields(t reflect.Type) map[string]any {
	properties := map[string]any{}
	required := []string{}
	for _, f := range fieldsOf(t) {
		property := s.of(t.Field(f.index).Type)
		f.bound(property)
		if f.nullable {
			property = anyOf(property, map[string]any{"type": "null"})
		}
		property["description"] = f.doc
		properties[f.name] = property
		if f.required {
			required = append(required, f.name)
		}
	}
	object := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		object["required"] = required
	}
	return object
}

// bound adds a field's bounds.
func (f *field) bound(property map[string]any) {
	var least, most string
	switch property["type"] {
	case "integer":
		least, most = "minimum", "maximum"
	case "array":
		least, most = "minItems", "maxItems"
	case "object":
		least, most = "minProperties", "maxProperties"
	case "string":
		least, most = "minLength", "maxLength"
	}
	if f.max == 0 || most == "" {
		return
	}
	property[most] = f.max
	switch {
	case f.min > 0 || most == "maximum":
		property[least] = f.min
	case most == "maxLength":
		property[least] = 1
	}
}

func (l *LimitTerms) schema(s *schemas) map[string]any {
	return anyOf(s.inline(reflect.TypeFor[Rate]()), s.fields(reflect.TypeFor[LimitTerms]()))
}

func (c *CostTerms) schema(s *schemas) map[string]any {
	number := map[string]any{"type": "integer", "minimum": 1, "maximum": int64(algorithm.MaxCount)}
	return anyOf(number, s.fields(reflect.TypeFor[CostTerms]()))
}

func (l *OverrideLimits) schema(s *schemas) map[string]any {
	list := map[string]any{"type": "array", "items": s.of(reflect.TypeFor[LimitTerms]()), "minItems": 1, "maxItems": maxOverrideLimits}
	return anyOf(map[string]any{"const": "unlimited"}, list)
}

func (f *Failure) schema(*schemas) map[string]any {
	divided := map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"local"},
		"properties": map[string]any{"local": map[string]any{"const": "divided"}},
	}
	return anyOf(map[string]any{"enum": []string{"local", "allow", "deny"}}, divided)
}

func (v *Values) schema(*schemas) map[string]any {
	return anyOf(single, map[string]any{"type": "array", "items": single, "minItems": 1, "maxItems": maxValues})
}

// schema allows any other field of a match as a short form of an attribute.
func (m *MatchTerms) schema(s *schemas) map[string]any {
	object := s.fields(reflect.TypeFor[MatchTerms]())
	object["additionalProperties"] = s.of(reflect.TypeFor[Values]())
	return object
}
