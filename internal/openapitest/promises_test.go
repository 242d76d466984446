package openapitest_test

import (
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/baseline"
	"github.com/penstock-io/penstock/internal/openapitest"
)

const document = `{"openapi": "3.1.0",
"paths": {"/items/{id}": {
	"parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
	"post": {
		"security": [],
		"parameters": [{"name": "page", "in": "query", "schema": {"type": "integer"}}],
		"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}},
		"responses": {
			"200": {"description": "ok", "headers": {"ETag": {}}, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Item"}}}},
			"404": {"$ref": "#/components/responses/Missing"}}}}},
"components": {
	"responses": {"Missing": {"description": "missing", "content": {"text/plain": {"schema": {"type": "string"}}}}},
	"schemas": {
		"Order": {"type": "object", "required": ["count"], "properties": {
			"count": {"type": "integer"},
			"color": {"enum": ["red", "blue"]},
			"lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}}}},
		"Item": {"type": "object", "required": ["name"], "properties": {
			"name": {"type": "string"},
			"parts": {"type": "array", "items": {"$ref": "#/components/schemas/Item"}}}}}}}`

// What breaks a client is found, and what does not is let pass.
func TestPromises(t *testing.T) {
	before := promises(t, document)
	for _, test := range []struct {
		name, old, new string
		want           string // "" if clients keep working
	}{
		{"nothing", "", "", ""},
		{"path renamed", `"/items/{id}"`, `"/things/{id}"`, "no longer: POST /items/{id}"},
		{"method gone", `"post": {`, `"put": {`, "no longer: POST /items/{id}"},
		{"response field gone", `"name": {"type": "string"},`, ``, "no longer: Item.name: string"},
		{"response field of another type", `"name": {"type": "string"}`, `"name": {"type": "integer"}`, "no longer: Item.name: string"},
		{"response field not always there", `["name"]`, `[]`, "no longer: Item.name is always answered"},
		{"response of another type", `{"text/plain"`, `{"text/html"`, "no longer: POST /items/{id} answers an error text/plain: string"},
		{"response header gone", `"ETag"`, `"Tag"`, "with header ETag"},
		{"request field gone", `"color": {"enum": ["red", "blue"]},`, ``, "no longer: Order.color"},
		{"nested request field renamed", `"sku"`, `"article"`, "no longer: Order.lines[].sku: string"},
		{"enum narrowed", `"red", "blue"`, `"red"`, `no longer: Order.color can be "blue"`},
		{"enum added", `"count": {"type": "integer"}`, `"count": {"type": "integer", "enum": [1, 2]}`, "no longer: Order.count: integer"},
		{"field becomes required", `["count"]`, `["count", "color"]`, "new: requires Order.color in a request"},
		{"new required field", `["count"], "properties": {`, `["count", "size"], "properties": {"size": {"type": "integer"},`, "new: requires Order.size in a request"},
		{"parameter becomes required", `"in": "query",`, `"in": "query", "required": true,`, "new: requires POST /items/{id} query parameter page"},
		{"body becomes required", `"requestBody": {`, `"requestBody": {"required": true, `, "new: requires POST /items/{id} a body"},
		{"credentials become required", `"security": []`, `"security": [{"token": []}]`, "new: requires POST /items/{id} credentials"},
		{"other fields refused", `"properties": {
			"count"`, `"additionalProperties": false, "properties": {
			"count"`, "no longer: Order takes other fields"},

		{"new path", `"paths": {`, `"paths": {"/new": {"get": {"responses": {"204": {"description": "ok"}}}},`, ""},
		{"new path with credentials", `"paths": {`, `"paths": {"/new": {"get": {"security": [{"token": []}], "responses": {"204": {"description": "ok"}}}},`, ""},
		{"new response field", `"name": {"type": "string"},`, `"name": {"type": "string"}, "size": {"type": "integer"},`, ""},
		{"new optional request field", `"count": {"type": "integer"},`, `"count": {"type": "integer"}, "size": {"type": "integer"},`, ""},
		{"enum widened", `"blue"`, `"blue", "green"`, ""},
		{"field no longer required", `["count"]`, `[]`, ""},
		{"error no longer answered", `"404"`, `"410"`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !strings.Contains(document, test.old) {
				t.Fatalf("%s is not in the document", test.old)
			}
			broken := strings.Join(baseline.Broken(before, promises(t, strings.Replace(document, test.old, test.new, 1))), "\n")
			if (broken == "") != (test.want == "") || !strings.Contains(broken, test.want) {
				t.Errorf("%q, want %q", broken, test.want)
			}
		})
	}
}

func promises(t *testing.T, text string) []string {
	t.Helper()
	document, err := openapitest.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return document.Promises()
}
