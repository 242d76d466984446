package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/nodetest"
)

// The commands of docs/how-to/watching.md do what the page says, with a time and an ID of today.
func TestAnnotationsCommand(t *testing.T) {
	t.Parallel()
	p := startServe(t, "rules: {file: "+nodetest.RulesFile(t, keyRules)+"}")
	run := func(code int, args ...string) (out, errs string) {
		t.Helper()
		got, out, errs := p.run(t, append([]string{"annotations"}, args...)...)
		if got != code {
			t.Errorf("penstock annotations %q: exit status %d, want %d: %s%s", args, got, code, out, errs)
		}
		return out, errs
	}
	page, err := os.ReadFile("../../docs/how-to/watching.md")
	if err != nil {
		t.Fatal(err)
	}
	const example = "2026-01-31T03:12:00Z"
	recent := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	for _, command := range []string{
		`add "blocked scraper, ticket 123"`, `add --at ` + example + ` --rule per-ip "limit raised for the sale"`, `list`,
	} {
		if !strings.Contains(string(page), "\npenstock annotations "+command+"\n") {
			t.Errorf("docs/how-to/watching.md has no penstock annotations %s", command)
		}
		before, text, _ := strings.Cut(strings.Replace(command, example, recent, 1), `"`)
		args := strings.Fields(before)
		if text != "" {
			args = append(args, strings.TrimSuffix(text, `"`))
		}
		run(exitYes, args...)
	}
	out, _ := run(exitYes, "list", "-o", "json")
	var found admin.Annotations
	if err := json.Unmarshal([]byte(out), &found); err != nil || len(found.Annotations) != 2 {
		t.Fatalf("%v: %s", err, out)
	}
	if n := found.Annotations; n[0].Text != "blocked scraper, ticket 123" || n[1].Rule != "per-ip" || n[1].At.Format(time.RFC3339) != recent {
		t.Errorf("listed %+v", n)
	}
	if out, _ := run(exitYes, "list", "--rule", "another"); !strings.Contains(out, "ticket 123") || strings.Contains(out, "for the sale") {
		t.Errorf("of another rule:\n%s", out)
	}
	if out, _ := run(exitYes, "delete", found.Annotations[0].ID); out != "deleted  "+found.Annotations[0].ID+"\n" {
		t.Error(out)
	}
	if _, errs := run(exitNo, "delete", found.Annotations[0].ID); !strings.Contains(errs, "there is no annotation") {
		t.Error(errs)
	}
	if _, errs := run(exitNo, "add", "--at", "yesterday", "x"); !strings.Contains(errs, "must be within the last 2d") {
		t.Error(errs)
	}
	run(exitUsage, "add")
}
