package docs_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const alertsPage = "how-to/alerts.md"

var alertsTable = regexp.MustCompile(`(?s)(<!-- alerts: [^\n]*-->\n).*?(<!-- end -->)`)

// The page lists the alerts as the file has them.
func TestPageOfAlertsIsCurrent(t *testing.T) {
	text, err := os.ReadFile("../deploy/prometheus/penstock.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, For  string
				Labels      struct{ Severity string }
				Annotations struct{ Summary, Description string }
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| alert | severity | what to do |\n|---|---|---|\n")
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Alert, r.Labels.Severity, strings.NewReplacer("|", "\\|", "<", "&lt;", "{{", "{ {").Replace(r.Annotations.Description))
			}
		}
	}
	page, err := os.ReadFile(alertsPage)
	if err != nil {
		t.Fatal(err)
	}
	want := alertsTable.ReplaceAllString(string(page), "${1}"+strings.ReplaceAll(b.String(), "$", "$$")+"$2")
	if os.Getenv("PENSTOCK_TEST_UPDATE") != "" {
		if err := os.WriteFile(alertsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(page) != want || !strings.Contains(want, "PenstockStoreDown") {
		t.Error("docs/how-to/alerts.md does not list the alerts as they are: make generate writes it")
	}
}
