package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestMain makes this binary a busy loop when startLoops starts it.
func TestMain(m *testing.M) {
	if os.Getenv(loopVariable) != "" {
		loop()
	}
	os.Exit(m.Run())
}

func TestSample(t *testing.T) {
	t.Chdir("testdata/sample")
	t.Setenv("SAMPLE_LOG", filepath.Join(t.TempDir(), "log"))
	o, err := parseFlags([]string{"-n", "3", "-busy", "1", "-state", t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if got := order(t, o); got != "other: its tests import net\n.: " {
		t.Errorf("order %q", got)
	}
	if err := run(t.Context(), o); !errors.Is(err, errFailed) {
		t.Errorf("%v, want %v", err, errFailed)
	}
	o.n = 4 // three are known
	packages, err := listPackages(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got := order(t, o); got != ".: failed before\nother: its tests import net" {
		t.Errorf("order %q", got)
	}
	runs, err := packages[0].complete(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got := describe(runs); got != "5/1 passed; 5/1 TestSecondTime TestSecondTime/part; 5/1 passed; 4/1 TestEnds (not ended)" {
		t.Errorf("runs: %s", got)
	}
	log, err := os.ReadFile(runs[1].Log)
	if err != nil || !strings.Contains(string(log), "the second time") {
		t.Errorf("log %q, %v", log, err)
	}
	if err := packages[0].forget(); err != nil {
		t.Fatal(err)
	}
	o.n = 1
	if runs, err = packages[0].complete(t.Context(), o); err != nil || describe(runs) != "5/1 passed" {
		t.Errorf("after forgetting: %s, %v", describe(runs), err)
	}
}

func TestSuite(t *testing.T) {
	t.Chdir("testdata/sample")
	o, err := parseFlags([]string{"-once", "-busy", "1", "-timeout", "7m", "-state", t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for result, want := range map[string]error{"passed": nil, "failed": errFailed} {
		t.Setenv("SAMPLE_RESULT", result)
		if err := run(t.Context(), o); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", result, err, want)
		}
		log, err := os.ReadFile(filepath.Join(o.stateDir, "suite.log"))
		if err != nil || !strings.HasPrefix(string(log), "flags: -count=1 -timeout 7m0s\n") {
			t.Errorf("log %q, %v", log, err)
		}
	}
}

func order(t *testing.T, o *options) string {
	t.Helper()
	packages, err := listPackages(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, p := range packages {
		lines = append(lines, p.name+": "+p.reason)
	}
	return strings.Join(lines, "\n")
}

func describe(runs []packageRun) string {
	var parts []string
	for _, r := range runs {
		result := "passed"
		if r.Failed {
			result = strings.Join(r.Names, " ")
		}
		parts = append(parts, fmt.Sprintf("%d/%d %s", r.Tests, r.Skipped, result))
	}
	return strings.Join(parts, "; ")
}

// A busy loop ends when the pipe of its standard input is closed, as happens when the process that started it ends.
func TestLoopsEnd(t *testing.T) {
	stop, err := startLoops(2)
	if err != nil {
		t.Fatal(err)
	}
	stop() // returns once both have ended

	// The shell starts a loop, and is killed.
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	loop := exec.Command(program)
	loop.Env = append(os.Environ(), loopVariable+"=1")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	loop.Stdin = read
	holder := exec.Command("sh", "-c", "kill -9 $$")
	holder.ExtraFiles = []*os.File{write}
	if err := errors.Join(loop.Start(), holder.Start(), write.Close()); err != nil {
		t.Fatal(err)
	}
	if err := holder.Wait(); err == nil {
		t.Error("the holder of the pipe was not killed")
	}
	if err := loop.Wait(); err != nil {
		t.Error(err)
	}
}

func TestModules(t *testing.T) {
	for pattern, want := range map[string]map[string][]string{
		"./engine ./rules/...":     {".": {"./engine", "./rules/..."}},
		"./tools/lint bench ./a/b": {".": {"./a/b"}, "tools": {"./lint"}, "bench": {"./"}},
		".":                        {".": {"."}},
	} {
		if got := byModule(strings.Fields(pattern)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", pattern, got, want)
		}
	}
}

func TestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-n 0":           "invalid -n 0: must be from 1 to 10000",
		"-busy -1":       "invalid -busy -1: must be from 0 to 10000",
		"-p 20000":       "invalid -p 20000: must be from 1 to 10000",
		"-once ./engine": "-once runs make test as it is: it takes no packages and no -flags",
		"-n 7 ./engine":  "",
	} {
		got := ""
		if _, err := parseFlags(strings.Fields(args)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
	build, test := splitFlags([]string{"-race", "-short", "--run=^TestX$", "-tags=a,b"})
	if !reflect.DeepEqual(build, []string{"-race", "-tags=a,b"}) || !reflect.DeepEqual(test, []string{"-test.short", "-test.run=^TestX$"}) {
		t.Errorf("%q, %q", build, test)
	}
}
