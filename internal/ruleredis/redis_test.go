package ruleredis

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/rules/live"
)

// never is an interval that ends after any test, so whatever arrives was pushed.
const never = 24 * time.Hour

// The permissions that the package's documentation asks an operator to grant, and no others.
const (
	publisherRights = "resetkeys resetchannels ~pen:rules &pen:rules -@all +hello +ping +eval +hmget +hset +publish"
	nodeRights      = "resetkeys resetchannels %R~pen:rules &pen:rules -@all +hello +ping +hmget +hstrlen +hget +subscribe +unsubscribe"
	clusterRights   = " +cluster|slots +cluster|shards +role"
	password        = "only-in-tests"
)

func grant(t *testing.T, addr, more string) {
	t.Helper()
	for user, rights := range map[string]string{"publisher": publisherRights, "node": nodeRights} {
		args := append([]string{"ACL", "SETUSER", user, "on", ">" + password}, strings.Fields(rights+more)...)
		if reply, err := redistest.Command(addr, args...); err != nil || reply != "OK" {
			t.Fatalf("grant rights on %s: %q, %v", addr, reply, err)
		}
	}
}

func connect(t *testing.T, user string, o Options) *Rules {
	t.Helper()
	if user != "" {
		o.Username, o.Password = user, password
	}
	o.Timeout = time.Minute // a machine may be slow
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func version(n int64) *live.Text {
	document := fmt.Sprintf("rules:\n  - name: v%d\n    key: [ip]\n    limits: [100/1m]\n", n)
	return live.NewText(n, time.Now(), rules.File{Name: fmt.Sprint("version ", n), Data: []byte(document)})
}

func publish(t *testing.T, r *Rules, n int64) {
	t.Helper()
	if err := r.Publish(t.Context(), version(n)); err != nil {
		t.Fatal(err)
	}
}

type node struct {
	*live.Rules
	told chan struct{}
}

func startNode(t *testing.T, o live.Origin, options live.Options) *node {
	t.Helper()
	n := &node{told: make(chan struct{}, 1)}
	options.Changed = func(live.Status) {
		select {
		case n.told <- struct{}{}:
		default:
		}
	}
	options.Timeout = time.Minute
	var err error
	if n.Rules, err = live.Follow(t.Context(), o, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

func (n *node) await(t *testing.T, what string, is func(live.Status) bool) {
	t.Helper()
	giveUp := time.After(time.Minute)
	for !is(n.Status()) {
		select {
		case <-n.told:
		case <-giveUp:
			t.Fatalf("not yet: %s; %+v", what, n.Status())
		}
	}
}

func serves(version int64) func(live.Status) bool {
	return func(s live.Status) bool { return s.Version == version }
}

// Three nodes with the minimum permissions learn of a change: by a message, or by polling if they may not
// subscribe.
func TestNodesLearnWhatIsPublished(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		interval time.Duration
		deaf     bool
	}{{"told", never, false}, {"asking", 20 * time.Millisecond, true}} {
		t.Run(test.name, func(t *testing.T) {
			server := redistest.Start(t)
			more := ""
			if test.deaf {
				more = " -subscribe"
			}
			grant(t, server.Addr, more)
			at := Options{Addresses: []string{server.Addr}}
			publisher := connect(t, "publisher", at)
			publish(t, publisher, 1)
			var nodes []*node
			for range 3 {
				nodes = append(nodes, startNode(t, connect(t, "node", at), live.Options{Interval: test.interval}))
			}
			for n := int64(2); n <= 4; n++ {
				publish(t, publisher, n)
				for _, node := range nodes {
					node.await(t, fmt.Sprint("version ", n), serves(n))
				}
			}
			for _, node := range nodes {
				node.await(t, "whether it listens", func(s live.Status) bool { return (s.PushErr != nil) == test.deaf })
			}
		})
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	for _, addr := range cluster.Addrs {
		grant(t, addr, clusterRights)
	}
	at := Options{Addresses: cluster.Addrs[:1], Cluster: true}
	publisher := connect(t, "publisher", at)
	publish(t, publisher, 1)
	n := startNode(t, connect(t, "node", at), live.Options{Interval: never})
	publish(t, publisher, 2)
	n.await(t, "version 2", serves(2))
}

// A node learns what is published after the master was lost, from the replica that Sentinel promoted.
func TestSentinel(t *testing.T) {
	t.Parallel()
	watched := redistest.StartSentinel(t)
	for _, server := range watched.Servers {
		grant(t, server.Addr, " +role")
	}
	at := Options{Addresses: watched.Addrs, Master: redistest.MasterName}
	publisher := connect(t, "publisher", at)
	publish(t, publisher, 1)
	n := startNode(t, connect(t, "node", at), live.Options{Interval: 20 * time.Millisecond})
	n.await(t, "version 1", serves(1))
	if err := watched.Servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := watched.Hurry(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err := errors.New("not tried"); err != nil; {
		attempt, end := context.WithTimeout(ctx, 2*time.Second)
		err = publisher.Publish(attempt, version(2))
		end()
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	n.await(t, "version 2", serves(2))
}

func TestOlderNeverReplacesNewer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	at := Options{Addresses: []string{server.Addr}}
	r := connect(t, "", at)
	var publishers sync.WaitGroup
	for n := int64(1); n <= 30; n++ {
		publishers.Go(func() {
			if err := r.Publish(t.Context(), version(n)); err != nil && !errors.Is(err, ErrNewer) {
				t.Error(err)
			}
		})
	}
	publishers.Wait()
	text, err := connect(t, "", at).Read(t.Context())
	if err != nil || text.Version != 30 {
		t.Fatalf("%+v, %v; want version 30", text, err)
	}
	err = r.Publish(t.Context(), version(9))
	if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "30; if the database was restored from a backup, delete the key pen:rules") {
		t.Error(err)
	}
	again := live.NewText(30, time.Now(), rules.File{Name: "version 30", Data: []byte("rules: []")})
	if err := r.Publish(t.Context(), again); err != nil {
		t.Error(err)
	}
	if text, err := r.Read(t.Context()); err != nil || !text.Same(again) {
		t.Errorf("%+v, %v; want what the database has under that number", text, err)
	}
}

func TestTextIsFetchedOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := connect(t, "", Options{Addresses: []string{server.Addr}})
	publish(t, r, 1)
	first, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if second, err := r.Read(t.Context()); err != nil || second != first {
		t.Errorf("fetched again: %v", err)
	}
}

func TestWhatIsNotRules(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := connect(t, "", Options{Addresses: []string{server.Addr}})
	command := func(args ...string) {
		t.Helper()
		if _, err := redistest.Command(server.Addr, args...); err != nil {
			t.Fatal(err)
		}
	}
	fails := func(want string) {
		t.Helper()
		if text, err := r.Read(t.Context()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "pen:rules") {
			t.Errorf("read %+v, %v; want %q", text, err, want)
		}
	}
	fails("no rules yet")
	command("HSET", "pen:rules", "version", "x", "text", "hello")
	fails("do not begin with")
	publish(t, r, 1) // this repairs it
	if _, err := r.Read(t.Context()); err != nil {
		t.Error(err)
	}
	command("SET", "pen:rules", "hello")
	fails("WRONGTYPE")
	if err := r.Publish(t.Context(), version(2)); !errors.Is(err, penstock.ErrUnavailable) || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Error(err)
	}
	for _, n := range []int64{-1, 0, maxVersion} {
		if err := r.Publish(t.Context(), version(n)); !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("version %d: %v", n, err)
		}
	}
}

// Redis is down when the node starts, comes up, loses its data, and comes up again.
func TestNodeOutlivesRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	at := Options{Addresses: []string{server.Addr}}
	options := live.Options{LastGood: filepath.Join(t.TempDir(), "last-good"), Interval: 20 * time.Millisecond}
	publisher := connect(t, "", at)
	publish(t, publisher, 1)
	startNode(t, connect(t, "", at), options).Close()

	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := publisher.Publish(t.Context(), version(2)); !errors.Is(err, penstock.ErrUnavailable) {
		t.Errorf("published to a dead server: %v", err)
	}
	if _, err := live.Follow(t.Context(), connect(t, "", at), live.Options{}); !errors.Is(err, penstock.ErrUnavailable) {
		t.Errorf("started from nothing: %v", err)
	}
	n := startNode(t, connect(t, "", at), options)
	if s := n.Status(); !s.FromCopy || s.Version != 1 {
		t.Fatalf("status %+v", s)
	}
	for v := int64(2); v <= 3; v++ {
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		n.await(t, "forgotten", func(s live.Status) bool { return errors.Is(s.Err, live.ErrNoRules) })
		n.await(t, "listening", func(s live.Status) bool { return s.PushErr == nil })
		if got := n.Load().Version; got != v-1 {
			t.Errorf("version %d is served", got)
		}
		for publisher.Publish(t.Context(), version(v)) != nil { // until it has noticed the new server
			time.Sleep(time.Millisecond)
		}
		n.await(t, "published", serves(v))
	}
}

func TestEnds(t *testing.T) { // not in parallel: it looks for goroutines that are left
	server := redistest.Start(t)
	before := goleak.IgnoreCurrent()
	r := connect(t, "", Options{Addresses: []string{server.Addr}})
	publish(t, r, 1)
	n := startNode(t, r, live.Options{})
	n.Close()
	r.Close()
	// Find waits a little itself, and a busy machine takes longer.
	for end := time.Now().Add(time.Minute); goleak.Find(before) != nil && time.Now().Before(end); {
	}
	goleak.VerifyNone(t, before)
	if _, err := r.Read(t.Context()); !errors.Is(err, penstock.ErrUnavailable) {
		t.Errorf("read after Close: %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := New(Options{Addresses: []string{"nowhere", "b:1"}, KeyPrefix: "{", Timeout: -1})
	for _, want := range []string{`address "nowhere"`, "one server has one", `prefix "{"`, "timeout -1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	if _, err := New(Options{}); err == nil {
		t.Error("no address was accepted")
	}
	if _, err := New(Options{Addresses: []string{"a:1"}, Master: "m", Cluster: true}); err == nil {
		t.Error("both Sentinel and Cluster were accepted")
	}
}
