package nodetest

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/child"
)

// BuildAndRun builds the binary, passes its path to run and returns the exit status of run. It is for TestMain.
func BuildAndRun(run func(program string) int) int {
	RunTogether()
	dir, err := os.MkdirTemp("", "penstock-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "penstock")
	if err := Build(program, nil, "-ldflags", "-s -w"); err != nil { // linked in half the time without symbols
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run(program)
}

// RunTogether makes at least four parallel tests run at a time, unless -parallel is given: each has nodes of its own
// and mostly waits for them, so there may be more than processors. It is for TestMain.
func RunTogether() {
	const least = 4
	flag.Parse()
	parallel := flag.Lookup("test.parallel")
	given := runtime.GOMAXPROCS(0) >= least // then that is the default
	flag.Visit(func(f *flag.Flag) { given = given || f == parallel })
	if given {
		return
	}
	if err := parallel.Value.Set(strconv.Itoa(least)); err != nil {
		panic(err)
	}
}

const command = "github.com/penstock-io/penstock/cmd/penstock"

// Build builds the binary with additional environment variables and flags of go build, e.g. "-race". Linking
// takes seconds, so the binaries stay in bin/test and the packages of a test run share them: go build links one again
// only if a source, the environment or a flag has changed. The file at path belongs to the caller.
func Build(path string, env []string, flags ...string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	settings := sha256.Sum256([]byte(strings.Join(slices.Concat(env, flags), "\x00")))
	kept := filepath.Join(root, "bin", "test", fmt.Sprintf("penstock-%x", settings[:8]))
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(kept+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	build := exec.Command("go", slices.Concat([]string{"build", "-o", kept}, flags, []string{command})...)
	build.Env = append(os.Environ(), env...)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", build, err, out)
	}
	// A link keeps this build when another process builds changed sources: go build replaces the file.
	if os.Link(kept, path) == nil {
		return nil
	}
	binary, err := os.ReadFile(kept) // path is on another file system
	if err != nil {
		return err
	}
	return os.WriteFile(path, binary, 0o755)
}

// moduleRoot returns the directory of the module, in which or below which tests run.
func moduleRoot() (string, error) {
	start, err := os.Getwd()
	for dir := start; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "penstock", "main.go")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no directory above %s has cmd/penstock", start)
		}
	}
	return "", err
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
