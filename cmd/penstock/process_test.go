package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/nodetest"
)

// A process is the real program.
type process struct {
	*exec.Cmd
	addresses map[string]string
	exited    chan error
}

var greeted = regexp.MustCompile(`^  (\w+) +(?:http://)?(\S+)`)

// startProcess runs penstock with the arguments, and returns when it has printed its addresses.
func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	return startProcessWith(t, nil, args...)
}

// startProcessWith is startProcess with further environment variables.
func startProcessWith(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p, err := tryProgram(t, t.Output(), append([]string{"penstock"}, args...), env...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tryProcess is startProcess with an error if penstock ends instead. What it prints goes to output.
func tryProcess(t *testing.T, output io.Writer, args ...string) (*process, error) {
	t.Helper()
	return tryProgram(t, output, append([]string{"penstock"}, args...))
}

// tryProgram is tryProcess with the whole command line, and further variables.
func tryProgram(t *testing.T, output io.Writer, line []string, env ...string) (*process, error) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{Cmd: exec.CommandContext(ctx, program), addresses: map[string]string{}, exited: make(chan error, 1)}
	p.Args = line // by which the test program knows what to be
	p.Dir = t.TempDir()
	p.Env = slices.Concat(os.Environ(), nodetest.Unhurried, []string{"STATE_DIRECTORY=" + p.Dir}, env)
	p.Stderr = output
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	scan := func() bool {
		more := lines.Scan()
		fmt.Fprintln(output, lines.Text())
		return more
	}
	for p.addresses["admin"] == "" && scan() {
		if found := greeted.FindStringSubmatch(lines.Text()); found != nil {
			p.addresses[found[1]] = found[2]
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for scan() { // otherwise it would block
		}
		p.exited <- p.Wait()
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	if p.addresses["admin"] == "" {
		<-ended // stderr is complete then
		return nil, fmt.Errorf("%v did not start", line)
	}
	return p, nil
}

// startServe runs a demo with further configuration, on free ports.
func startServe(t *testing.T, yaml string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "penstock.yaml")
	nodetest.WriteFile(t, file, yaml)
	return startProcess(t, append(slices.Clone(onFreePorts), "--config", file)...)
}

// token reads the admin token that the process generated.
func (p *process) token(t *testing.T) string {
	t.Helper()
	return kept(t, p.Dir)
}

// kept reads the admin token that a server generated and keeps in its data directory.
func kept(t *testing.T, dir string) string {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(dir, "admin_token"))
	if err != nil {
		t.Fatal(err)
	}
	return string(token)
}

// status asks the admin API.
func (p *process) status(t *testing.T, token string) (s admin.Status) {
	t.Helper()
	answer, body := p.request(t, http.MethodGet, "admin", "/v1/status", "", "Authorization", "Bearer "+token)
	if err := json.Unmarshal([]byte(body), &s); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("status: %s: %s", answer.Status, body)
	}
	return s
}

// allows asks the decision API.
func (p *process) allows(t *testing.T, attributes string) bool {
	t.Helper()
	answer, body := p.request(t, http.MethodPost, "http", "/v1/check", `{"attributes": `+attributes+`}`, "Content-Type", "application/json")
	var v struct{ Allowed bool }
	if err := json.Unmarshal([]byte(body), &v); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("check: %s: %s", answer.Status, body)
	}
	return v.Allowed
}

var onFreePorts = []string{
	"serve", "--demo", "--listen-gateway", "127.0.0.1:0", "--listen-http", "127.0.0.1:0",
	"--listen-grpc", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0",
}

// The test of the fingerprint limit, as people type it.
func TestApacheBench(t *testing.T) {
	t.Parallel()
	ab, err := exec.LookPath("ab")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("ab is not installed: apt-get install apache2-utils")
		}
		t.Skip("ab is not installed: apt-get install apache2-utils")
	}
	p := startProcess(t, onFreePorts...)
	out, err := exec.Command(ab, "-n", "50", "-c", "50", "-H", "X-Fingerprint: fp:challenge123:hash456",
		"http://"+p.addresses["gateway"]+"/api/v1/chat").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{`Complete requests: +50\n`, `Non-2xx responses: +40\n`} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("ab does not say %s:\n%s", want, out)
		}
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := startProcess(t, onFreePorts...)
		if err := p.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-p.exited:
			if err != nil {
				t.Errorf("%v: %v, want exit status 0", s, err)
			}
		case <-time.After(nodetest.Timeout):
			t.Errorf("%v: it did not end", s)
		}
	}
}

// A second signal does not wait for requests in flight.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	defer upstream.Close()
	defer close(release)
	p := startProcess(t, append(onFreePorts, "--upstream", upstream.URL)...)
	go func() {
		if answer, err := http.Get("http://" + p.addresses["gateway"] + "/slow"); err == nil {
			answer.Body.Close()
		}
	}()
	<-arrived
	var err error
	nodetest.Eventually(t, "it ends", func() bool {
		_ = p.Process.Signal(syscall.SIGTERM) // again and again, until one is not caught
		select {
		case err = <-p.exited:
			return true
		default:
			return false
		}
	})
	ended, ok := errors.AsType[*exec.ExitError](err)
	if !ok || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("got %v, want that the signal has ended it", err)
	}
}

// The command asks the server that the environment names, and its status is the answer.
func TestCheckAsksTheServer(t *testing.T) {
	t.Parallel()
	p := startProcess(t, onFreePorts...)
	var out, errs strings.Builder
	run := func() int {
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, env: []string{"PENSTOCK_SERVER=http://" + p.addresses["http"]}}
		return a.run(t.Context(), []string{"check", "--timeout", "30s", "--times", "10", "path=/api/v1/chat", "fingerprint=f"})
	}
	if code := run(); code != exitYes {
		t.Errorf("exit status %d: %s", code, &errs)
	}
	if code := run(); code != exitNo {
		t.Errorf("exit status %d: %s", code, &errs)
	}
	if text := out.String(); strings.Count(text, "ALLOWED  chat-per-fingerprint  10 per 1m") != 10 || !strings.Contains(text, "DENIED  chat-per-fingerprint  10 per 1m  remaining 0  retry in ") {
		t.Errorf("got:\n%s", text)
	}
}
