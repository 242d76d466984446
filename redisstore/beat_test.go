package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// beats returns a function that sends heartbeats to a store that must answer.
func beats(t *testing.T, store *redisstore.Store) func(node, about string) (int, map[string]redisstore.Peer) {
	return func(node, about string) (int, map[string]redisstore.Peer) {
		t.Helper()
		n, peers, err := store.Beat(t.Context(), node, about, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		told := map[string]redisstore.Peer{}
		for _, p := range peers {
			told[p.Name] = p
		}
		if len(told) != len(peers) || len(peers) > redisstore.MaxPeers || told[node].About != about && n <= redisstore.MaxPeers {
			t.Fatalf("%q beats, %d nodes, and is told of %d: %+v", node, n, len(peers), told[node])
		}
		return n, told
	}
}

// Nodes count as long as they send heartbeats, by the server's clock, and their entries expire.
func TestBeat(t *testing.T) {
	server := redistest.Start(t)
	grant(t, server.Addr, aclCommands) // the documented permissions are enough
	store := open(t, redisstore.Options{Addresses: []string{server.Addr}})
	if err := store.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	beat := beats(t, store)
	for i, node := range []string{"a", "b", "b", "c", "a"} {
		n, _ := beat(node, "I am "+node)
		expect(t, "nodes", n, []int{1, 2, 2, 3, 3}[i])
	}
	// One sent its last heartbeat long ago, one is dated days ahead.
	now := strings.Fields(ask(t, server.Addr, "TIME"))[0]
	ask(t, server.Addr, "ZADD", "pen:nodes", "1000", "old", "99999999999", "ahead", now, "d")
	ask(t, server.Addr, "HSET", "pen:{pen:nodes}", "old", "I was", "ahead", "I will be")
	n, told := beat("a", "I am still a")
	expect(t, "nodes", n, 4)
	if len(told) != 4 || told["b"].About != "I am b" || told["d"].About != "" || told["c"].Ago > time.Hour {
		t.Errorf("told %+v", told)
	}
	for _, key := range []string{"pen:nodes", "pen:{pen:nodes}"} {
		if ttl := ask(t, server.Addr, "PTTL", key); strings.HasPrefix(ttl, "-") {
			t.Errorf("TTL %s: %s does not expire", ttl, key)
		}
	}
	said := func(node string) bool { return ask(t, server.Addr, "HEXISTS", "pen:{pen:nodes}", node) == "1" }
	if !said("a") || said("old") || said("ahead") {
		t.Error("what is kept is not what those say who are there")
	}

	if err := store.Leave(t.Context(), "b"); err != nil {
		t.Error(err)
	}
	n, told = beat("a", "")
	if _, there := told["b"]; n != 3 || there || said("b") {
		t.Errorf("one has left, and %d are told: %+v", n, told)
	}
	for _, wrong := range [][2]string{{"", ""}, {strings.Repeat("x", 65), ""}, {"a", strings.Repeat("x", 513)}} {
		if _, _, err := store.Beat(t.Context(), wrong[0], wrong[1], time.Hour); !errors.Is(err, algorithm.ErrInvalid) {
			t.Errorf("a name of %d bytes, about it %d: %v", len(wrong[0]), len(wrong[1]), err)
		}
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Beat(t.Context(), "a", "", time.Hour); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("without a server: %v", err)
	}
	if err := store.Leave(t.Context(), "a"); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("without a server: %v", err)
	}
}

// On a cluster the names and descriptions are in one slot, and so on one server.
func TestBeatOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	for _, addr := range cluster.Addrs {
		grant(t, addr, aclCommands+" "+aclCluster)
	}
	beat := beats(t, open(t, redisstore.Options{Addresses: cluster.Addrs, Mode: redisstore.Cluster}))
	beat("a", "I am a")
	other := open(t, redisstore.Options{Addresses: cluster.Addrs, Mode: redisstore.Cluster})
	if n, told := beats(t, other)("b", "I am b"); n != 2 || told["a"].About != "I am a" {
		t.Errorf("%d nodes: %+v", n, told)
	}
	if err := other.Leave(t.Context(), "b"); err != nil {
		t.Error(err)
	}
	if n, told := beat("a", "I am a"); n != 1 || len(told) != 1 {
		t.Errorf("%d nodes: %+v", n, told)
	}
}

// firstBeat is the script of the versions that only counted, as they send it. It runs on the same Redis
// during a rolling upgrade.
const firstBeat = `local now = tonumber(redis.call('TIME')[1])
local within = tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - within)
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + within, '+inf')
redis.call('PEXPIRE', KEYS[1], within * 2000)
return tostring(redis.call('ZCARD', KEYS[1]))
`

func TestBeatBesideTheFirstVersion(t *testing.T) {
	server := redistest.Start(t)
	grant(t, server.Addr, aclCommands)
	beat := beats(t, open(t, redisstore.Options{Addresses: []string{server.Addr}}))
	first := func(node string) string {
		return ask(t, server.Addr, "EVAL", firstBeat, "1", "pen:nodes", node, "3600")
	}
	beat("new", "I am new")
	if n := first("old"); n != "2" {
		t.Errorf("the first version counts %s nodes", n)
	}
	if n, told := beat("newer", "I am newer"); n != 3 || told["old"].Name == "" || told["old"].About != "" || told["new"].About != "I am new" {
		t.Errorf("%d nodes: %+v", n, told)
	}
	// It drops a name, but does not know descriptions: the next heartbeat removes the description.
	ask(t, server.Addr, "ZADD", "pen:nodes", "1000", "new")
	if n := first("old"); n != "2" {
		t.Errorf("the first version counts %s nodes", n)
	}
	if err := open(t, redisstore.Options{Addresses: []string{server.Addr}}).Leave(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	if n, told := beat("newer", "I am newer"); n != 1 || len(told) != 1 {
		t.Errorf("%d nodes: %+v", n, told)
	}
	if left := ask(t, server.Addr, "HLEN", "pen:{pen:nodes}"); left != "1" {
		t.Errorf("of %s nodes there is something said", left)
	}
}

// Whatever other programs write to these keys, nodes are counted, and listed within bounds.
func TestBeatAmongNonsense(t *testing.T) {
	server := redistest.Start(t)
	grant(t, server.Addr, aclCommands)
	beat := beats(t, open(t, redisstore.Options{Addresses: []string{server.Addr}}))
	now := strings.Fields(ask(t, server.Addr, "TIME"))[0]

	ask(t, server.Addr, "SET", "pen:{pen:nodes}", "no hash")
	if n, told := beat("a", "I am a"); n != 1 || told["a"].About != "I am a" {
		t.Errorf("where there was a string: %d nodes: %+v", n, told)
	}
	long := strings.Repeat("x", 65)
	ask(t, server.Addr, "ZADD", "pen:nodes", now, long, now+".25", "\x00<b>")
	ask(t, server.Addr, "HSET", "pen:{pen:nodes}", "\x00<b>", strings.Repeat("y", 513), long, "long")
	n, told := beat("a", "I am a")
	if _, there := told[long]; n != 3 || there || told["\x00<b>"].About != "" {
		t.Errorf("%d nodes: %+v", n, told)
	}
	for i := range 500 {
		ask(t, server.Addr, "ZADD", "pen:nodes", now, fmt.Sprint("many-", i))
		ask(t, server.Addr, "HSET", "pen:{pen:nodes}", fmt.Sprint("nobody-", i), "I am not there")
	}
	n, _ = beat("a", "I am a")
	expect(t, "nodes", n, 503)
	ask(t, server.Addr, "DEL", "pen:nodes")
	for range 20 { // each sweeps some of the orphaned entries
		n, told = beat("a", "I am a")
	}
	if left := ask(t, server.Addr, "HLEN", "pen:{pen:nodes}"); n != 1 || len(told) != 1 || left != "1" {
		t.Errorf("%d nodes, %d told, of %s there is something said", n, len(told), left)
	}
}
