package faults

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/client"
	"github.com/penstock-io/penstock/internal/child"
	"github.com/penstock-io/penstock/internal/nodetest"
)

const adminToken = "token-of-the-admin-door"

// A node is a penstock process.
type node struct {
	t       *testing.T
	dir     string
	process *child.Process
	doors   map[string]string // their addresses
	*client.HTTP
}

var _ penstock.Decider = (*node)(nil)

// startNode runs a node in a directory until the test ends. It returns when the node is ready, with or without
// its store.
func startNode(t *testing.T, dir, store, rules string) *node {
	t.Helper()
	config := `
listen: {gateway: "", grpc: "", http: "127.0.0.1:0", admin: "127.0.0.1:0"}
admin: {token: ` + adminToken + `}
key_secret: 0123456789abcdef0123456789abcdef
log: {decisions: none}
` + store + "\n" + rules
	file := filepath.Join(dir, "penstock.yaml")
	must(t, os.WriteFile(file, []byte(config), 0o600))
	cmd := exec.Command(program, "serve", "--config", file)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	p := nodetest.StartProcess(t, cmd, filepath.Join(dir, "log"))
	n := &node{t: t, dir: dir, process: p.Process, doors: p.Addresses}
	eventually(t, "the node is ready", func() bool { return n.get("/readyz", nil) })
	// Every request gets an answer in the end, so errors of the client do not matter.
	var err error
	n.HTTP, err = client.NewHTTP("http://"+n.doors["http"], client.Options{Timeout: patient, OnError: client.Deny, Connections: 256})
	must(t, err)
	t.Cleanup(func() { n.HTTP.Close() })
	return n
}

// ask sends a request to the admin API, over a new connection.
func (n *node) ask(path string) (*http.Response, error) {
	request, err := http.NewRequest(http.MethodGet, "http://"+n.doors["admin"]+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+adminToken)
	request.Close = true
	return (&http.Client{Timeout: patient}).Do(request)
}

// get sends a request to the admin API, and reads its JSON into into, unless that is nil.
func (n *node) get(path string, into any) bool {
	n.t.Helper()
	reply, err := n.ask(path)
	if err != nil {
		return false
	}
	defer reply.Body.Close()
	if into != nil {
		must(n.t, json.NewDecoder(reply.Body).Decode(into))
	}
	return reply.StatusCode == http.StatusOK
}

// connected reports whether the node decides in the shared store.
func (n *node) connected() bool {
	var s struct{ Store struct{ Connected bool } }
	return n.get("/v1/status", &s) && s.Store.Connected
}

// booksAreBalanced reports whether Redis is charged with all requests that the node allowed while it certainly
// did not ask Redis. It fails the test if the node has dropped some.
func (n *node) booksAreBalanced() bool {
	reply, err := n.ask("/metrics")
	if err != nil {
		return false
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	must(n.t, err)
	if !strings.Contains(string(text), "\npenstock_late_charges_dropped_total 0\n") {
		n.t.Fatal("a node has given up on late charges")
	}
	return strings.Contains(string(text), "\npenstock_late_charges_waiting 0\n")
}
