//go:build linux

package survive

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/child"
	"github.com/penstock-io/penstock/internal/nodetest"
)

// patience is how long tests wait for what must come.
const patience = time.Minute

// longer is how much more is tried in the long version of the tests.
var longer = map[bool]int{false: 1, true: 20}[os.Getenv("PENSTOCK_TEST_LONG") != ""]

// program is the path of the binary.
var program string

func TestMain(m *testing.M) {
	os.Exit(nodetest.BuildAndRun(func(built string) int {
		program = built
		return m.Run()
	}))
}

// A node is the running program.
type node struct {
	t         *testing.T
	cmd       *exec.Cmd
	process   *child.Process
	log       string
	addresses map[string]string // of its listeners
	client    *http.Client
}

// A setup is how a node is to be.
type setup struct {
	rules  string // YAML; by default one that counts all
	config string // YAML of upstreams and gateway
	files  int    // that it may open; 0: as many as the test
	env    []string
	share  int // percent of connections that one address may hold; 0: all, as all clients here have the same
}

// counted is how rules here count: exactly, and without a window that ends during a test.
const counted = "limits: [{rate: 1000000/year, algorithm: fixed_window}]"

const baseConfig = `
listen: {gateway: "127.0.0.1:0", http: "127.0.0.1:0", grpc: "127.0.0.1:0", admin: "127.0.0.1:0"}
rules: {file: rules.yaml}
store: {memory: {max_bytes: 16MiB}}
log: {decisions: none}
admin: {token: "` + operatorToken + `", viewer_token: "` + viewerToken + `"}
`

const (
	operatorToken = "the-token-of-an-operator-in-tests"
	viewerToken   = "the-token-of-a-viewer-in-tests"
)

// unhurried gives time to machines that are busy with other things, where a test is not about that.
func (s setup) unhurried() (env []string) {
	for _, timeout := range []string{"dial", "read_header"} {
		if !strings.Contains(s.config, timeout+":") {
			env = append(env, "PENSTOCK_GATEWAY_TIMEOUTS_"+strings.ToUpper(timeout)+"=60s")
		}
	}
	return append(env, fmt.Sprint("PENSTOCK_LISTEN_CLIENT_SHARE=", cmp.Or(s.share, 100)))
}

// start runs a node and returns when it says where it is. It ends with the test.
func start(t *testing.T, s setup) *node {
	t.Helper()
	if s.rules == "" {
		s.rules = "rules: [{name: all, key: [], " + counted + "}]"
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), s.rules)
	write(t, filepath.Join(dir, "penstock.yaml"), baseConfig+s.config)
	script := `exec "$0" serve --config penstock.yaml`
	if s.files > 0 {
		script = fmt.Sprintf("ulimit -n %d; %s", s.files, script)
	}
	cmd := exec.Command("sh", "-c", script, program)
	cmd.Dir = dir // and it keeps its data there
	cmd.Env = slices.Concat(os.Environ(), []string{"HOME=" + dir, "XDG_DATA_HOME=" + dir}, s.unhurried(), s.env)
	p := nodetest.StartProcess(t, cmd, filepath.Join(dir, "log"))
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	return &node{
		t: t, cmd: cmd, process: p.Process, log: p.Log, addresses: p.Addresses,
		client: &http.Client{Transport: transport, Timeout: 2 * patience},
	}
}

func (n *node) url(door, path string) string { return "http://" + n.addresses[door] + path }

// status asks for a path and returns the answer's status, 0 if there is none.
func (n *node) status(door, path string) int {
	res, err := n.client.Get(n.url(door, path))
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// used returns how much of a rule's limit a client has used. It charges nothing.
func (n *node) used(rule string, attributes map[string]string) int {
	n.t.Helper()
	body, err := json.Marshal(map[string]any{"attributes": attributes, "cost": 0})
	if err != nil {
		n.t.Fatal(err)
	}
	res, err := n.client.Post(n.url("http", "/v1/check"), "application/json", bytes.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	defer res.Body.Close()
	var verdict struct {
		Limits []struct {
			Rule string
			Used int
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&verdict); err != nil || res.StatusCode != http.StatusOK {
		n.t.Fatalf("check %s: status %d, %v", body, res.StatusCode, err)
	}
	for _, l := range verdict.Limits {
		if l.Rule == rule {
			return l.Used
		}
	}
	n.t.Fatalf("check %s: rule %s is not asked: %+v", body, rule, verdict)
	return 0
}

// isWell checks that the process lives, answers on every listener, and has never exceeded its memory.
func (n *node) isWell(maxMiB int) {
	n.t.Helper()
	if n.process.Exited() {
		n.t.Fatal("the process is gone")
	}
	eventually(n.t, "the doors answer", func() bool {
		return n.status("admin", "/healthz") == 200 && n.status("http", "/healthz") == 200
	})
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.process.Pid()))
	if err != nil {
		n.t.Fatal(err)
	}
	var kB int
	_, after, found := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(after, &kB); !found || err != nil {
		n.t.Fatalf("no VmHWM in %s", status)
	}
	n.t.Logf("memory at its highest: %d MiB", kB>>10)
	if kB>>10 > maxMiB {
		n.t.Errorf("it has held %d MiB, more than %d", kB>>10, maxMiB)
	}
	if log, _ := os.ReadFile(n.log); bytes.Contains(log, []byte("panic")) {
		n.t.Error("it has panicked")
	}
}

// terminate sends SIGTERM; wait returns the exit status.
func (n *node) terminate() {
	n.t.Helper()
	if err := n.process.Signal(syscall.SIGTERM); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) wait() int {
	n.t.Helper()
	select {
	case <-n.process.Done():
		return n.cmd.ProcessState.ExitCode()
	case <-time.After(2 * patience):
		n.t.Fatal("the process does not end")
		return 0
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting for: %s", what)
		}
	}
}

// inParallel calls do for each item, workers at a time.
func inParallel[T any](items []T, workers int, do func(T)) {
	var all sync.WaitGroup
	next := make(chan T)
	for range workers {
		all.Go(func() {
			for item := range next {
				do(item)
			}
		})
	}
	for _, item := range items {
		next <- item
	}
	close(next)
	all.Wait()
}
