// Package nodetest holds what tests of the server, the doctor and the commands share.
package nodetest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/redistest"
)

// Timeout is how long a test waits for what must come.
const Timeout = 30 * time.Second

// Unhurried are settings under which a machine that is busy with other things makes no call fail.
var Unhurried = []string{
	"PENSTOCK_GATEWAY_TIMEOUTS_DIAL=30s", "PENSTOCK_GATEWAY_TIMEOUTS_READ_HEADER=30s", "PENSTOCK_GATEWAY_TIMEOUTS_DRAIN=60s",
}

// Eventually waits until something holds.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Timeout); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", Timeout, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Together runs n at once and counts for how many it was true.
func Together(n int, do func(i int) bool) (count int) {
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

// WriteFile replaces a file at once, so that a reader never sees half of it.
func WriteFile(t testing.TB, path, text string) {
	t.Helper()
	temporary := path + ".new"
	if err := os.WriteFile(temporary, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, path); err != nil {
		t.Fatal(err)
	}
}

// RulesFile writes rules to a file of the test.
func RulesFile(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	WriteFile(t, file, text)
	return file
}

// OnRedis is the configuration of a node that shares its limits.
func OnRedis(mode string, addresses ...string) string {
	return fmt.Sprintf("key_secret: 0123456789abcdef0123456789abcdef\nstore: {redis: {mode: %s, addresses: ['%s'], timeout: 20s}}\n",
		mode, strings.Join(addresses, "', '"))
}

// RedisCommand sends a command to Redis and returns the reply.
func RedisCommand(t testing.TB, address string, words ...string) string {
	t.Helper()
	reply, err := redistest.Command(address, words...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// DocumentedRights are the commands that docs/reference/redis.md asks for.
func DocumentedRights(t testing.TB) (rights []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "-@all\n")
	block, _, _ := strings.Cut(rest, "```")
	return strings.Fields(block)
}

// SyncBuffer is a buffer that many may write to.
type SyncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *SyncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *SyncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// A Request is what Send sends.
type Request struct {
	Method, URL, Body string
	Header            []string // names and values in turn; Host sets the host
}

// Send sends a request and returns the response with its body read.
func Send(t testing.TB, client *http.Client, q Request) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(q.Method, q.URL, strings.NewReader(q.Body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(q.Header); i += 2 {
		r.Header.Set(q.Header[i], q.Header[i+1])
		if q.Header[i] == "Host" {
			r.Host = q.Header[i+1]
		}
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Error(err)
		return &http.Response{Header: http.Header{}}, ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	return answer, string(text)
}
