package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/nodetest"
)

// A node is a server that runs in the test process.
type node struct {
	*Server
	t      *testing.T
	client *http.Client
	log    *nodetest.SyncBuffer

	stop func()     // begins to drain
	done chan error // what Run returned
}

// impatient shortens the timeout of Redis, for tests in which it does not answer.
func impatient(yaml string) string { return strings.Replace(yaml, "timeout: 20s", "timeout: 2s", 1) }

// brief are intervals of background work that tests wait for.
var brief = intervals{heartbeat: 50 * time.Millisecond, watch: 50 * time.Millisecond}

// startNode runs a server on free ports until the test ends, with additional configuration.
func startNode(t *testing.T, yaml string) *node {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "penstock.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []config.Flag{
		{Name: "--listen-gateway", Key: "listen.gateway", Value: "127.0.0.1:0"}, {Name: "--listen-http", Key: "listen.http", Value: "127.0.0.1:0"},
		{Name: "--listen-grpc", Key: "listen.grpc", Value: "127.0.0.1:0"}, {Name: "--listen-admin", Key: "listen.admin", Value: "127.0.0.1:0"},
	}
	if !strings.Contains(yaml, "data_dir:") {
		flags = append(flags, config.Flag{Name: "--data-dir", Key: "data_dir", Value: dir})
	}
	c, err := config.Load(config.Sources{File: file, Env: nodetest.Unhurried, Flags: flags, Demo: true})
	if err != nil {
		t.Fatal(err)
	}
	return runNode(t, c)
}

func runNode(t *testing.T, c *config.Config) *node {
	t.Helper()
	n := &node{t: t, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: nodetest.Timeout}, log: &nodetest.SyncBuffer{}, done: make(chan error, 1)}
	s, err := New(t.Context(), Options{Config: c, Log: slog.New(slog.NewJSONHandler(n.log, nil)), Build: admin.Build{Version: "1.2.3"}, intervals: brief})
	if err != nil {
		t.Fatal(err)
	}
	n.Server = s
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.done <- s.Run(ctx)
	}()
	t.Cleanup(func() {
		n.client.CloseIdleConnections()
		stop()
		<-ended
		s.Close()
		if t.Failed() {
			t.Logf("the server's log:\n%s", n.log)
		}
	})
	return n
}

// url returns an address on one of the listeners.
func (n *node) url(name, path string) string {
	return "http://" + n.endpoint(name).listener.Addr().String() + path
}

// get sends a request and returns the response with its body read.
func (n *node) get(url string, header ...string) (*http.Response, string) {
	n.t.Helper()
	return n.send(http.MethodGet, url, "", header...)
}

// check asks the decision API.
func (n *node) check(attributes string) (v struct {
	Allowed   bool
	Rule      string
	Reason    string
	Quality   string
	Remaining int64
}) {
	n.t.Helper()
	answer, body := n.send(http.MethodPost, n.url("http", "/v1/check"), `{"attributes": `+attributes+`}`, "Content-Type", "application/json")
	if answer.StatusCode != http.StatusOK {
		n.t.Errorf("check: %s: %s", answer.Status, body)
	}
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		n.t.Error(err)
	}
	return v
}

// statusNow asks the admin API.
func (n *node) statusNow() (s admin.Status) {
	n.t.Helper()
	answer, body := n.get(n.url("admin", "/v1/status"), "Authorization", "Bearer "+n.token)
	if answer.StatusCode != http.StatusOK {
		n.t.Fatalf("status: %s: %s", answer.Status, body)
	}
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		n.t.Fatal(err)
	}
	return s
}

func (n *node) send(method, url, body string, header ...string) (*http.Response, string) {
	n.t.Helper()
	return nodetest.Send(n.t, n.client, nodetest.Request{Method: method, URL: url, Body: body, Header: header})
}
