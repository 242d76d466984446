package e2e

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// An output is the output and exit code of a command.
type output struct {
	stdout, stderr string
	code           int // -1: it did not start, and stderr says why
}

// run runs the program to its end.
func run(dir string, env []string, args ...string) output {
	c := command(dir, args...)
	c.Env = append(c.Env, env...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); c.ProcessState == nil {
		return output{stderr: err.Error(), code: -1}
	}
	return output{stdout.String(), stderr.String(), c.ProcessState.ExitCode()}
}

// The command asks a running server, which charges it like every client. Its exit status is the answer.
func TestCheckCommand(t *testing.T) {
	t.Parallel()
	n := start(t, newUpstream(t).config(), rulesFile(t, perUser(2, "sliding_window_log")))
	server := []string{"PENSTOCK_SERVER=" + n.url("http", "")}
	check := func(env []string, args ...string) output {
		return run(n.dir, env, append([]string{"check", "--timeout", "30s"}, args...)...)
	}
	if askGateway(n, "u") != 1 {
		t.Error("the first call, at the gateway, did not pass")
	}
	for i, row := range []struct {
		env    []string
		args   []string
		code   int
		stdout string
	}{
		{server, []string{"user=u"}, 0, "ALLOWED  per-user  2 per 30d  remaining 0\n"},
		{nil, []string{"--server", n.url("http", ""), "user=u"}, 1, "DENIED  per-user  2 per 30d  remaining 0  retry in "},
		{server, []string{"--cost", "0", "user=v"}, 0, "ALLOWED  per-user  2 per 30d  remaining 2\n"},
		{server, []string{"path=/x"}, 0, "ALLOWED  no_rule\n"},
		{server, []string{"user"}, 2, ""},
		{nil, []string{"--server", "http://127.0.0.1:1", "user=u"}, 3, ""},
	} {
		got := check(row.env, row.args...)
		if got.code != row.code || !strings.HasPrefix(got.stdout, row.stdout) || row.stdout == "" && (got.stdout != "" || got.stderr == "") {
			t.Errorf("check %d %v: %+v, want %d and %q", i, row.args, got, row.code, row.stdout)
		}
	}
	if askGateway(n, "u") != 0 {
		t.Error("what the command was charged does not count at the gateway")
	}

	var v verdict
	got := check(server, "-o", "json", "user=w")
	if err := json.Unmarshal([]byte(got.stdout), &v); err != nil || got.code != 0 || !v.Allowed || v.used("per-user") != 1 {
		t.Errorf("as JSON: %v: %+v", err, got)
	}
}

// The command explains by the database of a running server, and agrees with the server.
func TestExplainCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	database := "sqlite:" + filepath.Join(dir, "rules.db")
	apply(t, database, `
attributes: {user: {header: X-User}}
rules:
  - {name: per-user, match: {path: /x}, key: [user], limits: [10/1h]}
  - {name: elsewhere, match: {path: /elsewhere}, key: [user], limits: [10/1h]}
`)
	n := start(t, newUpstream(t).config(), "rules: {database: '"+database+"'}")
	got := run(dir, nil, "explain", "--database", database, "path=/x", "user=u", "-o", "json")
	var told struct {
		Rules []struct {
			Rule    string
			Applies bool
			Key     map[string]string
			Why     string
		}
	}
	if err := json.Unmarshal([]byte(got.stdout), &told); err != nil || got.code != 0 || len(told.Rules) != 2 {
		t.Fatalf("explain: %v: %+v", err, got)
	}
	applied := map[string]bool{}
	for _, l := range n.check(callOf("u")).Limits {
		applied[l.Rule] = true
	}
	for _, r := range told.Rules {
		if r.Applies != applied[r.Rule] || r.Applies && r.Key["user"] != "u" || !r.Applies && r.Why == "" {
			t.Errorf("explained as %+v, and the server applied %v", r, applied)
		}
	}
	if !applied["per-user"] || applied["elsewhere"] {
		t.Errorf("the server applied %v", applied)
	}
}
