package penstock_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/messages"
)

const messagesFile = "testdata/messages.txt"

// messagesHeader explains the list to its readers.
const messagesHeader = `# Every message that a user can see, from the sources: read it to review the wording. Errors, log events (with their
# fields), help of settings, and other text: printed, part of a problem document, or on a page of the console.
# make generate writes this file.
`

// The committed list has every message. To accept what the sources say now: make generate.
func TestListOfMessagesIsCurrent(t *testing.T) {
	fromGo, err := messages.Go(".", onlyForTests(t))
	if err != nil {
		t.Fatal(err)
	}
	console, err := messages.Web("internal/console/web/src")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(messagesHeader)
	pkg := ""
	for _, m := range append(fromGo, console...) {
		if m.Package != pkg {
			pkg = m.Package
			fmt.Fprintf(&b, "\n## %s\n\n", pkg)
		}
		kind := string(m.Kind)
		if m.Level != "" {
			kind += " " + m.Level
		}
		fmt.Fprintf(&b, "%s: %s", kind, strings.ReplaceAll(strings.TrimSpace(m.Text), "\n", "\n    "))
		if len(m.Fields) > 0 {
			fmt.Fprintf(&b, " [%s]", strings.Join(m.Fields, " "))
		}
		b.WriteString("\n")
	}
	checkGenerated(t, messagesFile, b.String())
}

// checkGenerated compares a generated file with what it should be, and writes it under PENSTOCK_TEST_UPDATE.
func checkGenerated(t *testing.T, file, want string) {
	t.Helper()
	if os.Getenv("PENSTOCK_TEST_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got := strings.Split(readText(t, file), "\n")
	for i, line := range strings.Split(want, "\n") {
		if i >= len(got) || got[i] != line {
			t.Fatalf("%s is not what the sources say, from line %d on: make generate writes it\nwant: %s", file, i+1, line)
		}
	}
	if got := readText(t, file); len(got) != len(want) {
		t.Fatalf("%s has lines that the sources do not have: make generate writes it", file)
	}
}

// onlyForTests says which packages only tests import, as the page on the architecture lists them.
func onlyForTests(t *testing.T) func(pkg string) bool {
	t.Helper()
	_, sections := architecture(t)
	listed := map[string]bool{}
	for _, row := range tableName.FindAllStringSubmatch(sections["For tests"], -1) {
		listed[row[1]] = true
	}
	return func(pkg string) bool { return listed[pkg] }
}
