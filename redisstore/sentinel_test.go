package redisstore_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// With Sentinel a store finds the master, decides exactly, and follows a failover.
func TestSentinel(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	for _, server := range sentinel.Servers {
		grant(t, server.Addr, aclCommands+" "+aclSentinel)
	}
	store := open(t, redisstore.Options{
		Addresses: sentinel.Addrs, Mode: redisstore.Sentinel, Master: redistest.MasterName,
	})
	exact := func() {
		t.Helper()
		for _, m := range eachKind(time.Hour) {
			who := stranger()
			expect(t, m.String()+": calls that passed", count(10, func(int) bool { return hit(t, store, monday, who, m) }), 3)
		}
	}
	exact()
	remembered, m := stranger(), eachKind(time.Hour)[0]
	for range 3 {
		hit(t, store, monday, remembered, m)
	}
	banned := one(monday, stranger(), charge(m, 1))
	banned.Groups[0].Penalty = penaltyOf(3, time.Minute, time.Hour)
	until, err := store.Ban(t.Context(), &storage.Ban{Now: monday, Subject: banned.Groups[0].Subject, Penalty: banned.Groups[0].Penalty, Length: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	reserved := guarded(monday, stranger(), charge(m, 2))
	take(t, store, reserved)
	// What the replica has not received is lost with the master, so wait until it has received this.
	await(t, "the replica to follow", func() bool {
		return ask(t, sentinel.Servers[1].Addr, "EXISTS", redisstore.SubjectKey(prefix, remembered), theValue(banned), theValue(reserved)) == "3"
	})

	ask(t, sentinel.Addrs[0], "SENTINEL", "FAILOVER", redistest.MasterName)
	await(t, "another master", func() bool {
		now, err := redistest.CurrentMaster(sentinel.Addrs[0])
		return err == nil && now != sentinel.Master
	})
	// The old master would keep answering for a while, and each of the store's two clients follows in its
	// own time.
	if err := sentinel.Servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, "calls to be answered by the new master", func() bool {
		var failed atomic.Int64
		call := func(int) {
			err := store.Take(t.Context(), one(monday, stranger(), charge(m, 1)), new(storage.Outcome))
			if err != nil && !errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("during the failover: %v", err)
			}
			if err != nil {
				failed.Add(1)
			}
		}
		atOnce(16, call)
		store.SlowPace() // waits for the runs to end
		call(0)          // alone, and so by the other client
		return failed.Load() == 0
	})
	exact() // the new master does not know the script
	if hit(t, store, monday, remembered, m) {
		t.Error("the failover forgot a spent subject that had been replicated")
	}
	if got := take(t, store, banned).Groups[0].BannedUntil; got != until {
		t.Errorf("banned until %d after the failover, want %d", got, until)
	}
	if !take(t, store, reserved).Groups[0].Replay {
		t.Error("the failover forgot a call that had been replicated")
	}
	if out := settle(t, store, settlement(reserved, storage.Release)); !out.Allowed || out.Again {
		t.Errorf("a reservation after the failover: %+v", out)
	}
}
