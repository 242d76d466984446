package openapitest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-io/penstock/internal/baseline"
)

// Promises lists what the document promises to clients, for [baseline.Check]: operations, parameters, bodies, statuses,
// and of every schema the fields, their types and values, and which are always there. Bounds of lengths and numbers are
// not listed.
func (d *Document) Promises() []string {
	p := &promises{document: d, sent: direction{true, map[string]bool{}}, answered: direction{false, map[string]bool{}}}
	for name, operation := range d.Operations() {
		p.operation(name, operation)
	}
	for _, way := range []direction{p.sent, p.answered} {
		for _, name := range slices.Sorted(maps.Keys(way.schemas)) {
			p.fields(name, p.resolve(p.at("components", "schemas", name)), way)
		}
	}
	return p.lines
}

type promises struct {
	document       *Document
	lines          []string
	sent, answered direction
}

// A direction is requests or responses, and the schemas that they consist of.
type direction struct {
	isRequest bool
	schemas   map[string]bool
}

func (p *promises) add(format string, args ...any) {
	p.lines = append(p.lines, fmt.Sprintf(format, args...))
}

func (p *promises) operation(name string, operation map[string]any) {
	p.add("%s", name)
	method, path, _ := strings.Cut(name, " ")
	if security, _ := operation["security"].([]any); len(security) > 0 {
		p.add("%s%s credentials", baseline.Requires, name)
	}
	for _, holder := range []any{p.at("paths", path), operation} {
		for _, parameter := range list(holder, "parameters") {
			p.parameter(name, p.resolve(parameter))
		}
	}
	body := p.resolve(operation["requestBody"])
	if required, _ := body["required"].(bool); required {
		p.add("%s%s a body", baseline.Requires, name)
	}
	p.content(name+" takes", body, p.sent)
	responses, _ := operation["responses"].(map[string]any)
	for status := range responses {
		response := p.resolve(p.at("paths", path, strings.ToLower(method), "responses", status))
		if status >= "400" {
			status = "an error" // which errors there are may change, not what they look like
		}
		p.content(name+" answers "+status, response, p.answered)
		headers, _ := response["headers"].(map[string]any)
		for header := range headers {
			p.add("%s answers %s with header %s", name, status, header)
		}
	}
}

func (p *promises) parameter(operation string, parameter map[string]any) {
	where := fmt.Sprintf("%s %v parameter %v", operation, parameter["in"], parameter["name"])
	if required, _ := parameter["required"].(bool); required {
		p.lines = append(p.lines, baseline.Requires+where)
	}
	p.value(where, parameter["schema"], p.sent)
}

func (p *promises) content(where string, holder map[string]any, way direction) {
	content, _ := holder["content"].(map[string]any)
	if content == nil && holder != nil {
		p.add("%s: nothing", where)
	}
	for media, entry := range content {
		p.value(where+" "+media, p.resolve(entry)["schema"], way)
	}
}

// fields lists the fields of an object.
func (p *promises) fields(where string, schema map[string]any, way direction) {
	properties, _ := schema["properties"].(map[string]any)
	for field, value := range properties {
		p.value(where+"."+field, value, way)
	}
	for _, field := range list(schema, "required") {
		if way.isRequest {
			p.add("%s%s.%v in a request", baseline.Requires, where, field)
		} else {
			p.add("%s.%v is always answered", where, field)
		}
	}
	if way.isRequest && schema["properties"] != nil && schema["additionalProperties"] != false {
		p.add("%s takes other fields", where)
	}
}

// value lists the type of a value and the values it can have.
func (p *promises) value(where string, schema any, way direction) {
	p.add("%s: %s", where, p.typeOf(schema, way))
	object, _ := schema.(map[string]any)
	for _, value := range list(object, "enum") {
		p.add("%s can be %q", where, fmt.Sprint(value))
	}
	for items, ok := object["items"].(map[string]any); ok; items, ok = object["items"].(map[string]any) {
		object, where = items, where+"[]"
	}
	if object["properties"] != nil {
		p.fields(where, object, way)
	}
}

// typeOf writes a type in short, and notes the schemas that it leads to.
func (p *promises) typeOf(schema any, way direction) string {
	object, _ := schema.(map[string]any)
	if ref, ok := object["$ref"].(string); ok {
		name := ref[strings.LastIndex(ref, "/")+1:]
		if !way.schemas[name] {
			way.schemas[name] = true
			p.typeOf(p.at("components", "schemas", name), way)
		}
		return name
	}
	properties, _ := object["properties"].(map[string]any)
	for _, value := range properties {
		p.typeOf(value, way)
	}
	text := strings.Trim(fmt.Sprint(object["type"]), "[]")
	if object["type"] == nil {
		text = "any"
	}
	if format, ok := object["format"]; ok {
		text += fmt.Sprintf(" (%v)", format)
	}
	if object["enum"] != nil {
		text += " of some values"
	}
	if constant, ok := object["const"]; ok {
		text += fmt.Sprintf(" %q", fmt.Sprint(constant))
	}
	if items, ok := object["items"]; ok {
		text += " of " + p.typeOf(items, way)
	}
	if values, ok := object["additionalProperties"].(map[string]any); ok {
		text += " of " + p.typeOf(values, way)
	}
	for _, word := range []string{"oneOf", "anyOf", "allOf"} {
		for _, part := range list(object, word) {
			text += " " + word + " " + p.typeOf(part, way)
		}
	}
	return text
}

func (p *promises) at(path ...string) any {
	found, _ := p.document.At(path...)
	return found
}

// resolve returns an object, or the one that it refers to.
func (p *promises) resolve(value any) map[string]any {
	object, _ := value.(map[string]any)
	if ref, ok := object["$ref"].(string); ok {
		return p.resolve(p.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...))
	}
	return object
}

func list(holder any, name string) []any {
	object, _ := holder.(map[string]any)
	values, _ := object[name].([]any)
	return values
}
