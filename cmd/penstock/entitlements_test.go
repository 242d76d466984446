package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/redistest"
)

const entitledRules = `
attributes: {tenant: {header: X-Tenant}, plan: {header: X-Plan}}
rules:
  - name: api
    key: [tenant]
    limits: [{rate: "{tenant.requests | plan.requests}/1d", algorithm: fixed_window, max: 100, default: 2}]
`

// startEntitled starts nodes that share a database and Redis, with rules that read entitlements.
func startEntitled(t *testing.T, nodes int) []*process {
	t.Helper()
	return startEntitledBy(t, entitledRules, nodes)
}

func startEntitledBy(t *testing.T, rules string, nodes int) (all []*process) {
	t.Helper()
	database := "sqlite:" + filepath.Join(t.TempDir(), "rules.db")
	var out, errs strings.Builder
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	if code := a.run(t.Context(), []string{"rules", "apply", "--database", database, nodetest.RulesFile(t, rules)}); code != exitYes {
		t.Fatalf("exit status %d: %s", code, errs.String())
	}
	redis := nodetest.OnRedis("single", redistest.Start(t).Addr)
	for range nodes {
		all = append(all, startServe(t, redis+"rules: {database: '"+database+"'}\n"))
	}
	for _, p := range all {
		nodetest.Eventually(t, "the store is connected", func() bool { return p.status(t, p.token(t)).Store.Connected })
	}
	return all
}

// entitlements runs a command of entitlements against the process.
func (p *process) entitlements(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return p.run(t, append([]string{"entitlements", "--timeout", nodetest.Timeout.String()}, args...)...)
}

// numberOf asks a node which number a tenant has.
func (p *process) numberOf(t *testing.T, tenant string) admin.Number {
	t.Helper()
	code, out, errs := p.entitlements(t, "get", "tenant="+tenant, "-o", "json")
	var view admin.TenantView
	if err := json.Unmarshal([]byte(out), &view); code != exitYes || err != nil || len(view.Limits) != 1 {
		t.Fatalf("exit status %d: %v: %s%s", code, err, out, errs)
	}
	return view.Limits[0].Number
}

// Three nodes decide by a row that is set at one of them, and what the tenant has used stays counted.
func TestEntitlementsOnThreeNodes(t *testing.T) {
	t.Parallel()
	nodes := startEntitled(t, 3)
	entitlements := func(p *process, want string, args ...string) {
		t.Helper()
		if code, out, errs := p.entitlements(t, args...); code != exitYes || out != want {
			t.Fatalf("entitlements %v: exit status %d: %s%s", args, code, out, errs)
		}
	}
	passing := func(tenant string) (n int) {
		for i := range 12 {
			if nodes[i%3].allows(t, `{"tenant": "`+tenant+`"}`) {
				n++
			}
		}
		return n
	}
	await := func(want int64) {
		t.Helper()
		for _, p := range nodes {
			nodetest.Eventually(t, fmt.Sprint("a node decides by ", want), func() bool { return p.numberOf(t, "acme").Number == want })
		}
	}
	if got := passing("acme"); got != 2 {
		t.Errorf("%d of 12 pass by default", got)
	}
	entitlements(nodes[0], "1 added, 0 changed, 0 deleted, 0 unchanged\n", "set", "tenant=acme", "requests=5")
	await(5)
	if got := passing("acme"); got != 3 {
		t.Errorf("%d of 12 pass with 2 of 5 used", got)
	}
	entitlements(nodes[1], "0 added, 1 changed, 0 deleted, 0 unchanged\n", "set", "tenant=acme", "requests=9", "--until", "2040-01-01T00:00:00Z")
	await(9)
	if got := passing("acme"); got != 4 {
		t.Errorf("%d of 12 pass with 5 of 9 used", got)
	}
	if n := nodes[2].numberOf(t, "acme"); n.Origin != "entitlement" || n.Until == nil {
		t.Errorf("%+v", n)
	}
	entitlements(nodes[2], "0 added, 0 changed, 1 deleted, 0 unchanged\n", "delete", "tenant=acme")
	await(2)
	if got := passing("acme"); got != 0 {
		t.Errorf("%d of 12 pass with 9 of 2 used", got)
	}
	nodetest.Eventually(t, "the metric counts defaults", func() bool {
		_, body := nodes[0].request(t, "GET", "admin", "/metrics", "", "Authorization", "Bearer "+nodes[0].token(t))
		return strings.Contains(body, `penstock_limit_number_fallbacks_total{reason="missing",rule="api"}`)
	})
}

// What export writes, import reads. An import with --replace makes the table equal to the file.
func TestEntitlementsFile(t *testing.T) {
	t.Parallel()
	p := startEntitled(t, 1)[0]
	file := filepath.Join(t.TempDir(), "billing.csv")
	var rows strings.Builder
	rows.WriteString("attribute,value,limit,number,until\nplan,gold,requests,50,\n")
	for i := range 6000 { // more than one request sends
		fmt.Fprintf(&rows, "tenant,\"t-%04d, inc\",requests,%d,2040-01-01T00:00:00Z\n", i, i%100)
	}
	if err := os.WriteFile(file, []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(want string, args ...string) string {
		t.Helper()
		code, out, errs := p.entitlements(t, args...)
		if code != exitYes || want != "" && out != want {
			t.Fatalf("entitlements %v: exit status %d: %.500s%s", args, code, out, errs)
		}
		return out
	}
	run("6001 added, 0 changed, 0 deleted, 0 unchanged\n", "import", file)
	if got := run("", "export"); got != rows.String() {
		t.Errorf("%d bytes were exported, want %d: %.300s", len(got), rows.Len(), got)
	}
	run("1 added, 0 changed, 0 deleted, 0 unchanged\n", "set", "tenant=extra", "requests=1")
	run("0 added, 0 changed, 1 deleted, 6001 unchanged\n", "import", "--replace", file)
	if got := run("", "list", "--attribute", "plan"); !strings.Contains(got, "plan=gold  requests  50") || strings.Contains(got, "tenant") {
		t.Errorf("%s", got)
	}
	code, _, errs := p.entitlements(t, "set", "tenant=big", "requests=101")
	if code != exitYes || !strings.Contains(errs, "above the maximum of 100") {
		t.Errorf("exit status %d: %s", code, errs)
	}
	if _, body := p.request(t, "GET", "admin", "/v1/audit?limit=10", "", "Authorization", "Bearer "+p.token(t)); !strings.Contains(body, "import of billing.csv: ") {
		t.Errorf("the audit: %s", body)
	}
}

// A file with mistakes changes nothing, and all of them are reported.
func TestEntitlementsFileWithMistakes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"empty":          {"", []string{"the file is empty"}},
		"missing column": {"attribute,value,number\n", []string{"lacks the column limit"}},
		"unknown column": {"attribute,value,limit,number,price\n", []string{`unknown column "price"`}},
		"bad rows": {
			"attribute,value,limit,number,until\ntenant,a,requests,many,\ntenant,,requests,1,\ntenant,b,requests,-1,\ntenant,c,requests,1,tomorrow\ntenant,d,requests,1,\ntenant,d,requests,2,\n",
			[]string{`line 2: invalid number "many"`, "line 3: attribute, value and limit", `line 4: invalid number "-1"`, `line 5: invalid until "tomorrow"`, "line 7: tenant=d requests is a duplicate of line 6"},
		},
		"not CSV":     {"attribute,value,limit,number\ntenant,\"a,requests,1\n", []string{"line 2"}},
		"cut off row": {"attribute,value,limit,number\ntenant,a\n", []string{"wrong number of fields"}},
	} {
		_, err := parseEntitlements(strings.NewReader(test.text))
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
	}
	rows, err := parseEntitlements(strings.NewReader("number,limit,value,attribute\n5,requests,acme,tenant\n"))
	if err != nil || len(rows) != 1 || rows[0].Value != "acme" || *rows[0].Number != 5 || rows[0].Until != nil {
		t.Errorf("%v: %+v", err, rows)
	}
}

var (
	csvFile   = regexp.MustCompile("(?s)```csv\n(.*?)```")
	someToken = regexp.MustCompile("admin.token [0-9a-f]+")
	rulesFile = regexp.MustCompile("(?s)```yaml\n# rules.yaml\n(.*?)```")
)

// The page about plans shows what its commands print. To accept what they print now: PENSTOCK_TEST_UPDATE=1.
func TestPlansPage(t *testing.T) {
	t.Parallel()
	const path = "../../docs/how-to/entitlements.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	billing := filepath.Join(dir, "billing.csv")
	if err := os.WriteFile(billing, csvFile.FindSubmatch(page)[1], 0o600); err != nil {
		t.Fatal(err)
	}
	p := startEntitledBy(t, string(rulesFile.FindSubmatch(page)[1]), 1)[0]
	updated := consoleBlock.ReplaceAllFunc(page, func(block []byte) []byte {
		m := consoleBlock.FindSubmatch(block)
		args := strings.Fields(strings.ReplaceAll(string(m[2]), "billing.csv", billing))
		if strings.Contains(string(m[2]), " get ") {
			nodetest.Eventually(t, "the node has the rows", func() bool {
				_, out, _ := p.entitlements(t, "get", "tenant=globex", "plan=gold")
				return strings.Contains(out, "30000/1h")
			})
		}
		code, out, errs := p.entitlements(t, args[2:]...)
		if code != exitYes || errs != "" {
			t.Fatalf("%s: exit status %d: %s", m[2], code, errs)
		}
		out = someToken.ReplaceAllString(out, "admin.token 4efd99e2")
		if len(m[1]) > 0 && varying.ReplaceAllString(out, " ") == varying.ReplaceAllString(string(m[3]), " ") {
			return block
		}
		return fmt.Appendf(nil, "```console%s\n$ %s\n%s```", m[1], m[2], out)
	})
	if bytes.Equal(updated, page) {
		return
	}
	if os.Getenv("PENSTOCK_TEST_UPDATE") == "" {
		t.Fatalf("%s does not show what its commands print; PENSTOCK_TEST_UPDATE=1 makes it", path)
	}
	if err := os.WriteFile(path, updated, 0o644); err != nil {
		t.Fatal(err)
	}
}
