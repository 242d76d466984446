package clients

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// installNode builds the package and installs it, as npm would, in a directory with the tests and the frameworks.
func installNode(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "clients", "node")
	for from, to := range map[string]string{"node": source, "conformance": filepath.Join(dir, "clients", "conformance")} {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := inNode(source, "npm", "install", "--no-audit", "--no-fund", "--prefer-offline", "--ignore-scripts", "--loglevel=error", "--fetch-retries=1", "--fetch-timeout=30000"); err != nil {
		t.Skipf("packages cannot be had from npm: %v\n%s", err, out)
	}
	for _, options := range [][]string{
		nil,
		{"--ignoreConfig", "--noEmit", "--strict", "--skipLibCheck", "--module", "node16", "--target", "ES2022", "--types", "node", "test/types.ts"},
	} {
		if out, err := inNode(source, "node_modules/.bin/tsc", options...); err != nil {
			t.Fatalf("tsc %v: %v\n%s", options, err, out)
		}
	}
	return source
}

func inNode(dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patient) // a registry that hangs must not hang the tests
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.WaitDelay = dir, patient
	out, err := c.CombinedOutput()
	return string(out), err
}

// The package passes its own tests, and what clients of all languages pass: the client, and the middleware in each
// framework.
func TestNode(t *testing.T) {
	t.Parallel()
	dir, s := installNode(t), readSession(t)
	t.Run("units", func(t *testing.T) {
		t.Parallel()
		if out, err := inNode(dir, "node", "--test", "test/units.test.mjs"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("snippet of the console", func(t *testing.T) {
		t.Parallel()
		if err := os.WriteFile(filepath.Join(dir, "snippet.mjs"), []byte(snippet(t, "Node", startNode(t, s.Rules))), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := inNode(dir, "node", "snippet.mjs"); err != nil || out != "true\n" {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("client", func(t *testing.T) {
		t.Parallel()
		if out, err := inNode(dir, "node", "test/play.mjs", startNode(t, s.Rules)); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	frameworks := []string{"express.mjs", "http.cjs"}
	if os.Getenv("PENSTOCK_TEST_LONG") != "" { // the snippets of the page are tried with all of them
		frameworks = append(frameworks, "fastify.mjs")
	}
	for _, name := range frameworks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := append(os.Environ(), "SERVICE_URL="+startNode(t, s.Rules))
			play(t, s, startApp(t, "", env, "node", filepath.Join(dir, "test", "apps", name)))
		})
	}
	t.Run("page", func(t *testing.T) { testPage(t, dir, ".mjs", os.Environ()) })
	t.Run("reporting", func(t *testing.T) {
		t.Parallel()
		testReporting(t, "node/README.md", "js", func(program string) (string, error) {
			if err := os.WriteFile(filepath.Join(dir, "report.mjs"), []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			return inNode(dir, "node", "report.mjs")
		})
	})
}
