package redisstore_test

import (
	"slices"
	"testing"

	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
)

// Data that a server has confirmed and lost is noticed by every node, once: all of it, or the last writes.
func TestLostDataIsNoticed(t *testing.T) {
	server := redistest.Start(t)
	store := dialHasty(t, redisstore.Options{Addresses: []string{server.Addr}})
	other := dialHasty(t, redisstore.Options{Addresses: []string{server.Addr}})
	check := func(what string, s *redisstore.Store, node string, want ...redisstore.MarkLoss) {
		t.Helper()
		if lost, err := s.CheckMarks(t.Context(), node); err != nil || !slices.Equal(lost, want) {
			t.Errorf("%s: %s: lost %v, want %v, error %v", what, node, lost, want, err)
		}
	}
	all := redisstore.MarkLoss{}
	for range 3 {
		check("nothing happened", store, "A")
		check("nothing happened", other, "B")
	}
	ask(t, server.Addr, "FLUSHALL")
	check("after FLUSHALL", store, "A", all)
	check("after FLUSHALL", other, "B", all)
	check("told", store, "A")
	check("told", other, "B")

	copied := ask(t, server.Addr, "ZSCORE", "pen:{marks0}", "A")
	check("before a failover", store, "A")
	ask(t, server.Addr, "ZADD", "pen:{marks0}", copied, "A") // a replica that has not received the last write
	check("after a failover", store, "A", redisstore.MarkLoss{Partial: true})
	check("that did not concern others", other, "B")
	if ttl := ask(t, server.Addr, "PTTL", "pen:{marks0}"); ttl != "-1" {
		t.Errorf("the marks expire in %s ms: policies that evict keys with a TTL would evict them", ttl)
	}

	ask(t, server.Addr, "DEL", "pen:{marks0}")
	ask(t, server.Addr, "SET", "pen:{marks0}", "of another application")
	if lost, err := store.CheckMarks(t.Context(), "A"); len(lost) != 0 || err == nil {
		t.Errorf("a foreign key: lost %v, error %v", lost, err)
	}
}

// On a cluster each master has a mark, and the zones of the one that lost data are told.
func TestLostDataOfAMasterIsNoticed(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	store := dialHasty(t, redisstore.Options{Addresses: cluster.Addrs, Mode: redisstore.Cluster})
	for range 2 {
		if lost, err := store.CheckMarks(t.Context(), "A"); err != nil || len(lost) != 0 {
			t.Fatalf("lost %v, error %v", lost, err)
		}
	}
	ask(t, cluster.Addrs[1], "FLUSHALL")
	lost, err := store.CheckMarks(t.Context(), "A")
	if err != nil || len(lost) < 4 || len(lost) > 6 {
		t.Fatalf("of 16 zones on 3 masters lost %v, error %v", lost, err)
	}
	for _, l := range lost {
		if l.Zone < 5 || l.Zone > 10 || l.Partial {
			t.Errorf("lost %v", l)
		}
	}
}
