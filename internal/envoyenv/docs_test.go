package envoyenv

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const guide = "../../docs/how-to/envoy-migrate.md"

// The table in the migration guide is generated from Variables. After a change there: PENSTOCK_TEST_UPDATE=1 go test
// ./internal/envoyenv
func TestGuideHasAllVariables(t *testing.T) {
	const begin, end = "<!-- variables -->\n", "<!-- end of variables -->\n"
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", guide)
	}
	want := before + begin + table() + end + after
	if os.Getenv("PENSTOCK_TEST_UPDATE") != "" {
		if err := os.WriteFile(guide, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Error("docs/how-to/envoy-migrate.md is not what Variables says: PENSTOCK_TEST_UPDATE=1 go test ./internal/envoyenv")
	}
}

func table() string {
	var b strings.Builder
	b.WriteString("| variable | here |\n|---|---|\n")
	for _, v := range Variables {
		var parts []string
		if v.Keys != "" {
			parts = append(parts, "`"+strings.NewReplacer(", ", "`, `", " or ", "` or `").Replace(v.Keys)+"`")
		} else if !strings.HasPrefix(v.Note, "refused") {
			parts = append(parts, "ignored")
		}
		if v.Note != "" {
			parts = append(parts, v.Note)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", v.Name, strings.Join(parts, ": "))
	}
	return b.String()
}
