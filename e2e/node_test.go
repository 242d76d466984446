package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/penstock-io/penstock/client"
	"github.com/penstock-io/penstock/client/grpcclient"
	"github.com/penstock-io/penstock/internal/child"
	"github.com/penstock-io/penstock/internal/nodetest"
)

const adminToken = "token-of-the-admin-door"

// common is the configuration of every node. Whatever else a test wants comes after it.
const common = `
listen: {gateway: "127.0.0.1:0", http: "127.0.0.1:0", grpc: "127.0.0.1:0", admin: "127.0.0.1:0", hosts: [penstock.test]}
admin: {token: ` + adminToken + `}
key_secret: 0123456789abcdef0123456789abcdef
trusted_proxies: [127.0.0.1]
`

// A node is a penstock process.
type node struct {
	t         *testing.T
	dir       string            // where it runs and keeps its files
	addresses map[string]string // host:port of each listener
	cmd       *exec.Cmd
	process   *child.Process
	http      *client.HTTP
	grpc      *grpcclient.Client
}

// start runs a node until the test ends. Its configuration is what all have and the given parts.
func start(t *testing.T, parts ...string) *node {
	t.Helper()
	return startIn(t, t.TempDir(), parts...)
}

// startIn starts a node in the directory of an earlier one.
func startIn(t *testing.T, dir string, parts ...string) *node {
	t.Helper()
	config := writeFile(t, filepath.Join(dir, "penstock.yaml"), common+strings.Join(parts, "\n"))
	return launch(t, dir, "serve", "--config", config)
}

// launch runs the program with the arguments, and returns when it is ready for requests.
func launch(t *testing.T, dir string, args ...string) *node {
	t.Helper()
	return launchCommand(t, dir, command(dir, args...))
}

func launchCommand(t *testing.T, dir string, c *exec.Cmd) *node {
	t.Helper()
	p := nodetest.StartProcess(t, c, filepath.Join(dir, "log"))
	t.Cleanup(browser.CloseIdleConnections) // another node may get its ports
	n := &node{t: t, dir: dir, addresses: p.Addresses, cmd: c, process: p.Process}
	eventually(t, "it is ready", func() bool { return n.get("admin", "/readyz").StatusCode == http.StatusOK })
	n.connect()
	return n
}

// command is the program, with nothing of this process's environment that could configure it.
func command(dir string, args ...string) *exec.Cmd {
	c := exec.Command(program, args...)
	c.Dir, c.Env = dir, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, nodetest.Unhurried...)
	return c
}

// connect makes the clients.
func (n *node) connect() {
	var err error
	n.http, err = client.NewHTTP(n.url("http", ""), client.Options{Timeout: patient, OnError: client.Deny})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { n.http.Close() })
	n.grpc, err = grpcclient.New(n.addresses["grpc"], grpcclient.Options{
		Timeout: patient, OnError: client.Deny,
		Dial: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { n.grpc.Close() })
}

func (n *node) url(door, path string) string { return "http://" + n.addresses[door] + path }

// terminate asks the process to end.
func (n *node) terminate() {
	n.t.Helper()
	if err := n.process.Signal(syscall.SIGTERM); err != nil {
		n.t.Fatal(err)
	}
}

// awaitEnd waits until the process has ended. It must have ended cleanly.
func (n *node) awaitEnd() {
	n.t.Helper()
	select {
	case <-n.process.Done():
	case <-time.After(patient):
		n.t.Fatalf("it did not end within %v", patient)
	}
	if code := n.cmd.ProcessState.ExitCode(); code != 0 {
		n.t.Errorf("it ended with status %d: %v", code, n.cmd.ProcessState)
	}
}

// A status is the status that a node reports.
type status struct {
	Ready bool
	Store struct{ Connected bool }
	Rules struct {
		Version  int64
		Checksum string
		FromCopy bool `json:"from_copy"`
		Refused  string
	}
}

func (n *node) status() (s status) {
	n.t.Helper()
	a := n.get("admin", "/v1/status", "Authorization: Bearer "+adminToken)
	if err := json.Unmarshal(a.body, &s); err != nil || a.StatusCode != http.StatusOK {
		n.t.Fatalf("status: %s: %v: %s", a.Status, err, a.body)
	}
	return s
}

// awaitStore waits until decisions are the store's and not a failure policy's.
func (n *node) awaitStore() {
	n.t.Helper()
	eventually(n.t, "it is connected to Redis", func() bool { return n.status().Store.Connected })
}

// together does something n times at once and returns the sum of the results.
func together(n int, do func(i int) int) (sum int) {
	var all sync.WaitGroup
	counts, start := make([]int, n), make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			counts[i] = do(i)
		})
	}
	close(start)
	all.Wait()
	for _, count := range counts {
		sum += count
	}
	return sum
}
