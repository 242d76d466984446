package redisstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// A store that is created before Redis is up is unavailable until a ping reaches it.
func TestNewConnectsLater(t *testing.T) {
	server := redistest.Start(t)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	store, err := redisstore.New(redisstore.Options{Addresses: []string{server.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ticket := one(monday, stranger(), charge(algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 3, Window: time.Minute}.MustCompile(), 1))
	var out storage.Outcome
	_, sizeErr := store.Size(t.Context())
	_, clearingsErr := store.Clearings(t.Context())
	for what, err := range map[string]error{
		"take": store.Take(t.Context(), ticket, &out), "settle": store.Settle(t.Context(), settlement(ticket, storage.Release), new(storage.SettleOutcome)),
		"size": sizeErr, "clearings": clearingsErr, "leave": store.Leave(t.Context(), "node"),
	} {
		if !errors.Is(err, storage.ErrNotTaken) {
			t.Errorf("%s before any ping: %v", what, err)
		}
	}
	if err := store.Ping(t.Context()); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("ping without a server: %v", err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := store.Take(t.Context(), ticket, &out); !errors.Is(err, storage.ErrNotTaken) {
		t.Errorf("only a ping connects: %v", err)
	}
	if err := store.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := store.Take(t.Context(), ticket, &out); err != nil || !out.Allowed {
		t.Errorf("after the ping: %v, %+v", err, out)
	}
}

// A store that is closed before it has connected leaves no connection behind.
func TestCloseBeforeConnecting(t *testing.T) {
	store, err := redisstore.New(redisstore.Options{Addresses: []string{redistest.Start(t).Addr}})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := store.Ping(t.Context()); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("ping of a closed store: %v", err)
	}
}
