package rules

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/penstock-io/penstock/internal/strictdoc"
)

const schemaFile = "../docs/rules.schema.json"

// PENSTOCK_TEST_UPDATE=1 go test ./rules -run TestSchemaIsCurrent rewrites the file.
func TestSchemaIsCurrent(t *testing.T) {
	if os.Getenv("PENSTOCK_TEST_UPDATE") != "" {
		if err := os.WriteFile(schemaFile, Schema(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	published, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(published, Schema()) {
		t.Errorf("%s is not what Schema returns; update it with PENSTOCK_TEST_UPDATE=1 go test ./rules -run %s", schemaFile, t.Name())
	}
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("rules.schema.json", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("rules.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func exampleFiles(t testing.TB) []string {
	files, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("examples: %d files, %v", len(files), err)
	}
	return append(files, "testdata/everything.yaml")
}

// The examples are valid, without a warning, also by the schema. So are the documents written from them.
func TestExamples(t *testing.T) {
	schema := compileSchema(t)
	for _, file := range exampleFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			doc, err := Parse(file, text)
			if err != nil {
				t.Fatal(err)
			}
			_, warnings, err := Compile(doc, Options{Now: testNow})
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range warnings {
				t.Error(w)
			}
			var value any
			if err := json.Unmarshal(jsonOf(doc.found.source.root), &value); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil {
				t.Errorf("the schema refuses it: %v", err)
			}
			if err := json.Unmarshal(doc.JSON(), &value); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil {
				t.Errorf("the schema refuses what is written of it: %v", err)
			}
		})
	}
}

// json writes what was read, as it was read.
func jsonOf(n *node) []byte {
	var b bytes.Buffer
	switch n.Kind {
	case strictdoc.Null:
		return []byte("null")
	case strictdoc.Scalar:
		if n.Style == strictdoc.Plain && json.Valid([]byte(n.Text)) {
			return []byte(n.Text)
		}
		return []byte(quote(n.Text))
	case strictdoc.List:
		b.WriteByte('[')
	case strictdoc.Mapping:
		b.WriteByte('{')
	}
	for i := range n.Items {
		if i > 0 {
			b.WriteByte(',')
		}
		if n.Kind == strictdoc.Mapping {
			b.WriteString(quote(n.Items[i].Key) + ":")
		}
		b.Write(jsonOf(&n.Items[i]))
	}
	b.WriteByte(map[strictdoc.Kind]byte{strictdoc.List: ']', strictdoc.Mapping: '}'}[n.Kind])
	return b.Bytes()
}

// The schema rejects nearly everything that reading rejects.
func TestSchemaRefusesBadDocuments(t *testing.T) {
	schema := compileSchema(t)
	refused, all := 0, 0
	for _, c := range readBad(t, "testdata/bad.txt") {
		doc := parse(context.Background(), "", c.text)
		if doc.found.source.root == nil || doc.found.mistakes == 0 {
			continue // no text that a schema could be asked about, or nothing that it could know
		}
		var value any
		if json.Unmarshal(jsonOf(doc.found.source.root), &value) != nil {
			continue
		}
		all++
		if schema.Validate(value) != nil {
			refused++
		} else {
			t.Logf("not by the schema: %s", c.title)
		}
	}
	if refused*10 < all*9 {
		t.Errorf("the schema refuses %d of %d bad documents", refused, all)
	}
}
