package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/nodetest"
)

// The commands of docs/how-to/block.md do what the page says.
func TestBlockPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/how-to/block.md")
	if err != nil {
		t.Fatal(err)
	}
	p := startServe(t, "rules: {file: "+nodetest.RulesFile(t, keyRules)+"}")
	printed := map[string]string{}
	for line := range strings.Lines(string(page)) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "penstock ")
		if !ok {
			continue
		}
		code, out, errs := p.run(t, append(strings.Fields(command), "--timeout", nodetest.Timeout.String())...)
		if code != exitYes {
			t.Errorf("penstock %s: exit status %d: %s%s", command, code, out, errs)
		}
		printed[command] = out
	}
	for command, want := range map[string]string{
		"block add ip=198.51.100.0/24 --for 1h --reason scraper --dry-run": `would block  ip="198.51.100.0/24"  until `,
		"block add ip=198.51.100.0/24 --for 1h --reason scraper":           `blocked  ip="198.51.100.0/24"  until `,
		"explain ip=198.51.100.7":                                          "An operator has blocked this client until ",
		"block lift ip=198.51.100.0/24":                                    `lifted  ip="198.51.100.0/24"`,
	} {
		if !strings.HasPrefix(printed[command], want) {
			t.Errorf("penstock %s printed %q, want %q", command, printed[command], want)
		}
	}
	if list := printed["block list"]; !strings.Contains(list, "198.51.100.0/24") || !strings.Contains(list, "stolen-token") {
		t.Errorf("listed\n%s", list)
	}
}

// What is wrong with a block is said, and the output is JSON if wanted.
func TestBlockCommand(t *testing.T) {
	t.Parallel()
	p := startServe(t, "rules: {file: "+nodetest.RulesFile(t, keyRules)+"}")
	run := func(code int, args ...string) (out, errs string) {
		t.Helper()
		got, out, errs := p.run(t, append([]string{"block"}, args...)...)
		if got != code {
			t.Errorf("penstock block %q: exit status %d, want %d: %s%s", args, got, code, out, errs)
		}
		return out, errs
	}
	for want, args := range map[string][]string{
		"a block takes one attribute, for example ip=198.51.100.7, got 2": {"add", "ip=198.51.100.7", "user=u1", "--for", "1h", "--reason", "x"},
		"a block takes one attribute, for example ip=198.51.100.7, got 0": {"lift"},
		`invalid --for "soon"`:      {"add", "ip=198.51.100.7", "--for", "soon", "--reason", "x"},
		`required flag(s) "reason"`: {"add", "ip=198.51.100.7", "--for", "1h"},
		`unknown command "lis"`:     {"lis"},
	} {
		if _, errs := run(exitUsage, args...); !strings.Contains(errs, want) {
			t.Errorf("%q: %s", args, errs)
		}
	}
	if _, errs := run(exitNo, "lift", "user=u1"); !strings.Contains(errs, "no such block is in force") {
		t.Error(errs)
	}
	if _, errs := run(exitNo, "add", "user=u1", "--for", "31d", "--reason", "x"); !strings.Contains(errs, "must be from 1s to 30d") {
		t.Error(errs)
	}
	if _, errs := run(exitYes, "add", "usr=u1", "--for", "1h", "--reason", "x"); !strings.Contains(errs, `no rule reads the attribute "usr"`) {
		t.Error(errs)
	}
	out, _ := run(exitYes, "list", "-o", "json")
	var found admin.Blocks
	if err := json.Unmarshal([]byte(out), &found); err != nil || len(found.Blocks) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	if out, _ := run(exitYes, "lift", "--id", found.Blocks[0].ID, "-o", "json"); !strings.Contains(out, found.Blocks[0].ID) {
		t.Error(out)
	}
}
