package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
)

// Nodes count as long as they beat, by the server's clock, and what is kept of them expires.
func TestBeat(t *testing.T) {
	server := redistest.Start(t)
	grant(t, server.Addr, aclCommands) // the documented rights are enough
	store := open(t, redisstore.Options{Addresses: []string{server.Addr}})
	if err := store.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	beat := func(node string, within time.Duration) int {
		t.Helper()
		n, err := store.Beat(t.Context(), node, within)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i, node := range []string{"a", "b", "b", "c", "a"} {
		expect(t, "nodes", beat(node, time.Hour), []int{1, 2, 2, 3, 3}[i])
	}
	// One was heard of long ago, one will be in days.
	now := strings.Fields(ask(t, server.Addr, "TIME"))[0]
	ask(t, server.Addr, "ZADD", "pen:nodes", "1000", "old", "99999999999", "ahead", now, "d")
	expect(t, "nodes", beat("a", time.Hour), 4)
	if ttl := ask(t, server.Addr, "PTTL", "pen:nodes"); strings.HasPrefix(ttl, "-") {
		t.Errorf("TTL %s: the key does not expire", ttl)
	}
	for _, node := range []string{"", strings.Repeat("x", 65)} {
		if _, err := store.Beat(t.Context(), node, time.Hour); !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("a name of %d bytes: %v", len(node), err)
		}
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Beat(t.Context(), "a", time.Hour); !errors.Is(err, penstock.ErrUnavailable) {
		t.Errorf("without a server: %v", err)
	}
}
