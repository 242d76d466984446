package deploy

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// promtool confirms that the alerts fire when they should, and that each is needed for its test.
func TestAlerts(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("no promtool; apt-get install prometheus")
	}
	alerts, err := os.ReadFile("prometheus/penstock.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("prometheus/penstock.rules.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	run := func(alerts []byte) ([]byte, error) {
		dir := t.TempDir()
		for name, text := range map[string][]byte{"penstock.rules.yaml": alerts, "test.yaml": tests} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		test := exec.Command(promtool, "test", "rules", "test.yaml")
		test.Dir = dir
		return test.CombinedOutput()
	}
	if out, err := run(alerts); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	names := regexp.MustCompile(`alert: (\w+)`)
	out, err := run(names.ReplaceAll(alerts, []byte("alert: Other")))
	if err == nil {
		t.Error("no test misses any of them")
	}
	for _, name := range names.FindAllSubmatch(alerts, -1) {
		if !bytes.Contains(out, name[1]) {
			t.Errorf("%s: no test misses it", name[1])
		}
	}
}

// Alerts and the dashboard use only existing metrics.
func TestMetricsExist(t *testing.T) {
	documented, err := os.ReadFile("../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	dashboard, err := os.ReadFile("grafana/penstock.json")
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(dashboard) {
		t.Error("the dashboard is no JSON")
	}
	alerts, err := os.ReadFile("prometheus/penstock.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`penstock_\w+`).FindAll(append(dashboard, alerts...), -1) {
		name = regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAll(name, nil)
		if !bytes.Contains(documented, append(append([]byte("| `"), name...), '`')) {
			t.Errorf("there is no metric %s", name)
		}
	}
}
