package docs_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/docs"
)

// The pages of the HTTP APIs say what their OpenAPI documents say.
func TestPageOfDecisionAPIIsCurrent(t *testing.T) {
	checkPage(t, "reference/http-api.md", apiPage(t, docs.OpenAPI, "The decision API over HTTP", "openapi.json",
		"Programs and proxies ask it for verdicts, at `listen.http` (127.0.0.1:8090). Programs in Go use [`client`](../../client); [Python and Node](../how-to/frameworks.md) have clients too."))
}

func TestPageOfAdminAPIIsCurrent(t *testing.T) {
	checkPage(t, "reference/admin-http-api.md", apiPage(t, docs.AdminOpenAPI, "The admin API over HTTP", "admin-openapi.json",
		"The console and the commands for operators use it, at `listen.admin` (127.0.0.1:8091). [The admin API](admin.md) explains access and has examples."))
}

type openAPI struct {
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Schemas    map[string]*schema
		Responses  map[string]response
		Parameters map[string]parameter
	}
}

type operation struct {
	Summary, Description string
	Role                 string `json:"x-role"`
	Parameters           []parameter
	RequestBody          *struct{ Content map[string]media }
	Responses            map[string]response
}

type parameter struct {
	Ref         string `json:"$ref"`
	Name, In    string
	Description string
	Required    bool
	Schema      *schema
}

type response struct {
	Ref         string `json:"$ref"`
	Description string
	Content     map[string]media
}

type media struct{ Schema *schema }

type schema struct {
	Ref         string `json:"$ref"`
	Type        any
	Format      string
	Description string
	Properties  map[string]*schema
	Required    []string
	Items       *schema
	Enum        []any
	AllOf       []*schema
	OneOf       []*schema
	AnyOf       []*schema
}

func apiPage(t *testing.T, text []byte, title, file, about string) string {
	t.Helper()
	var d openAPI
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\nThis page is generated from [%s](../%s), which a node serves at `GET /openapi.json`.\n", title, about, file, file)
	for _, at := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(d.Paths[at])) {
			if method == "parameters" {
				continue
			}
			var o operation
			if err := json.Unmarshal(d.Paths[at][method], &o); err != nil {
				t.Fatalf("%s %s: %v", method, at, err)
			}
			d.operation(&b, strings.ToUpper(method)+" "+at, &o)
		}
	}
	b.WriteString("\n## Schemas\n")
	for _, name := range slices.Sorted(maps.Keys(d.Components.Schemas)) {
		d.schema(&b, name, d.Components.Schemas[name])
	}
	return b.String()
}

func (d *openAPI) operation(b *strings.Builder, title string, o *operation) {
	fmt.Fprintf(b, "\n## `%s`\n\n%s\n", title, sentence(cmp.Or(o.Description, o.Summary)))
	if o.Description != "" && o.Description != o.Summary {
		fmt.Fprintf(b, "\n%s\n", sentence(o.Summary))
	}
	if o.Role != "" {
		fmt.Fprintf(b, "\nRole: %s.\n", o.Role)
	}
	if len(o.Parameters) > 0 {
		b.WriteString("\n| parameter | in | |\n|---|---|---|\n")
	}
	for _, p := range o.Parameters {
		if p.Ref != "" {
			p = d.Components.Parameters[path.Base(p.Ref)]
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", p.Name, p.In, cell(p.Description))
	}
	if o.RequestBody != nil {
		for _, kind := range slices.Sorted(maps.Keys(o.RequestBody.Content)) {
			fmt.Fprintf(b, "\nBody: `%s`, %s.\n", kind, typeOf(o.RequestBody.Content[kind].Schema))
		}
	}
	b.WriteString("\n| status | | body |\n|---|---|---|\n")
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		r := o.Responses[status]
		if r.Ref != "" {
			r = d.Components.Responses[path.Base(r.Ref)]
		}
		body := ""
		for _, kind := range slices.Sorted(maps.Keys(r.Content)) {
			body = typeOf(r.Content[kind].Schema)
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", status, cell(r.Description), body)
	}
}

func (d *openAPI) schema(b *strings.Builder, name string, s *schema) {
	fmt.Fprintf(b, "\n### %s\n", name)
	if s.Description != "" {
		fmt.Fprintf(b, "\n%s\n", sentence(s.Description))
	}
	for _, part := range append(s.AllOf, s.OneOf...) {
		if part.Ref != "" {
			fmt.Fprintf(b, "\nIncludes %s.\n", typeOf(part))
		}
	}
	parts := append([]*schema{s}, s.AllOf...)
	begun := false
	for _, part := range parts {
		for _, field := range slices.Sorted(maps.Keys(part.Properties)) {
			if !begun {
				b.WriteString("\n| field | type | |\n|---|---|---|\n")
				begun = true
			}
			p := part.Properties[field]
			text := cell(p.Description)
			if slices.Contains(part.Required, field) {
				text = strings.TrimSpace(text + " *Required.*")
			}
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", field, typeOf(p), text)
		}
	}
	if !begun && len(s.Enum) > 0 {
		fmt.Fprintf(b, "\n%s\n", typeOf(s))
	}
}

// typeOf names a schema, with a link to one that has a name.
func typeOf(s *schema) string {
	switch {
	case s == nil:
		return ""
	case s.Ref != "":
		name := path.Base(s.Ref)
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	case len(s.Enum) > 0:
		var values []string
		for _, v := range s.Enum {
			values = append(values, fmt.Sprintf("`%v`", v))
		}
		return strings.Join(values, ", ")
	case s.Items != nil:
		return "list of " + typeOf(s.Items)
	case len(s.AllOf) > 0:
		return typeOf(s.AllOf[0])
	case len(s.OneOf)+len(s.AnyOf) > 0:
		var values []string
		for _, one := range append(s.OneOf, s.AnyOf...) {
			values = append(values, typeOf(one))
		}
		return strings.Join(values, " or ")
	}
	text := "object"
	switch kind := s.Type.(type) {
	case string:
		text = kind
	case []any:
		var values []string
		for _, one := range kind {
			values = append(values, fmt.Sprint(one))
		}
		text = strings.Join(values, " or ")
	}
	if s.Format != "" {
		text += " (" + s.Format + ")"
	}
	return text
}

func sentence(text string) string {
	text = strings.TrimSpace(text)
	if text != "" && !strings.ContainsAny(text[len(text)-1:], ".!?:") {
		text += "."
	}
	return strings.ReplaceAll(text, "<", "&lt;")
}

func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(text, "|", "\\|"), "\n", " "), "<", "&lt;")
}

const protoFile = "../proto/penstock/v1/decisions.proto"

var (
	protoBlock   = regexp.MustCompile(`(?ms)((?:^//[^\n]*\n)*)^(service|message|enum) (\w+) \{\n(.*?)^\}`)
	protoRPC     = regexp.MustCompile(`(?m)((?:^  //[^\n]*\n)*)^  rpc (\w+)\((\w+)\) returns \((\w+)\);`)
	protoField   = regexp.MustCompile(`(?m)^ +(?:(optional|repeated) )?([\w.]+|map<[^>]*>) (\w+) = (\d+);(?: // (.*))?$`)
	protoValue   = regexp.MustCompile(`(?m)^  (\w+) = (\d+);(?: // (.*))?$`)
	protoComment = regexp.MustCompile(`(?m)^ *// ?`)
)

// The page of the gRPC API says what the proto file says.
func TestPageOfGRPCAPIIsCurrent(t *testing.T) {
	source, err := os.ReadFile(protoFile)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# The decision API over gRPC\n\nA node serves it at `listen.grpc` (127.0.0.1:8081), beside [Envoy's services](envoy.md). Programs in Go use [`client/grpcclient`](../../client/grpcclient).\n\n" +
		"This page is generated from [decisions.proto](../../proto/penstock/v1/decisions.proto). Fields mean the same as in [the HTTP API](http-api.md).\n")
	for _, m := range protoBlock.FindAllStringSubmatch(string(source), -1) {
		fmt.Fprintf(&b, "\n## %s\n", m[3])
		if comment := strings.TrimSpace(protoComment.ReplaceAllString(m[1], "")); comment != "" {
			fmt.Fprintf(&b, "\n%s\n", comment)
		}
		switch m[2] {
		case "service":
			b.WriteString("\n| method | takes | returns | |\n|---|---|---|---|\n")
			for _, r := range protoRPC.FindAllStringSubmatch(m[4], -1) {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r[2], typeLink(r[3]), typeLink(r[4]), cell(strings.TrimSpace(protoComment.ReplaceAllString(r[1], ""))))
			}
		case "message":
			b.WriteString("\n| field | type | |\n|---|---|---|\n")
			for _, f := range protoField.FindAllStringSubmatch(m[4], -1) {
				fmt.Fprintf(&b, "| `%s` = %s | %s | %s |\n", f[3], f[4], strings.TrimSpace(f[1]+" "+typeLink(f[2])), cell(f[5]))
			}
		case "enum":
			b.WriteString("\n| value | |\n|---|---|\n")
			for _, v := range protoValue.FindAllStringSubmatch(m[4], -1) {
				fmt.Fprintf(&b, "| `%s` = %s | %s |\n", v[1], v[2], cell(v[3]))
			}
		}
	}
	checkPage(t, "reference/grpc-api.md", b.String())
}

func typeLink(name string) string {
	if name[0] >= 'A' && name[0] <= 'Z' {
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	}
	return "`" + name + "`"
}

// checkPage compares a generated page with what it should be, and writes it under PENSTOCK_TEST_UPDATE.
func checkPage(t *testing.T, name, want string) {
	t.Helper()
	if os.Getenv("PENSTOCK_TEST_UPDATE") != "" {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/%s is not current: make generate writes it", name)
	}
}
