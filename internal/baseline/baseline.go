// Package baseline compares what an interface promises with what it promised at the last release, for tests. A promise
// is a line of text, so that a baseline can be read and its changes reviewed.
package baseline

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Requires begins a line that says what a client must do. A new one breaks existing clients; a line without it breaks
// them when it goes.
const Requires = "requires "

// Check fails if the promises break clients that rely on those in the file. PENSTOCK_TEST_UPDATE=1 writes the file.
func Check(t testing.TB, file string, promises []string) {
	t.Helper()
	slices.Sort(promises)
	promises = slices.Compact(promises)
	if os.Getenv("PENSTOCK_TEST_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(strings.Join(promises, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	broken := Broken(strings.Split(strings.TrimSpace(string(text)), "\n"), promises)
	if len(broken) > 0 {
		t.Errorf("existing clients break:\n%s\nIf that is intended, say so in docs/how-to/upgrade.md and accept it: PENSTOCK_TEST_UPDATE=1 go test -run '^%s$' in this package writes %s",
			strings.Join(broken, "\n"), t.Name(), file)
	}
}

// subjectOf returns the operation or the message that a requirement is about.
func subjectOf(requirement string) string {
	words := strings.Fields(strings.TrimPrefix(requirement, Requires))
	if len(words) > 1 && words[0] == strings.ToUpper(words[0]) { // GET /v1/keys
		return words[0] + " " + words[1]
	}
	subject, _, _ := strings.Cut(words[0], ".")
	return subject
}

// isKnown reports whether clients can rely on the subject: what a new operation requires breaks none.
func isKnown(before []string, subject string) bool {
	return slices.ContainsFunc(before, func(line string) bool {
		rest, ok := strings.CutPrefix(line, subject)
		return ok && (rest == "" || strings.ContainsAny(rest[:1], " .["))
	})
}

// Broken lists how clients that rely on the promises of before break on those of now.
func Broken(before, now []string) (broken []string) {
	for _, line := range before {
		if !strings.HasPrefix(line, Requires) && !slices.Contains(now, line) {
			broken = append(broken, fmt.Sprintf("no longer: %s", line))
		}
	}
	for _, line := range now {
		if strings.HasPrefix(line, Requires) && !slices.Contains(before, line) && isKnown(before, subjectOf(line)) {
			broken = append(broken, fmt.Sprintf("new: %s", line))
		}
	}
	return broken
}
