package nodetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/child"
)

// BuildAndRun builds the binary, passes its path to run and returns the exit status of run. It is for TestMain.
func BuildAndRun(run func(program string) int) int {
	dir, err := os.MkdirTemp("", "penstock-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "penstock")
	build := exec.Command("go", "build", "-o", program, "github.com/penstock-io/penstock/cmd/penstock")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %v\n%s", build, err, out)
		return 1
	}
	return run(program)
}

// A Process is the running binary.
type Process struct {
	*child.Process
	Cmd       *exec.Cmd
	Log       string            // the file that it prints to
	Addresses map[string]string // host:port of its listeners: gateway, http, grpc, admin

	t testing.TB
}

// startTimeout bounds the start of a node, also of several at once on a busy machine.
const startTimeout = 2 * time.Minute

// StartProcess runs a command of the binary until the test ends. It returns when the command has printed where it
// listens. The test fails if the process ever logs a panic or a data race; GOFLAGS=-race builds it with the detector.
func StartProcess(t testing.TB, c *exec.Cmd, log string) *Process {
	t.Helper()
	if err := os.RemoveAll(log); err != nil {
		t.Fatal(err)
	}
	running, err := child.Start(c, log)
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{Process: running, Cmd: c, Log: log, Addresses: map[string]string{}, t: t}
	t.Cleanup(p.end)
	for end := time.Now().Add(startTimeout); !p.readAddresses(); time.Sleep(10 * time.Millisecond) {
		if p.Exited() {
			t.Fatalf("%v ended with status %d", c, c.ProcessState.ExitCode())
		}
		if time.Now().After(end) {
			t.Fatalf("%v has not printed its addresses within %v", c, startTimeout)
		}
	}
	return p
}

var address = regexp.MustCompile(`(?m)^  (gateway|http|grpc|admin) +(?:https?://)?(\S+)\n`)

// readAddresses reports whether the admin listener's address is there, which is the last.
func (p *Process) readAddresses() bool {
	for _, found := range address.FindAllStringSubmatch(p.read(), -1) {
		p.Addresses[found[1]] = found[2]
	}
	return p.Addresses["admin"] != ""
}

func (p *Process) read() string {
	text, err := os.ReadFile(p.Log)
	if err != nil {
		p.t.Error(err)
	}
	return string(text)
}

// alarm matches what no node may ever log.
var alarm = regexp.MustCompile(`(?m)^(panic: |fatal error: |WARNING: DATA RACE)|http: panic serving`)

func (p *Process) end() {
	p.Kill()
	text := p.read()
	if at := alarm.FindStringIndex(text); at != nil {
		p.t.Errorf("%v failed:\n%s", p.Cmd, text[at[0]:min(len(text), at[0]+5000)])
	}
	if p.t.Failed() {
		p.t.Logf("log of %v:\n%s", p.Cmd, child.LogTail(p.Log))
	}
}
