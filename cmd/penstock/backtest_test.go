package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/backtest"
)

// Limits whose numbers come from a table have those of the file, until a row ends, or their default, and the report
// says which.
func TestBacktestWithEntitlements(t *testing.T) {
	t.Chdir(t.TempDir())
	var log strings.Builder
	for i := range 20 {
		fmt.Fprintf(&log, `{"time":"2026-11-16T09:00:%02d.5Z","path":"/a","tenant":"%s"}`+"\n", i, []string{"big", "small"}[i%2])
	}
	for name, text := range map[string]string{
		"rules.yaml":   "attributes: {tenant: {header: X-Tenant}}\nrules: [{name: api, key: [tenant], limits: [{rate: '{tenant.requests}/1h', max: 1000, default: 2, algorithm: fixed_window}]}]",
		"table.csv":    "attribute,value,limit,number,until\ntenant,big,requests,8,\ntenant,small,requests,5,2026-11-16T08:59:00Z\n",
		"broken.csv":   "attribute,value,limit,number\ntenant,big,requests,many\n",
		"access.jsonl": log.String(),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(more ...string) (*backtest.Report, string, int) {
		var out, errs bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
		code := a.run(t.Context(), append([]string{"backtest", "--rules", "rules.yaml", "--field", "tenant=tenant", "-o", "json", "access.jsonl"}, more...))
		var r backtest.Report
		if code == exitYes {
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
		}
		return &r, errs.String(), code
	}
	for _, test := range []struct {
		flags     []string
		denied    int64
		defaulted int
	}{
		{nil, 16, 1}, // 2 of 10 for each of two tenants
		{[]string{"--entitlements", "table.csv"}, 2 + 8, 0}, // the row of small has ended
	} {
		r, errs, code := run(test.flags...)
		if code != exitYes {
			t.Fatal(errs)
		}
		if d := r.Documents[0]; d.Denied != test.denied || len(d.Defaulted) != test.defaulted {
			t.Errorf("%q: %d denied, %q at their default", test.flags, d.Denied, d.Defaulted)
		}
	}
	for file, want := range map[string]string{"broken.csv": `invalid number "many"`, "none.csv": "no such file", "-": "cannot be stdin"} {
		if _, errs, code := run("--entitlements", file); code == exitYes || !strings.Contains(errs, want) {
			t.Errorf("%s: exit status %d: %s", file, code, errs)
		}
	}
}

// check --rules and rules test take the numbers of limits from a table, as a node does.
func TestRulesAreTriedWithEntitlements(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"rules.yaml": `rules: [{name: api, key: [tenant], limits: [{rate: "{tenant.requests}/1h", algorithm: sliding_window_log, max: 100, default: 2}]}]`,
		"table.csv":  "attribute,value,limit,number\ntenant,big,requests,8\n",
		"test.yaml": `rules: rules.yaml
tests:
  - name: as the table says
    steps: [{call: {attributes: {tenant: big}}, times: 10, expect: {passed: 8}}]
`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range [][]string{
		{"rules", "test", "test.yaml"},
		{"check", "--rules", "rules.yaml", "--times", "8", "tenant=big"},
	} {
		for _, more := range [][]string{nil, {"--entitlements", "table.csv"}} {
			var out, errs bytes.Buffer
			a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
			if code := a.run(t.Context(), append(slices.Clone(command), more...)); (code == exitYes) != (more != nil) {
				t.Errorf("%q %q: exit status %d: %s%s", command, more, code, out.String(), errs.String())
			}
		}
	}
	var errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &errs, stderr: &errs}
	if code := a.run(t.Context(), []string{"check", "--entitlements", "table.csv", "tenant=big"}); code == exitYes || !strings.Contains(errs.String(), "--entitlements needs --rules") {
		t.Errorf("exit status %d: %s", code, errs.String())
	}
}
