package packaging

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/nodetest"
)

// patient is how long a test waits for what must come. None depends on how soon it does.
const patient = time.Minute

// program is the path of the binary, root that of the repository.
var program, root string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	nodetest.RunTogether()
	dir, err := os.MkdirTemp("", "penstock-packaging-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if root, err = filepath.Abs("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	program = filepath.Join(dir, "penstock")
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build links the program without shared libraries, as releases are: it runs in an empty image. Releases do without C
// for that. Here C libraries are linked in, if there is a C compiler, as the other tests have compiled all packages for
// one already, and compiling them again takes minutes.
func build() error {
	cgo, err := exec.Command("go", "env", "CGO_ENABLED").Output()
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(cgo)) == "1" && nodetest.Build(program, nil, "-ldflags", "-s -w -linkmode external -extldflags -static") == nil {
		return nil // not every system has C libraries to link in
	}
	return nodetest.Build(program, []string{"CGO_ENABLED=0"}, "-ldflags", "-s -w")
}

// long tells whether everything is built from scratch, which takes many minutes.
func long() bool { return os.Getenv("PENSTOCK_TEST_LONG") != "" }

func needLong(t *testing.T) {
	t.Helper()
	if !long() {
		t.Skip("takes minutes: set PENSTOCK_TEST_LONG")
	}
}

// need skips a test without a program that `make needs` installs where it can.
func need(t *testing.T, name, debian string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/local/sbin", "/usr/sbin", "/sbin") {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 && !info.IsDir() {
			return path
		}
	}
	t.Skipf("%s is not installed: apt-get install %s", name, debian)
	return ""
}

// run runs a program in a directory to its end, which must be a good one, and returns what it prints.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	out, err := tryRun(t, dir, env, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// tryRun is run for those that may fail.
func tryRun(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	var out bytes.Buffer
	c.Dir, c.Env, c.Stdout, c.Stderr = dir, append(os.Environ(), env...), &out, &out
	c.WaitDelay = patient // grandchildren may keep the pipe
	err := c.Run()
	return out.String(), err
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patient); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patient, what)
		}
	}
}

func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
