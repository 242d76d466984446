package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/child"
)

// MasterName is the sentinels' name for the master they watch.
const MasterName = "penstock"

const sentinels = 3

// downAfter, in milliseconds, is when a silent server counts as dead, unless a test calls Hurry. On a busy
// machine a server may get no CPU for seconds, and then the master would not be the one the test expects.
const downAfter = "60000"

// Sentinel is a master and its replica, watched by three sentinels, two of which must agree to fail over.
type Sentinel struct {
	Addrs  []string // of the sentinels
	Master string   // address of the first master; after a failover ask CurrentMaster

	Servers   []*Server // the first master, then its replica
	Sentinels []*Server // in the order of Addrs
}

// LaunchSentinel starts the five servers and returns when every sentinel knows the other two and the
// replica, and the replica follows the master. The context bounds the start only.
func LaunchSentinel(ctx context.Context) (*Sentinel, error) {
	ctx, cancel := context.WithTimeout(ctx, formLimit)
	defer cancel()
	s := &Sentinel{}
	if err := s.form(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("launch a master under Sentinel: %w", err), s.Close())
	}
	return s, nil
}

// StartSentinel is LaunchSentinel for a test, which closes the servers when it ends.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	child.SkipUnit(t)
	s, err := LaunchSentinel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, s.Close)
	return s
}

// Close kills all servers, the sentinels first, and removes their data.
func (s *Sentinel) Close() error { return closeAll(slices.Concat(s.Sentinels, s.Servers)) }

// Hurry makes the sentinels fail over from a master after one second of silence instead of a minute.
func (s *Sentinel) Hurry() error {
	for _, addr := range s.Addrs {
		if _, err := Command(addr, "SENTINEL", "SET", MasterName, "down-after-milliseconds", "1000"); err != nil {
			return err
		}
	}
	return nil
}

// CurrentMaster returns the master's address according to the sentinel at addr.
func CurrentMaster(addr string) (string, error) {
	reply, err := Command(addr, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName)
	if err != nil {
		return "", err
	}
	host, port, found := strings.Cut(reply, "\n")
	if !found {
		return "", fmt.Errorf("ask the sentinel at %s for the master %q: got %q", addr, MasterName, reply)
	}
	return host + ":" + port, nil
}

func (s *Sentinel) form(ctx context.Context) error {
	// A master delays the first sync to wait for more replicas. Without the delay it starts at once.
	master, err := Launch(ctx, "--repl-diskless-sync-delay", "0")
	if err != nil {
		return err
	}
	s.Servers, s.Master = append(s.Servers, master), master.Addr
	port := strconv.Itoa(master.port)
	replica, err := Launch(ctx, "--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", port)
	if err != nil {
		return err
	}
	s.Servers = append(s.Servers, replica)
	// Wait before the sentinels start: they look for replicas at once and then only every ten seconds.
	if err := await(ctx, func() error { return follows(ctx, replica.Addr, master.Addr) }); err != nil {
		return err
	}
	config := "sentinel monitor " + MasterName + " 127.0.0.1 " + port + " 2\n" +
		"sentinel down-after-milliseconds " + MasterName + " " + downAfter + "\n" +
		"sentinel failover-timeout " + MasterName + " 5000\n"
	for range sentinels {
		sentinel, err := launch(ctx, config, "--sentinel")
		if err != nil {
			return err
		}
		s.Sentinels, s.Addrs = append(s.Sentinels, sentinel), append(s.Addrs, sentinel.Addr)
	}
	for _, addr := range s.Addrs {
		if err := await(ctx, func() error { return knowsAll(ctx, addr) }); err != nil {
			return err
		}
	}
	return nil
}

// follows returns nil if the replica is in sync with its master and the master counts it.
func follows(ctx context.Context, replica, master string) error {
	info, err := command(ctx, replica, "INFO", "replication")
	if err != nil {
		return err
	}
	if err := hasLines(info, "master_link_status:up"); err != nil {
		return fmt.Errorf("INFO replication of the replica at %s: %w", replica, err)
	}
	info, err = command(ctx, master, "INFO", "replication")
	if err != nil {
		return err
	}
	if err := hasLines(info, "connected_slaves:1"); err != nil || !strings.Contains(info, "state=online") {
		return fmt.Errorf("the master at %s has no replica online", master)
	}
	return nil
}

// knowsAll returns nil if the sentinel at addr knows the replica and the other sentinels.
func knowsAll(ctx context.Context, addr string) error {
	reply, err := command(ctx, addr, "SENTINEL", "MASTER", MasterName)
	if err != nil {
		return err
	}
	state := strings.Split(reply, "\n") // name, value, name, value
	for name, want := range map[string]string{"num-slaves": "1", "num-other-sentinels": strconv.Itoa(sentinels - 1)} {
		if i := slices.Index(state, name); i < 0 || i+1 == len(state) || state[i+1] != want {
			return fmt.Errorf("the sentinel at %s does not have %s %s yet", addr, name, want)
		}
	}
	return nil
}
