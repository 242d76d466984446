package blocks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine/blocklist"
	"github.com/penstock-io/penstock/internal/blocks"
	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/pgtest"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/ruleredis"
)

const secret = "the secret of all nodes in the tests"

func open(t *testing.T, o blocks.Options) *blocks.Set {
	t.Helper()
	s := blocks.Open(o)
	t.Cleanup(s.Close)
	return s
}

func block(value string) blocklist.Block {
	return blocklist.Block{Attribute: "user", Value: value, Reason: "scraper", Author: "ann"}
}

// add blocks a user. On a busy machine, other nodes may know of it later.
func add(t *testing.T, s *blocks.Set, value string) blocklist.Block {
	t.Helper()
	b, _, err := s.Add(t.Context(), block(value), time.Hour)
	if err != nil {
		t.Fatalf("block %s: %v", value, err)
	}
	return b
}

func lift(t *testing.T, s *blocks.Set, value string) {
	t.Helper()
	lifted, _, err := s.Lift(t.Context(), byValue(value), "bob")
	if err != nil || len(lifted) != 1 || lifted[0].LiftedBy != "bob" || enforces(s, value) {
		t.Fatalf("lifted %+v, %v", lifted, err)
	}
}

func byValue(value string) func(*blocklist.Block) bool {
	return func(b *blocklist.Block) bool { return b.Value == value }
}

// enforces reports whether a node denies the requests of a user.
func enforces(s *blocks.Set, user string) bool {
	b := s.List().Find(&penstock.Call{Attributes: []penstock.Attribute{{Name: "user", Value: user}}})
	return b != nil && b.Holds(time.Now())
}

func redisPlace(t *testing.T, addr, secret string) *ruleredis.Blocks {
	t.Helper()
	p, err := ruleredis.NewBlocks(ruleredis.Options{Addresses: []string{addr}, Timeout: time.Minute}, secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func databasePlace(t *testing.T, source string) *ruledb.Blocks {
	t.Helper()
	origin, err := ruledb.NewOrigin(source, ruledb.Options{Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { origin.Close() })
	return &ruledb.Blocks{Origin: origin}
}

// What one node blocks or lifts, every other one enforces, through each place.
func TestNodesShareBlocks(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		server := redistest.Start(t)
		testSharing(t, func(t *testing.T) blocks.Place { return redisPlace(t, server.Addr, secret) })
	})
	t.Run("cluster", func(t *testing.T) {
		skipUnlessLong(t)
		cluster := redistest.StartCluster(t, 3)
		testSharing(t, func(t *testing.T) blocks.Place {
			p, err := ruleredis.NewBlocks(ruleredis.Options{Addresses: []string{cluster.Nodes[0].Addr}, Cluster: true, Timeout: time.Minute}, secret)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			return p
		})
	})
	t.Run("sqlite", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "rules.db")
		testSharing(t, func(t *testing.T) blocks.Place { return databasePlace(t, "sqlite:"+file) })
	})
	t.Run("postgres", func(t *testing.T) {
		skipUnlessLong(t) // e2e shares blocks through PostgreSQL
		source, err := pgtest.Start(t).Database(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		testSharing(t, func(t *testing.T) blocks.Place { return databasePlace(t, source) })
	})
}

func skipUnlessLong(t *testing.T) {
	if os.Getenv("PENSTOCK_TEST_LONG") == "" {
		t.Skip("only with PENSTOCK_TEST_LONG")
	}
}

func testSharing(t *testing.T, newPlace func(*testing.T) blocks.Place) {
	a := open(t, blocks.Options{Places: []blocks.Place{newPlace(t)}})
	b := open(t, blocks.Options{Places: []blocks.Place{newPlace(t)}})
	c := open(t, blocks.Options{Places: []blocks.Place{newPlace(t)}})
	added := add(t, a, "u1")
	if !enforces(a, "u1") {
		t.Fatal("the node that blocks does not enforce it at once")
	}
	for _, other := range []*blocks.Set{b, c} {
		nodetest.Eventually(t, "another node enforces the block", func() bool { return enforces(other, "u1") })
		if got := other.InForce(); len(got) != 1 || got[0] != added {
			t.Fatalf("another node has %+v, want %+v", got, added)
		}
	}
	again := add(t, b, "u1") // replaces the first
	for _, s := range []*blocks.Set{a, c} {
		nodetest.Eventually(t, "the block is replaced", func() bool { return slices.Equal(s.InForce(), []blocklist.Block{again}) })
	}
	lift(t, c, "u1")
	for _, s := range []*blocks.Set{a, b} {
		nodetest.Eventually(t, "the block is lifted everywhere", func() bool { return !enforces(s, "u1") && len(s.InForce()) == 0 })
	}
	if _, _, err := a.Lift(t.Context(), byValue("u1"), "bob"); !errors.Is(err, blocks.ErrNotFound) {
		t.Errorf("lifted twice: %v", err)
	}
	add(t, a, "u2")
	late := open(t, blocks.Options{Places: []blocks.Place{newPlace(t)}})
	nodetest.Eventually(t, "a new node enforces the blocks", func() bool { return enforces(late, "u2") })
	if enforces(late, "u1") {
		t.Error("a new node enforces a lifted block")
	}
}

// A block holds on the node that adds it while Redis is down, and on the others when it is back. Redis that lost
// everything gets the blocks again.
func TestBlocksSurviveRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := open(t, blocks.Options{Places: []blocks.Place{redisPlace(t, server.Addr, secret)}})
	b := open(t, blocks.Options{Places: []blocks.Place{redisPlace(t, server.Addr, secret)}})
	add(t, a, "before")
	nodetest.Eventually(t, "the other node knows it", func() bool { return enforces(b, "before") })
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	_, unshared, err := a.Add(t.Context(), block("during"), time.Hour)
	if err != nil || len(unshared) != 1 || !errors.Is(unshared[0], penstock.ErrUnavailable) && !strings.Contains(unshared[0].Error(), "no answer") {
		t.Fatalf("while Redis is down: %v, %v", unshared, err)
	}
	if !enforces(a, "before") || !enforces(a, "during") || !enforces(b, "before") {
		t.Error("blocks are not enforced while Redis is down")
	}
	if err := server.Restart(); err != nil { // it has lost its data
		t.Fatal(err)
	}
	nodetest.Eventually(t, "the other node learns of it", func() bool { return enforces(b, "during") })
	late := open(t, blocks.Options{Places: []blocks.Place{redisPlace(t, server.Addr, secret)}})
	nodetest.Eventually(t, "Redis has all blocks again", func() bool { return enforces(late, "before") && enforces(late, "during") })
}

// A database that was down does not bring back what was lifted in Redis meanwhile.
func TestLiftedBlocksStayLifted(t *testing.T) {
	t.Parallel()
	server, source := redistest.Start(t), "sqlite:"+filepath.Join(t.TempDir(), "rules.db")
	both := open(t, blocks.Options{Places: []blocks.Place{redisPlace(t, server.Addr, secret), databasePlace(t, source)}})
	add(t, both, "u1")
	nodetest.Eventually(t, "the database has it", func() bool {
		there, err := databasePlace(t, source).Read(t.Context())
		return err == nil && len(there) == 1
	})
	both.Close()
	redis := open(t, blocks.Options{Places: []blocks.Place{redisPlace(t, server.Addr, secret)}})
	nodetest.Eventually(t, "a node without the database knows it", func() bool { return enforces(redis, "u1") })
	lift(t, redis, "u1")
	again := databasePlace(t, source)
	open(t, blocks.Options{Places: []blocks.Place{again, redisPlace(t, server.Addr, secret)}})
	nodetest.Eventually(t, "the database learns that it was lifted", func() bool {
		there, err := again.Read(t.Context())
		return err == nil && len(there) == 1 && there[0].LiftedBy == "bob"
	})
	if enforces(redis, "u1") {
		t.Error("it is enforced again")
	}
}

// A node that starts while everything is down enforces the blocks of its last run.
func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "blocks.json")
	first := open(t, blocks.Options{File: file})
	add(t, first, "u1")
	add(t, first, "u2")
	lift(t, first, "u2")
	want := first.InForce()
	first.Close()
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: others may read who is blocked", info.Mode(), err)
	}
	second := open(t, blocks.Options{File: file})
	if got := second.InForce(); !slices.Equal(got, want) || !enforces(second, "u1") || enforces(second, "u2") {
		t.Errorf("after a restart %+v, want %+v", got, want)
	}
	for _, text := range []string{"", "{", `[{"id": 1}]`, `[{"id": "x", "attribute": "user", "value": "u1", "until": "2099-01-01T00:00:00Z"}]`} {
		nodetest.WriteFile(t, file, text)
		if got := open(t, blocks.Options{File: file}).InForce(); len(got) > 0 {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
	_, unshared, err := open(t, blocks.Options{File: filepath.Join(t.TempDir(), "none", "blocks.json")}).Add(t.Context(), block("u1"), time.Hour)
	if err != nil || len(unshared) != 1 || !strings.Contains(unshared[0].Error(), "a restart would forget them") {
		t.Errorf("a directory that is not there: %v, %v", unshared, err)
	}
}

// A memory is a place in memory, for tests of time and order.
type memory struct {
	mu  sync.Mutex
	all map[string]blocklist.Block
}

func (m *memory) String() string { return "memory" }

func (m *memory) Read(context.Context) (found []blocklist.Block, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.all {
		found = append(found, b)
	}
	return found, nil
}

func (m *memory) Write(_ context.Context, put []blocklist.Block, drop []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range put {
		if have, ok := m.all[b.ID]; !ok || have.LiftedBy == "" {
			m.all[b.ID] = b
		}
	}
	for _, id := range drop {
		delete(m.all, id)
	}
	return nil
}

// Blocks end by themselves, and places forget them an hour later.
func TestBlocksEnd(t *testing.T) {
	var mu sync.Mutex
	now := time.Date(2026, 11, 16, 3, 0, 0, 0, time.UTC)
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	advance := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
	shared := &memory{all: map[string]blocklist.Block{}}
	s := open(t, blocks.Options{Places: []blocks.Place{shared}, Now: clock})
	b := add(t, s, "u1")
	if b.Until != clock().Add(time.Hour) {
		t.Errorf("it ends at %v", b.Until)
	}
	there := func() int {
		found, _ := shared.Read(t.Context())
		return len(found)
	}
	advance(time.Hour)
	if got := s.InForce(); len(got) > 0 {
		t.Errorf("after its end %+v is in force", got)
	}
	late := open(t, blocks.Options{Places: []blocks.Place{shared}, Now: clock})
	add(t, late, "u2")
	nodetest.Eventually(t, "the place has both", func() bool { return there() == 2 })
	if got := late.InForce(); len(got) != 1 {
		t.Errorf("a block that has ended was taken over: %+v", got)
	}
	advance(time.Hour + time.Second)
	nodetest.Eventually(t, "the place forgets what ended an hour ago", func() bool { return there() == 1 })
}

// Whatever the order in which nodes block, lift and exchange, they agree in the end, and nothing lifted comes back.
func TestNodesAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(51, 0)) // fixed
	for range 20 {
		synctest.Test(t, func(t *testing.T) { agree(t, random) })
	}
}

func agree(t *testing.T, random *rand.Rand) {
	shared := []*memory{{all: map[string]blocklist.Block{}}, {all: map[string]blocklist.Block{}}}
	var nodes []*blocks.Set
	for i := range 4 {
		places := []blocks.Place{shared[0], shared[1]}[i%2 : 1+max(i%2, random.IntN(2))]
		nodes = append(nodes, blocks.Open(blocks.Options{Places: places}))
	}
	nodes = append(nodes, blocks.Open(blocks.Options{Places: []blocks.Place{shared[0], shared[1]}}))
	lifted := map[string]bool{}
	for range 30 {
		s, user := nodes[random.IntN(len(nodes))], fmt.Sprint("u", random.IntN(4))
		if random.IntN(2) == 0 {
			add(t, s, user)
			continue
		}
		gone, _, err := s.Lift(t.Context(), byValue(user), "bob")
		if err != nil && !errors.Is(err, blocks.ErrNotFound) {
			t.Fatal(err)
		}
		for _, b := range gone {
			lifted[b.ID] = true
		}
	}
	nodetest.Eventually(t, "all nodes agree", func() bool {
		first := nodes[0].InForce()
		return !slices.ContainsFunc(nodes, func(s *blocks.Set) bool { return !slices.Equal(s.InForce(), first) })
	})
	for _, b := range nodes[0].InForce() {
		if lifted[b.ID] {
			t.Errorf("%+v was lifted", b)
		}
	}
	for _, s := range nodes {
		s.Close()
	}
}

// The number of blocks is bounded. A key that is blocked already can be blocked again, and lifting makes room. Lifted
// blocks that are remembered never keep an operator from blocking.
func TestBlocksAreBounded(t *testing.T) {
	var kept []blocklist.Block
	for i := range 4 * blocklist.MaxBlocks {
		b := block(fmt.Sprint("u", i))
		b.ID, b.From, b.Until = fmt.Sprint("id", i), time.Now(), time.Now().Add(time.Hour)
		if i >= blocklist.MaxBlocks {
			b.LiftedBy = "bob"
		}
		kept = append(kept, b)
	}
	text, err := json.Marshal(kept)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "blocks.json")
	nodetest.WriteFile(t, file, string(text))
	s := open(t, blocks.Options{File: file})
	if _, _, err := s.Add(t.Context(), block("more"), time.Hour); !errors.Is(err, blocks.ErrFull) {
		t.Errorf("one more than there may be: %v", err)
	}
	add(t, s, "u7")
	lift(t, s, "u8")
	add(t, s, "more")
	if n := len(s.InForce()); n != blocklist.MaxBlocks || !enforces(s, "more") || !enforces(s, "u7") || enforces(s, "u8") {
		t.Errorf("%d are in force", n)
	}
	if _, _, err := s.Add(t.Context(), blocklist.Block{Attribute: "user", Value: "u7", Author: "ann"}, time.Hour); err == nil || !strings.Contains(err.Error(), "reason has 0 bytes") {
		t.Errorf("without a reason: %v", err)
	}
}

// With the documented rights blocks are shared, and nothing that identifies a client can be read in Redis.
func TestBlocksInRedisArePrivate(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	nodetest.RedisCommand(t, server.Addr, append([]string{"ACL", "SETUSER", "penstock", "on", ">pw", "~pen:*", "-@all"}, nodetest.DocumentedRights(t)...)...)
	place, err := ruleredis.NewBlocks(ruleredis.Options{Addresses: []string{server.Addr}, Username: "penstock", Password: "pw", Timeout: time.Minute}, secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(place.Close)
	s := open(t, blocks.Options{Places: []blocks.Place{place}})
	add(t, s, "sk_live_secret")
	nodetest.Eventually(t, "Redis has the block", func() bool { return nodetest.RedisCommand(t, server.Addr, "HLEN", "pen:blocks") == "2" })
	there := nodetest.RedisCommand(t, server.Addr, "HGETALL", "pen:blocks")
	if !strings.Contains(there, "version") || strings.Contains(there, "sk_live") || strings.Contains(there, "scraper") || strings.Contains(there, "ann") {
		t.Errorf("Redis has %q", there)
	}
	if ttl := nodetest.RedisCommand(t, server.Addr, "TTL", "pen:blocks"); len(ttl) < 6 {
		t.Errorf("the time to live is %s", ttl)
	}
	other := redisPlace(t, server.Addr, "another secret than the other nodes")
	if found, err := other.Read(t.Context()); err == nil || len(found) > 0 || !strings.Contains(err.Error(), "1 of 1 cannot be decrypted: every node needs the same key_secret") {
		t.Errorf("with another secret: %v, %v", found, err)
	}
	nodetest.RedisCommand(t, server.Addr, "HSET", "pen:blocks", "version", "x", "damaged", "", "damaged2", "Bzzz")
	if found, err := redisPlace(t, server.Addr, secret).Read(t.Context()); err == nil || len(found) != 1 {
		t.Errorf("with damaged fields: %v, %v", found, err)
	}
}
