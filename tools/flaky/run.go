package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/penstock-io/penstock/tools/internal/jsonl"
)

// A packageRun is one run of all tests of a package. Its JSON is a line of the state.
type packageRun struct {
	Tests   int      `json:"tests"`
	Skipped int      `json:"skipped,omitempty"`
	Seconds float64  `json:"seconds"`
	Failed  bool     `json:"failed,omitempty"`
	Names   []string `json:"names,omitempty"` // of the tests that failed
	Log     string   `json:"log,omitempty"`   // the file of the output, if it failed
}

// runPackages gives each package the runs that it lacks, and prints a summary of all its runs.
func runPackages(ctx context.Context, o *options, packages []*testPackage) error {
	s := summary{start: time.Now()}
	var workers sync.WaitGroup
	queue := make(chan *testPackage)
	for range o.parallel {
		workers.Go(func() {
			for p := range queue {
				runs, err := p.complete(ctx, o)
				s.add(p, runs, err)
			}
		})
	}
	for i, p := range packages {
		if ctx.Err() != nil {
			break
		}
		fmt.Printf("%s %d/%d %s\n", time.Now().Format(time.TimeOnly), i+1, len(packages), p.name)
		queue <- p
	}
	close(queue)
	workers.Wait()
	return s.print()
}

// complete runs the tests of a package until it has n runs, and returns all of them.
func (p *testPackage) complete(ctx context.Context, o *options) ([]packageRun, error) {
	temporary, err := os.MkdirTemp("", "flaky")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temporary)
	binary := filepath.Join(temporary, "package.test")
	// Without the build ID, the same code gives the same file.
	buildFlags, testFlags := splitFlags(o.flags)
	build := exec.CommandContext(ctx, "go", slices.Concat([]string{"test", "-c", "-o", binary, "-ldflags=-buildid="}, buildFlags, []string{"."})...)
	build.Dir = p.Dir
	if output, err := build.CombinedOutput(); ctx.Err() != nil {
		return nil, ctx.Err()
	} else if err != nil {
		return nil, fmt.Errorf("build: %w\n%s", err, output)
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(p.state, 0o777); err != nil {
		return nil, err
	}
	hash := sha256.Sum256(fmt.Appendf(data, "%q", o.flags))
	state := filepath.Join(p.state, hex.EncodeToString(hash[:6]))
	runs, err := jsonl.Read[packageRun](state + "-runs.jsonl")
	if err != nil {
		return nil, err
	}
	for i := len(runs); i < o.n; i++ {
		r, output, err := p.run(ctx, binary, o.timeout, testFlags)
		if err != nil {
			return runs, err
		}
		if r.Failed {
			r.Log = fmt.Sprintf("%s-run%d.log", state, i+1)
			if err := os.WriteFile(r.Log, output, 0o666); err != nil {
				return runs, err
			}
			fmt.Printf("%s    %s, run %d failed: %s (%s)\n", time.Now().Format(time.TimeOnly), p.name, i+1, strings.Join(r.Names, " "), r.Log)
		}
		if err := jsonl.Append(state+"-runs.jsonl", *r); err != nil {
			return runs, err
		}
		runs = append(runs, *r)
	}
	return runs, nil
}

// splitFlags divides flags of `go test` into those of the compiler and those of the test binary.
func splitFlags(flags []string) (build, test []string) {
	for _, flag := range flags {
		switch name, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "="); name {
		case "short", "run", "skip", "cpu", "parallel", "shuffle":
			test = append(test, "-test."+strings.TrimLeft(flag, "-"))
		default:
			build = append(build, flag)
		}
	}
	return build, test
}

// outcomes are the lines that say how a test ended, and started the one that says that it starts.
var (
	outcomes = regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP): (\S+)`)
	started  = regexp.MustCompile(`(?m)^=== RUN   (\S+)`)
)

func (p *testPackage) run(ctx context.Context, binary string, timeout time.Duration, flags []string) (*packageRun, []byte, error) {
	args := append([]string{"-test.v", "-test.paniconexit0", "-test.timeout=" + timeout.String()}, flags...)
	command := exec.CommandContext(ctx, binary, args...)
	command.Dir = p.Dir
	endTogether(command)
	start := time.Now()
	output, err := command.CombinedOutput()
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, nil, err
	}
	r := &packageRun{Failed: err != nil, Seconds: time.Since(start).Seconds()}
	ended := map[string]bool{}
	for _, match := range outcomes.FindAllStringSubmatch(string(output), -1) {
		outcome, name := match[1], match[2]
		r.Tests++
		ended[name] = true
		switch outcome {
		case "SKIP":
			r.Skipped++
		case "FAIL":
			r.Names = append(r.Names, name)
		}
	}
	if r.Failed && len(r.Names) == 0 { // the process ended in the middle: name what had not ended
		for _, match := range started.FindAllStringSubmatch(string(output), -1) {
			if !ended[match[1]] {
				r.Names = append(r.Names, match[1]+" (not ended)")
			}
		}
	}
	return r, output, nil
}

// endTogether makes a command end with the processes that it started when its context ends.
func endTogether(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = 10 * time.Second
}

// A summary collects the runs of all packages.
type summary struct {
	start time.Time

	mu                   sync.Mutex
	packages, runs       int
	tests, failed, lacks int
	lines                []string
}

func (s *summary) add(p *testPackage, runs []packageRun, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.packages++
	for i, r := range runs {
		s.runs++
		s.tests += r.Tests
		if r.Failed {
			s.failed++
			s.lines = append(s.lines, fmt.Sprintf("FAIL %s, run %d of %d: %s\n     %s", p.name, i+1, len(runs), strings.Join(r.Names, " "), r.Log))
		}
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		s.lacks++
		s.lines = append(s.lines, fmt.Sprintf("ERROR %s: %v", p.name, err))
	}
}

func (s *summary) print() error {
	for _, line := range s.lines {
		fmt.Println(line)
	}
	fmt.Printf("%d packages, %d runs of them, %d tests run, %d runs failed; %v\n",
		s.packages, s.runs, s.tests, s.failed, time.Since(s.start).Round(time.Second))
	switch {
	case s.lacks > 0:
		return fmt.Errorf("%d packages could not be run", s.lacks)
	case s.failed > 0:
		return errFailed
	}
	return nil
}

// runSuite runs make test once beside the busy loops.
func runSuite(ctx context.Context, o *options) error {
	stop, err := startLoops(o.busy)
	if err != nil {
		return err
	}
	defer stop()
	name := filepath.Join(o.stateDir, "suite.log")
	log, err := os.Create(name)
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Printf("make test beside %d busy loops; output in %s\n", o.busy, name)
	command := exec.CommandContext(ctx, "make", "--no-print-directory", "test", "GOTESTFLAGS=-count=1 -timeout "+o.timeout.String())
	command.Stdout, command.Stderr = log, log
	endTogether(command)
	start := time.Now()
	failure := command.Run()
	output, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	for _, line := range regexp.MustCompile(`(?m)^(\s*--- FAIL: .*|FAIL\t.*|panic: .*|make(?:\[\d+\])?: .*Error.*)$`).FindAllString(string(output), -1) {
		fmt.Println(line)
	}
	fmt.Printf("make test: %v after %v\n", map[bool]string{true: "passed", false: "failed"}[failure == nil], time.Since(start).Round(time.Second))
	if exit := (*exec.ExitError)(nil); errors.As(failure, &exit) {
		return errFailed
	}
	return failure
}
