package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/penstock-io/penstock/internal/child"
	"github.com/penstock-io/penstock/internal/console"
)

// The console is walked in a real browser, with real calls: internal/console/web/test/console.mjs says
// what is done. PENSTOCK_SHOTS keeps the pictures it takes.
func TestConsole(t *testing.T) {
	if !console.Built() {
		t.Skip("the console is not in this build; make console")
	}
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium; apt-get install chromium")
	}
	shots := os.Getenv("PENSTOCK_SHOTS")
	if shots == "" {
		shots = t.TempDir()
	}
	dir := t.TempDir()
	demo := command(dir, "serve", "--demo", "--listen-gateway", "127.0.0.1:0", "--listen-http", "127.0.0.1:0",
		"--listen-grpc", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0")
	demo.Env = append(demo.Env, "PENSTOCK_ADMIN_TOKEN="+adminToken)
	n := launchCommand(t, dir, demo)
	walk := exec.Command("node", filepath.Join("test", "console.mjs"))
	walk.Dir = filepath.Join("..", "internal", "console", "web")
	walk.Env = append(os.Environ(), "PENSTOCK_ADMIN="+n.url("admin", ""), "PENSTOCK_GATEWAY="+n.url("gateway", ""),
		"PENSTOCK_TOKEN="+adminToken, "PENSTOCK_CHROMIUM="+browser, "PENSTOCK_SHOTS="+shots)
	if out, err := child.Run(walk); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
