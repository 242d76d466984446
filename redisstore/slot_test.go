package redisstore_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// The computed slot of a subject is the one Redis uses, for every key of the subject and any prefix.
func TestSlots(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	cluster := redistest.StartCluster(t, 1)
	r := rand.New(rand.NewPCG(3, 4))
	var lists []*algorithm.Meter
	for _, m := range eachKind(time.Hour) {
		if !m.Kind.Fixed() {
			lists = append(lists, m)
		}
	}
	for i := range 1000 {
		var who storage.Subject
		for j := range who {
			who[j] = byte(r.Uint32())
		}
		keys := []string{redisstore.SubjectKey(prefix, who)}
		if i%10 == 0 {
			keys = append(keys, redisstore.SubjectKey("another:prefix-", who))
			for _, m := range lists {
				keys = append(keys, redisstore.ListKey(prefix, who, m))
			}
		}
		for _, key := range keys {
			if slot := number(t, cluster.Addrs[0], "CLUSTER", "KEYSLOT", key); slot != redisstore.SlotOf(who) {
				t.Fatalf("key %q: slot %d, we think %d", key, slot, redisstore.SlotOf(who))
			}
		}
	}
}

// Subjects that happen to share a slot are decided together, in one run.
func TestSubjectsOfOneSlot(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 1)
	store := dial(t, redisstore.Options{Addresses: cluster.Addrs, Mode: redisstore.Cluster})
	m := eachKind(time.Hour)[0]
	a, b := stranger(), stranger()
	for redisstore.SlotOf(a) != redisstore.SlotOf(b) {
		b = stranger()
	}
	ticket := one(monday, a, charge(m, 1))
	ticket.Groups = append(ticket.Groups, storage.Group{Subject: b, Charges: ticket.Groups[0].Charges})
	if !take(t, store, ticket).Allowed || used(t, store, monday, b, m) != 1 {
		t.Error("subjects of one slot: denied, or not charged")
	}
	expect(t, "keys of what could be undone", len(keysOf(t, cluster.Addrs[0], a))+len(keysOf(t, cluster.Addrs[0], b)), 2)
}

// A node whose clock is far from that of Redis cannot determine the calendar period, and gets an error.
func TestCalendarOfAnotherTime(t *testing.T) {
	_, store := serve(t)
	if err := checkDates(store); err != nil {
		t.Error(err)
	}
}
