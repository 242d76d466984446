package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// Zones of a cluster are ranges of slots, in order; other modes have one zone.
func TestZones(t *testing.T) {
	const perZone = 16384 / 16
	for range 1000 {
		who := stranger()
		if got, want := redisstore.Cluster.ZoneOf(who), redisstore.SlotOf(who)/perZone; got != want {
			t.Errorf("slot %d is in zone %d, want %d", redisstore.SlotOf(who), got, want)
		}
		if redisstore.Single.ZoneOf(who) != 0 || redisstore.Sentinel.ZoneOf(who) != 0 {
			t.Fatal("there is more than one zone on one server")
		}
	}
	if redisstore.Cluster.Zones() != 16 || redisstore.Single.Zones() != 1 || redisstore.Sentinel.Zones() != 1 {
		t.Error("other numbers of zones")
	}
}

// A silent master is silent in its zones and in no other, and a ticket that needs it says for which subject
// it has failed.
func TestZonesOfASilentMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	store := dial(t, redisstore.Options{Addresses: cluster.Addrs, Mode: redisstore.Cluster, Timeout: 30 * time.Second})
	zones := redisstore.Cluster.Zones()
	for zone := range zones { // this makes the connections
		if err := store.PingZone(t.Context(), zone); err != nil {
			t.Fatal(err)
		}
	}
	for _, zone := range []int{-1, zones} {
		if err := store.PingZone(t.Context(), zone); !errors.Is(err, algorithm.ErrInvalid) {
			t.Errorf("zone %d: got %v", zone, err)
		}
	}
	if err := cluster.Nodes[0].Pause(); err != nil {
		t.Fatal(err)
	}
	for zone := 6; zone < zones; zone++ { // of the other masters, which have the last two thirds of the slots
		if err := store.PingZone(t.Context(), zone); err != nil {
			t.Errorf("zone %d: %v", zone, err)
		}
	}
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := store.PingZone(brief, 0); redisstore.KindOf(err) != redisstore.KindTimeout {
		t.Errorf("the first zone: got %v", err)
	}

	well, silent := inNode(2), inNode(0) // slots are visited in order
	ticket := one(0, well, charge(spacious(), 1))
	ticket.Groups = append(ticket.Groups, one(0, silent, charge(spacious(), 1)).Groups...)
	ctx, giveUp := context.WithCancel(t.Context())
	before, failed := store.Stats().Runs, make(chan error, 1)
	go func() { failed <- store.Take(ctx, ticket, new(storage.Outcome)) }()
	await(t, "the silent one to be asked", func() bool { return store.Stats().Runs > before })
	giveUp()
	err := <-failed
	var named interface{ Subject() storage.Subject }
	if !errors.Is(err, storage.ErrUnavailable) || !errors.As(err, &named) || named.Subject() != silent {
		t.Errorf("a ticket for two masters: %v does not name whose is silent", err)
	}
	if err := cluster.Nodes[0].Resume(); err != nil {
		t.Fatal(err)
	}
}
