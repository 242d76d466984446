package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/pgtest"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/internal/ruleredis"
)

// Rules change on PostgreSQL as on SQLite, and nodes without a database learn them through Redis.
func TestRulesOnPostgreSQL(t *testing.T) {
	t.Parallel()
	postgres := pgtest.Start(t)
	redis := redistest.Start(t)
	database, err := postgres.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := ruleredis.New(ruleredis.Options{Addresses: []string{redis.Addr}, Timeout: nodetest.Timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer nodes.Close()

	env := []string{"USER=ann", "PENSTOCK_RULES_DATABASE=" + database, "PENSTOCK_STORE_REDIS_ADDRESSES=" + redis.Addr, "PENSTOCK_STORE_REDIS_TIMEOUT=30s"}
	run := func(code int, stdin string, args ...string) (stdout, stderr string) {
		t.Helper()
		var out, errs bytes.Buffer
		a := &app{stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs, env: env}
		if got := a.run(t.Context(), append([]string{"rules"}, args...)); got != code {
			t.Errorf("penstock rules %v: exit status %d, want %d\n%s%s", args, got, code, &out, &errs)
		}
		return out.String(), errs.String()
	}
	published := func(version int64, document string) {
		t.Helper()
		text, err := nodes.Read(t.Context())
		if err != nil || text.Version != version || string(text.Files[0].Data) != document {
			t.Errorf("published: got %+v, %v, want version %d", text, err, version)
		}
	}
	const one, two = "rules: [{name: search, key: [ip], limits: [1/1m]}]\n", "rules: [{name: search, key: [ip], limits: [2/1m]}]\n"

	if _, stderr := run(exitYes, one, "apply", "-", "-m", "the first"); !strings.Contains(stderr, "saved as version 1 in postgres") {
		t.Errorf("apply: %s", stderr)
	}
	published(1, one)
	run(exitYes, two, "apply", "-", "--if-version", "1", "--author", "bob")
	published(2, two)
	if stdout, stderr := run(exitNo, one, "apply", "-", "--if-version", "1"); !strings.Contains(stdout, "[2/1m]") || !strings.Contains(stderr, "bob saved version 2") {
		t.Errorf("conflict: %s%s", stdout, stderr)
	}
	if stdout, _ := run(exitNo, one, "diff", "-"); !strings.Contains(stdout, "~ search  limits [2/1m] → [1/1m]") {
		t.Errorf("diff: %s", stdout)
	}
	run(exitYes, "", "rollback") // to the version before
	published(3, one)
	if stdout, _ := run(exitYes, "", "export"); stdout != one {
		t.Errorf("export: %s", stdout)
	}
	if stdout, _ := run(exitYes, "", "history"); strings.Count(stdout, "\n") != 4 || !strings.Contains(stdout, "(version 1 again)") {
		t.Errorf("history: %s", stdout)
	}

	// Applying the same rules again publishes what Redis has lost.
	if _, err := redistest.Command(redis.Addr, "FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	run(exitYes, one, "apply", "-")
	published(3, one)

	if err := postgres.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, stderr := run(exitFailed, "", "history"); !strings.Contains(stderr, "check that PostgreSQL is running") {
		t.Errorf("without PostgreSQL: %s", stderr)
	}
}

// Scripts rely on the exit status.
func TestRulesExitCodes(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"good.yaml":  "rules: []",
		"other.yaml": "rules: [{name: a, key: [], limits: [1/1m]}]",
		"bad.yaml":   "rules: {}",
		"pass.yaml":  "rules: other.yaml\ntests: [{name: a, steps: [{call: {}, expect: {allowed: true}}]}]",
		"fail.yaml":  "rules: other.yaml\ntests: [{name: a, steps: [{call: {}, expect: {allowed: false}}]}]",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		args string
		want int
	}{
		{"", exitYes},
		{"nonsense", exitUsage},
		{"validate", exitUsage},
		{"validate good.yaml", exitYes},
		{"validate bad.yaml", exitNo},
		{"validate good.yaml -o xml", exitUsage},
		{"validate missing.yaml", exitUsage},
		{"test pass.yaml", exitYes},
		{"test fail.yaml", exitNo},
		{"test good.yaml", exitNo},
		{"test --run ( pass.yaml", exitUsage},
		{"test missing.yaml", exitUsage},
		{"diff good.yaml good.yaml", exitYes},
		{"diff good.yaml other.yaml", exitNo},
		{"diff good.yaml bad.yaml", exitNo},
		{"diff good.yaml missing.yaml", exitUsage},
		{"history", exitUsage},
		{"apply good.yaml", exitUsage},
		{"history --database sqlite:penstock.db", exitFailed},
		{"apply bad.yaml", exitNo},
		{"apply --dry-run good.yaml", exitYes},
		{"apply good.yaml", exitYes},
		{"apply good.yaml", exitYes},
		{"apply --if-version 7 other.yaml", exitNo},
		{"apply --database nowhere other.yaml", exitUsage},
		{"apply .", exitUsage},
		{"export", exitYes},
		{"export --version 7", exitNo},
		{"history", exitYes},
		{"history -n 0", exitUsage},
		{"rollback 1", exitNo},
		{"rollback", exitNo}, // there is none before the first
		{"rollback x", exitUsage},
		{"history --database sqlite:bad.yaml", exitFailed},
	} {
		var out bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &out}
		if !strings.Contains(test.args, "database") && test.want != exitUsage {
			a.env = []string{"PENSTOCK_RULES_DATABASE=sqlite:penstock.db"}
		}
		if got := a.run(t.Context(), append([]string{"rules"}, strings.Fields(test.args)...)); got != test.want {
			t.Errorf("penstock rules %s: exit status %d, want %d\n%s", test.args, got, test.want, &out)
		}
	}
}

// A change always has an author.
func TestCurrentUser(t *testing.T) {
	t.Parallel()
	if got := (&app{env: []string{"USER=ann"}}).currentUser(); got != "ann" {
		t.Errorf("got %q", got)
	}
	if got := (&app{}).currentUser(); got == "" {
		t.Error("without an environment: nobody")
	}
}
