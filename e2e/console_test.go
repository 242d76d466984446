package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/penstock-io/penstock/internal/child"
	"github.com/penstock-io/penstock/internal/console"
	"github.com/penstock-io/penstock/internal/redistest"
)

const viewerToken = "viewer-0123456789"

// A real browser uses the console, with real requests: see internal/console/web/test/console.mjs.
func TestConsole(t *testing.T) {
	t.Parallel()
	walkDemo(t, "console.mjs")
}

// Users and tokens in the console, and every screen in both themes and on a phone: see people.mjs.
func TestConsoleOfPeople(t *testing.T) {
	t.Parallel()
	walkDemo(t, "people.mjs")
}

// An operator runs the tools on recent requests and on a log: see tools.mjs.
func TestConsoleTools(t *testing.T) {
	t.Parallel()
	walkDemo(t, "tools.mjs")
}

// walkDemo runs a script that walks the console of a demo.
func walkDemo(t *testing.T, script string) {
	t.Helper()
	browser := browserFor(t)
	dir := t.TempDir()
	demo := command(dir, "serve", "--demo", "--listen-gateway", "127.0.0.1:0", "--listen-http", "127.0.0.1:0",
		"--listen-grpc", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0")
	demo.Env = append(demo.Env, "PENSTOCK_ADMIN_TOKEN="+adminToken, "PENSTOCK_ADMIN_VIEWER_TOKEN="+viewerToken)
	walk(t, script, launchCommand(t, dir, demo), browser)
}

// The console shows three nodes on one Redis, and then that one ends: see nodes.mjs.
func TestConsoleOfNodes(t *testing.T) {
	t.Parallel()
	browser := browserFor(t)
	server := redistest.Start(t)
	redis := onRedis("single", server.Addr)
	rules := rulesFile(t, "rules: [{name: per-ip, key: [ip], limits: [15/1h]}]")
	others := rulesFile(t, "rules: [{name: per-ip, key: [ip], limits: [14/1h]}]")
	north := start(t, newUpstream(t).config(), redis, rules, "node_name: north")
	south := start(t, newUpstream(t).config(), redis, rules, "node_name: south")
	start(t, newUpstream(t).config(), redis, others, "node_name: west")
	walk(t, "nodes.mjs", north, browser, fmt.Sprint("PENSTOCK_OTHER=", south.cmd.Process.Pid), "PENSTOCK_REDIS="+server.Addr)
}

// An operator is paged, finds who it is, blocks the client on all nodes, and cleans up: see night.mjs.
func TestConsoleAtNight(t *testing.T) {
	t.Parallel()
	browser := browserFor(t)
	database := "sqlite:" + filepath.Join(t.TempDir(), "rules.db")
	apply(t, database, "attributes: {user: {header: X-User}}\nrules:\n  - name: per-ip\n    key: [ip]\n    limits: [5/1h]\n  - name: per-user\n    key: [user]\n    limits: [1000/1h]\n")
	parts := []string{newUpstream(t).config(), onRedis("single", redistest.Start(t).Addr), "rules: {database: '" + database + "'}"}
	north, south := start(t, append(parts, "node_name: north")...), start(t, append(parts, "node_name: south")...)
	north.awaitStore()
	south.awaitStore()
	walk(t, "night.mjs", north, browser, "PENSTOCK_OTHER="+south.url("gateway", ""), "PENSTOCK_OTHER_ADMIN="+south.url("admin", ""))
}

// browserFor finds what a walk needs.
func browserFor(t *testing.T) (chromium string) {
	t.Helper()
	if !console.Built() {
		t.Skip("the console is not in this build; make console")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("no chromium; apt-get install chromium")
	}
	return chromium
}

// walk runs a script that walks the console of a node. PENSTOCK_TEST_SHOTS keeps the pictures it takes.
func walk(t *testing.T, script string, n *node, browser string, env ...string) {
	t.Helper()
	c := exec.Command("node", filepath.Join("test", script))
	c.Dir = filepath.Join("..", "internal", "console", "web")
	c.Env = append(os.Environ(), "PENSTOCK_ADMIN="+n.url("admin", ""), "PENSTOCK_GATEWAY="+n.url("gateway", ""),
		"PENSTOCK_TOKEN="+adminToken, "PENSTOCK_TEST_VIEWER_TOKEN="+viewerToken, "PENSTOCK_TEST_CHROMIUM="+browser)
	c.Env = append(c.Env, env...)
	if out, err := child.Run(c); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
