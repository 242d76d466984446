package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/config"
)

// patient is how long a test waits for what must come.
const patient = 30 * time.Second

// unhurried are settings under which a machine that is busy with other things makes no call fail.
var unhurried = []string{
	"PENSTOCK_GATEWAY_TIMEOUTS_DIAL=30s", "PENSTOCK_GATEWAY_TIMEOUTS_READ_HEADER=30s", "PENSTOCK_GATEWAY_TIMEOUTS_DRAIN=60s",
}

// A node is a server that runs within the test.
type node struct {
	*server
	t      *testing.T
	client *http.Client
	log    *syncBuffer

	stop func()     // begins to drain
	done chan error // what Run returned
}

// startNode runs a server on free ports until the test ends. The configuration comes on top of that.
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
	c, err := config.Load(config.Sources{File: file, Env: unhurried, Flags: flags, Demo: true})
	if err != nil {
		t.Fatal(err)
	}
	return runNode(t, c)
}

func runNode(t *testing.T, c *config.Config) *node {
	t.Helper()
	n := &node{t: t, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: patient}, log: &syncBuffer{}, done: make(chan error, 1)}
	s, err := newServer(t.Context(), c, slog.New(slog.NewJSONHandler(n.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	n.server = s
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

// url is an address within one of the doors.
func (n *node) url(door, path string) string {
	return "http://" + n.door(door).listener.Addr().String() + path
}

// get asks and returns the answer with its body read.
func (n *node) get(url string, header ...string) (*http.Response, string) {
	n.t.Helper()
	return n.send(http.MethodGet, url, "", header...)
}

func (n *node) send(method, url, body string, header ...string) (*http.Response, string) {
	n.t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	answer, err := n.client.Do(r)
	if err != nil {
		n.t.Error(err)
		return &http.Response{Header: http.Header{}}, ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		n.t.Error(err)
	}
	return answer, string(text)
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

// statusNow asks the admin door.
func (n *node) statusNow() (s status) {
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

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patient); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patient, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// together runs n at once and counts for how many it was true.
func together(n int, do func(i int) bool) (count int) {
	var all sync.WaitGroup
	var mu sync.Mutex
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			if do(i) {
				mu.Lock()
				defer mu.Unlock()
				count++
			}
		})
	}
	close(start)
	all.Wait()
	return count
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	temporary := path + ".new"
	if err := os.WriteFile(temporary, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, path); err != nil {
		t.Fatal(err)
	}
}

// syncBuffer is a buffer that many may write to.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
