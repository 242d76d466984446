package redisstore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// Every failure of a real server has its kind, and Ping fails where decisions would.
func TestKinds(t *testing.T) {
	server := redistest.Start(t)
	m := spacious()
	for _, test := range []struct {
		want    redisstore.Kind
		down    bool
		timeout time.Duration // 0: longer than a slow machine needs
		spoil   func() error
		mend    func() error
	}{
		{want: redisstore.KindOutOfMemory, down: true,
			spoil: func() error { ask(t, server.Addr, "CONFIG", "SET", "maxmemory", "1"); return nil },
			mend:  func() error { ask(t, server.Addr, "CONFIG", "SET", "maxmemory", "0"); return nil }},
		{want: redisstore.KindReadOnly, down: true,
			spoil: func() error { ask(t, server.Addr, "REPLICAOF", "127.0.0.1", "1"); return nil },
			mend:  func() error { ask(t, server.Addr, "REPLICAOF", "NO", "ONE"); return nil }},
		{want: redisstore.KindMasterDown, down: true,
			spoil: func() error {
				ask(t, server.Addr, "CONFIG", "SET", "replica-serve-stale-data", "no")
				ask(t, server.Addr, "REPLICAOF", "127.0.0.1", "1")
				return nil
			},
			mend: func() error { ask(t, server.Addr, "REPLICAOF", "NO", "ONE"); return nil }},
		{want: redisstore.KindTimeout, timeout: 100 * time.Millisecond, spoil: server.Pause, mend: server.Resume},
		{want: redisstore.KindRefused, down: true, spoil: server.Kill, mend: server.Restart},
	} {
		limit := cmp.Or(test.timeout, time.Minute)
		store := dial(t, redisstore.Options{Addresses: []string{server.Addr}, Timeout: limit, ConnectTimeout: time.Minute})
		recovers(t, store, m)
		if err := store.Ping(t.Context()); err != nil {
			t.Errorf("before %s: %v", test.want, err)
		}
		if err := test.spoil(); err != nil {
			t.Fatal(err)
		}
		var kind redisstore.Kind
		var who storage.Subject
		await(t, "the failure "+string(test.want), func() bool { // a killed server loses the connections first
			who = stranger()
			err := fails(t, store, t.Context(), who, m)
			kind = redisstore.KindOf(err)
			if proven := errors.Is(err, storage.ErrNotTaken); proven != (kind != redisstore.KindTimeout && kind != redisstore.KindLost) {
				t.Errorf("%q proves that nothing was charged: %v", kind, proven)
			}
			return kind == test.want || kind != redisstore.KindLost
		})
		if kind != test.want || kind.Down(redisstore.Single) != test.down || kind.Down(redisstore.Cluster) {
			t.Errorf("it is %q, down %v, not %q", kind, kind.Down(redisstore.Single), test.want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		await(t, "a ping to fail otherwise", func() bool { // its own connections may be lost first, too
			kind = redisstore.KindOf(store.Ping(ctx))
			return kind != redisstore.KindLost
		})
		if kind == "" || kind.Down(redisstore.Single) != test.down {
			t.Errorf("ping while it is %q: %q", test.want, kind)
		}
		cancel()
		if err := test.mend(); err != nil {
			t.Fatal(err)
		}
		await(t, "a ping after "+string(test.want), func() bool { return store.Ping(t.Context()) == nil })
		if n := number(t, server.Addr, "EXISTS", redisstore.SubjectKey("pen:", who)); test.want != redisstore.KindTimeout && n != 0 {
			t.Errorf("after %q, which proves that nothing was charged, there is a counter", test.want)
		}
	}
}

func TestKindsThatBlameNobody(t *testing.T) {
	for _, err := range []error{
		nil,
		fmt.Errorf("%w ticket", algorithm.ErrInvalid),
		errors.New("not of a store"),
		fmt.Errorf("redis: %w: %w", storage.ErrUnavailable, context.Canceled),
	} {
		if kind := redisstore.KindOf(err); kind != "" {
			t.Errorf("%v is %q", err, kind)
		}
	}
	for err, want := range map[error]redisstore.Kind{
		storage.ErrCorrupt: redisstore.KindCorrupt, storage.ErrUnavailable: redisstore.KindOther,
	} {
		if kind := redisstore.KindOf(err); kind != want || kind.Down(redisstore.Single) {
			t.Errorf("%v is %q, not %q", err, kind, want)
		}
	}
}

// No request waits longer than the store's timeout, not even for connections that others make or for runs
// that others have joined. All return while the server is silent, although a connection would have an hour.
func TestTimeoutIsOfTheCall(t *testing.T) {
	server := redistest.Start(t)
	store := dial(t, redisstore.Options{Addresses: []string{server.Addr}, Timeout: 10 * time.Millisecond, ConnectTimeout: time.Hour})
	m := spacious()
	recovers(t, store, m)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	cancellable, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, ctx := range []context.Context{context.Background(), cancellable} {
		for _, callers := range []int{1, 1, 64, 1, 64} { // the later ones find no connection
			var back atomic.Int64
			go atOnce(callers, func(int) {
				defer back.Add(1)
				var out storage.Outcome
				if err := store.Take(ctx, one(0, stranger(), charge(m, 1)), &out); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v does not wrap DeadlineExceeded", err)
				}
			})
			await(t, "all callers to come back", func() bool { return back.Load() == int64(callers) })
		}
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	recovers(t, store, m)
}

// On a cluster, the master that a ping reaches answers it, and the ping fails if that master does.
func TestPingOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2)
	store := dial(t, redisstore.Options{Addresses: cluster.Addrs, Mode: redisstore.Cluster})
	for range 20 {
		if err := store.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.Nodes[0].Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, "pings that come to the one and to the other", func() bool {
		var well, ill bool
		for range 20 {
			err := store.Ping(t.Context())
			well, ill = well || err == nil, ill || err != nil
		}
		return well && ill
	})
}
