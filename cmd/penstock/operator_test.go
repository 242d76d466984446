package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/redistest"
)

// searches sends requests that the rule per-user counts; three pass.
func (p *process) searches(t *testing.T, user string, n int) {
	t.Helper()
	for range n {
		p.allows(t, `{"user": "`+user+`", "path": "/search"}`)
	}
}

func TestStatusCommand(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	p := startServe(t, nodetest.OnRedis("single", redis.Addr)+"node_name: first\nrules: {file: "+nodetest.RulesFile(t, keyRules)+"}")
	nodetest.Eventually(t, "the node reports that it decides exactly", func() bool { // with its next heartbeat
		code, out, _ := p.run(t, "status")
		return code == exitYes && strings.Contains(out, "quality   exact\n")
	})
	code, out, errs := p.run(t, "status")
	for _, want := range []string{"node      first, penstock ", "ready     yes\n", "store     redis, connected\n", "breaker   closed since 20", "rules     2 rules from ", "quality   exact\n", "nodes     1 node\n"} {
		if code != exitYes || !strings.Contains(out, want) {
			t.Errorf("exit status %d, no %q in\n%s%s", code, want, out, errs)
		}
	}
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	nodetest.Eventually(t, "the status says that the store is unavailable", func() bool {
		code, out, _ := p.run(t, "status")
		return code == exitNo && strings.Contains(out, "store     redis, unavailable: ") && strings.Contains(out, "breaker   open since ")
	})
	var found nodeStatus
	if _, out, _ := p.run(t, "status", "-o", "json"); json.Unmarshal([]byte(out), &found) != nil || found.Node != "first" || found.Store.Breaker.State != "open" || len(found.Nodes) != 1 {
		t.Errorf("got %s", out)
	}
	if code, _, errs := p.run(t, "status", "--server", "http://127.0.0.1:1"); code != exitFailed || !strings.Contains(errs, "connection refused") {
		t.Errorf("no server: exit status %d: %s", code, errs)
	}
}

func TestNodesCommand(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	yaml := nodetest.OnRedis("single", redis.Addr) + "rules: {file: " + nodetest.RulesFile(t, keyRules) + "}\n"
	p := startServe(t, yaml+"node_name: first\n")
	startServe(t, yaml+"node_name: second\n")
	nodetest.Eventually(t, "both nodes are listed", func() bool {
		_, out, _ := p.run(t, "nodes")
		lines := strings.Split(strings.TrimSpace(out), "\n")
		return len(lines) == 3 && strings.HasPrefix(lines[0], "NODE ") && strings.HasPrefix(lines[1], "first ") && strings.HasSuffix(lines[1], "this node") &&
			strings.HasPrefix(lines[2], "second ") && strings.Contains(lines[2], "0, current")
	})
	var found admin.Nodes
	if _, out, _ := p.run(t, "nodes", "-o", "json"); json.Unmarshal([]byte(out), &found) != nil || len(found.Nodes) != 2 || found.Nodes[1].About.Name != "second" {
		t.Errorf("got %s", out)
	}
}

func TestTailCommand(t *testing.T) {
	t.Parallel()
	p := startServe(t, "rules: {file: "+nodetest.RulesFile(t, keyRules)+"}")
	tail := func(want int, args ...string) (lines []string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), nodetest.Timeout)
		defer cancel()
		var out, errs nodetest.SyncBuffer
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, env: []string{"PENSTOCK_ADMIN_SERVER=http://" + p.addresses["admin"], "PENSTOCK_TOKEN=" + p.token(t)}}
		done := make(chan int, 1)
		go func() { done <- a.run(ctx, append([]string{"tail", "-n", fmt.Sprint(want)}, args...)) }()
		for user := 0; ; user++ { // until it has seen enough
			select {
			case code := <-done:
				if code != exitYes {
					t.Errorf("%v: exit status %d: %s", args, code, &errs)
				}
				return strings.Split(strings.TrimSpace(out.String()), "\n")
			default:
				p.searches(t, fmt.Sprintf("u%d", user%2), 1)
			}
		}
	}
	for _, line := range tail(4) {
		if !strings.Contains(line, "ALLOWED") && !strings.Contains(line, "DENIED") || !strings.Contains(line, `path="/search"`) {
			t.Errorf("got %s", line)
		}
	}
	for _, line := range tail(3, "--denied", "--rule", "per-user", "user=u1") {
		if !strings.Contains(line, "DENIED   per-user  ") || !strings.Contains(line, `user="u1"`) || !strings.Contains(line, "retry in ") {
			t.Errorf("got %s", line)
		}
	}
	for _, line := range tail(2, "-o", "json") {
		var e admin.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Attributes["path"] != "/search" {
			t.Errorf("%v: %s", err, line)
		}
	}
	for _, args := range [][]string{{"tail", "user"}, {"tail", "a=1", "b=2"}, {"tail", "-n", "-1"}} {
		if code, _, errs := p.run(t, args...); code != exitUsage {
			t.Errorf("%v: exit status %d: %s", args, code, errs)
		}
	}
}

func TestTopOnce(t *testing.T) {
	t.Parallel()
	p := startServe(t, "rules: {file: "+nodetest.RulesFile(t, keyRules)+"}")
	p.searches(t, "u1", 10)
	code, out, errs := p.run(t, "top")
	if code != exitYes || !strings.Contains(out, "penstock top  ") || !strings.Contains(out, "70.0%") || !strings.Contains(out, `user="u1" (7)`) {
		t.Errorf("exit status %d: %s%s", code, out, errs)
	}
	var found topView
	if _, out, _ := p.run(t, "top", "-o", "json", "--last", "5m"); json.Unmarshal([]byte(out), &found) != nil || found.Stats.Total.Denied != 7 {
		t.Errorf("got %s", out)
	}
	if code, _, _ := p.run(t, "top", "--sort", "nonsense"); code != exitUsage {
		t.Errorf("an unknown order: exit status %d", code)
	}
}

// On a terminal, top fills the screen, follows the node, handles keys and restores the terminal.
func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	tmux, err := exec.LookPath("tmux")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("tmux is not installed: apt-get install tmux")
		}
		t.Skip("tmux is not installed: apt-get install tmux")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := startServe(t, "rules: {file: "+nodetest.RulesFile(t, keyRules)+"}")
	socket := filepath.Join(t.TempDir(), "tmux")
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(tmux, append([]string{"-S", socket, "-f", "/dev/null"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	command := fmt.Sprintf("PENSTOCK_ADMIN_SERVER=http://%s PENSTOCK_TOKEN=%s bash -c 'exec -a penstock %s top'; echo left with $?; exec sleep 600", p.addresses["admin"], p.token(t), program)
	run("new-session", "-d", "-x", "120", "-y", "20", command)
	t.Cleanup(func() { _ = exec.Command(tmux, "-S", socket, "kill-server").Run() })
	shows := func(want ...string) {
		t.Helper()
		nodetest.Eventually(t, fmt.Sprintf("the screen shows %q", want), func() bool {
			screen := run("capture-pane", "-p")
			for _, text := range want {
				if !strings.Contains(screen, text) {
					return false
				}
			}
			return true
		})
	}
	shows("penstock top", "q quit  s sort: denied")
	p.searches(t, "u1", 10)
	shows(`user="u1" (7)`, "70.0%")
	p.searches(t, "u2", 5) // it continues
	shows("60.0%")
	run("send-keys", "s")
	shows("s sort: requests")
	run("send-keys", "q")
	shows("left with 0")
	if screen := run("capture-pane", "-p"); strings.Contains(screen, "penstock top") {
		t.Errorf("it left the screen as\n%s", screen)
	}
}

const banRules = `
attributes: {user: {header: X-User}}
rules:
  - {name: once, match: {path: /once}, key: [user], limits: [{rate: 1/1d, algorithm: sliding_window_log}], penalty: {after: 2, within: 1h, bans: [1h]}}
  - {name: free, match: {path: /free}, key: [user], limits: [{rate: 100/1d, algorithm: sliding_window_log}]}
  - {name: twice, match: {path: /twice}, key: [user], limits: [{rate: 2/1d, algorithm: sliding_window_log}], penalty: {after: 100, within: 1h, bans: [1h]}}
`

// Bans by penalty and by operators are listed while they last; clients within their limits are not listed.
func TestBansList(t *testing.T) {
	t.Parallel()
	file := nodetest.RulesFile(t, banRules)
	for name, store := range map[string]string{"memory": "", "redis": nodetest.OnRedis("single", redistest.Start(t).Addr)} {
		t.Run(name, func(t *testing.T) {
			p := startServe(t, store+"rules: {file: "+file+"}")
			nodetest.Eventually(t, "the store is connected", func() bool { return p.status(t, p.token(t)).Store.Connected })
			for range 4 {
				p.allows(t, `{"user": "banned", "path": "/once"}`)
			}
			for _, path := range []string{"/once", "/free", "/twice"} {
				p.allows(t, `{"user": "good", "path": "`+path+`"}`)
			}
			if code, _, errs := p.keys(t, "ban", "user=good", "--rule", "twice", "--for", "2h"); code != exitYes {
				t.Fatal(errs)
			}
			list := func() (found admin.Bans) {
				t.Helper()
				code, out, errs := p.keys(t, "list", "--banned", "-o", "json")
				if err := json.Unmarshal([]byte(out), &found); err != nil || code != exitYes {
					t.Fatalf("exit status %d, %v: %s%s", code, err, out, errs)
				}
				return found
			}
			found := list()
			if len(found.Bans) != 2 || found.Bans[0].Rule != "once" || found.Bans[0].Key["user"] != "banned" || found.Bans[1].Rule != "twice" || found.Bans[1].Key["user"] != "good" || found.Unknown != 0 {
				t.Errorf("got %+v", found)
			}
			code, out, errs := p.keys(t, "list", "--banned")
			if code != exitYes || !strings.HasPrefix(out, "RULE ") || !strings.Contains(out, `once   user="banned"  20`) || errs != "2 bans\n" {
				t.Errorf("exit status %d\n%s%s", code, out, errs)
			}
			if _, out, errs := p.keys(t, "list", "--banned", "--most", "1"); strings.Count(out, "\n") != 2 || errs != "1 ban, and there are more: --most\n" {
				t.Errorf("--most 1:\n%s%s", out, errs)
			}
			if code, _, errs := p.keys(t, "lift", "user=banned"); code != exitYes {
				t.Fatal(errs)
			}
			if found := list(); len(found.Bans) != 1 || found.Bans[0].Rule != "twice" {
				t.Errorf("after one was lifted: %+v", found)
			}
			// The bans of a rule that was a mistake are lifted without naming the clients.
			for range 4 {
				p.allows(t, `{"user": "banned", "path": "/once"}`)
			}
			if code, out, errs := p.keys(t, "lift", "--rule", "once", "--dry-run"); code != exitYes || !strings.Contains(out, `once  user="banned"`) || errs != "1 ban would be lifted\n" || len(list().Bans) != 2 {
				t.Errorf("--dry-run: exit status %d: %s%s", code, out, errs)
			}
			if code, _, errs := p.keys(t, "lift", "--rule", "once"); code != exitYes || errs != "1 ban lifted\n" || len(list().Bans) != 1 {
				t.Errorf("--rule: exit status %d: %s", code, errs)
			}
			if code, _, errs := p.keys(t, "lift", "--hash", list().Bans[0].Subject); code != exitYes || errs != "1 ban lifted\n" || len(list().Bans) != 0 {
				t.Errorf("--hash: exit status %d: %s", code, errs)
			}
			for _, test := range []struct {
				want string
				args []string
			}{
				{"no client given", []string{"keys", "lift"}},
				{"leave out", []string{"keys", "lift", "--dry-run", "user=u1"}},
				{"if any flags in the group", []string{"keys", "lift", "--all", "--hash", "x"}},
				{"has no penalty", []string{"keys", "lift", "--rule", "free"}},
				{"no rule given", []string{"keys", "list"}},
				{"leave out", []string{"keys", "list", "--banned", "once"}},
				{"is now penstock keys list --banned", []string{"bans", "list", "-o", "json"}},
			} {
				if code, _, errs := p.run(t, test.args...); code == exitYes || !strings.Contains(errs, test.want) {
					t.Errorf("%q: exit status %d: %s", test.args, code, errs)
				}
			}
		})
	}
}

// Shells complete the names of rules that the node serves, and fixed values.
func TestCompletions(t *testing.T) {
	t.Parallel()
	p := startServe(t, "rules: {file: "+nodetest.RulesFile(t, banRules)+"}")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"keys", "show", "--rule", ""}, "once\nfree\ntwice\n:4\n"},
		{[]string{"keys", "list", ""}, "once\nfree\ntwice\n:4\n"},
		{[]string{"keys", "list", "once", ""}, ":4\n"},
		{[]string{"tail", "--rule", "t"}, "once\nfree\ntwice\n:4\n"},
		{[]string{"keys", "ban", "--for", ""}, "10m\n1h\n1d\n7d\n:4\n"},
		{[]string{"top", "--sort", ""}, "denied\nrequests\nkeys\nrule\n:4\n"},
		{[]string{"explain", "--database", ""}, "sqlite:\npostgres://\n:4\n"},
		{[]string{"status", "-o", ""}, "text\njson\n:4\n"},
	} {
		if code, out, errs := p.run(t, append([]string{"__complete"}, test.args...)...); code != exitYes || out != test.want {
			t.Errorf("%q: exit status %d: %q, want %q; %s", test.args, code, out, test.want, errs)
		}
	}
	a := &app{stdin: strings.NewReader(""), stdout: &strings.Builder{}, stderr: &strings.Builder{}} // without a token
	if code := a.run(t.Context(), []string{"__complete", "keys", "list", ""}); code != exitYes {
		t.Errorf("without a token: exit status %d", code)
	}
}

// serve --check -o json reports its findings for scripts.
func TestCheckAsData(t *testing.T) {
	t.Parallel()
	check := func(want int, args ...string) (found struct {
		OK               bool
		Errors, Warnings []string
		Checked          string
	}) {
		t.Helper()
		var out, errs strings.Builder
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, env: []string{"PENSTOCK_DATA_DIR=" + t.TempDir()}}
		code := a.run(t.Context(), append([]string{"serve", "--check", "-o", "json", "--upstream", "http://127.0.0.1:1"}, args...))
		if err := json.Unmarshal([]byte(out.String()), &found); err != nil || code != want || found.OK != (want == exitYes) {
			t.Errorf("%v: exit status %d, %v: %s%s", args, code, err, &out, &errs)
		}
		return found
	}
	if found := check(exitYes, "--rules", nodetest.RulesFile(t, banRules)); found.Checked != "configuration and 3 rules" || len(found.Errors) != 0 {
		t.Errorf("got %+v", found)
	}
	if found := check(exitNo, "--rules", nodetest.RulesFile(t, "rules: [{nmae: x}]")); len(found.Errors) != 1 || !strings.Contains(found.Errors[0], "nmae") {
		t.Errorf("invalid rules: %+v", found)
	}
	if found := check(exitNo, "--listen-http", "nowhere", "--listen-grpc", "neither"); len(found.Errors) != 2 {
		t.Errorf("an invalid configuration: %+v", found)
	}
}
