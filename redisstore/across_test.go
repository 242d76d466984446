package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// inNode returns a new subject whose slot belongs to the given master of a cluster of three.
func inNode(i int) storage.Subject {
	for {
		if s := stranger(); redisstore.SlotOf(s)*3/16384 == i {
			return s
		}
	}
}

func clusterOf3(t testing.TB, clients int) (*redistest.Cluster, []*redisstore.Store) {
	t.Helper()
	cluster := redistest.StartCluster(t, 3)
	stores := make([]*redisstore.Store, clients)
	for i := range stores {
		stores[i] = dial(t, redisstore.Options{Addresses: cluster.Addrs, Mode: redisstore.Cluster})
	}
	return cluster, stores
}

// acrossTickets plays tickets over subjects in three slots, one after the other, on the store and on the
// model. It compares what must not depend on how a denied request is undone: who passes, and what stays
// charged. The dates of states may differ, because a charge that is undone dates them.
func acrossTickets(store storage.Store, seed uint64, steps int) error {
	r := rand.New(rand.NewPCG(seed, 1))
	model := storetest.NewModel()
	cast := []storage.Subject{inNode(0), inNode(1), inNode(2)}
	meters := append(eachKind(time.Hour),
		algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 3, Window: time.Hour, CountDenied: true, Ordinal: 1}.MustCompile(),
		algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 3, Window: time.Hour, CountDenied: true, Ordinal: 1}.MustCompile())
	penalty, _ := algorithm.PenaltyTerms{After: 3, Within: time.Hour, Bans: []time.Duration{time.Minute, time.Hour}, ForgiveAfter: 2 * time.Hour}.Compile()
	dedup, _ := algorithm.DedupTerms{TTL: time.Hour, MaxReplays: 2, Budget: 3, Beside: algorithm.Limit{Algorithm: algorithm.FixedWindow, Window: time.Hour}}.Compile()
	now := monday
	for i := range steps {
		now += algorithm.Instant(r.Int64N(int64(10 * time.Minute / time.Microsecond)))
		t := &storage.Ticket{Now: now, MaxDelay: algorithm.AnyDelay, Nonce: r.Uint64() | 1}
		for _, k := range r.Perm(len(cast))[:2+r.IntN(2)] {
			g := storage.Group{Subject: cast[k], Alone: r.IntN(8) == 0}
			for _, m := range r.Perm(len(meters))[:1+r.IntN(3)] {
				kind := meters[m].Kind
				overdraw := r.IntN(4) == 0 && !meters[m].CountDenied && kind != algorithm.KindLeaky && kind != algorithm.KindLeases
				g.Charges = append(g.Charges, algorithm.Charge{Meter: meters[m], Cost: r.Int64N(3), Overdraw: overdraw})
			}
			if r.IntN(2) == 0 {
				g.Penalty, g.Dedup, g.Call = penalty, dedup, storage.CallID{1, byte(r.IntN(3))}
			}
			t.Groups = append(t.Groups, g)
		}
		var want, got storage.Outcome
		if err := model.Take(context.Background(), t, &want); err != nil {
			return err
		}
		if err := store.Take(context.Background(), t, &got); err != nil {
			return err
		}
		if w, g := summary(&want), summary(&got); w != g {
			return fmt.Errorf("step %d, %+v:\nmodel %s\nstore %s", i, t, w, g)
		}
	}
	return nil
}

// summary returns the part of an outcome about passing and about what is charged.
func summary(o *storage.Outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v:", o.Allowed)
	for _, g := range o.Groups {
		fmt.Fprintf(&b, " [%v %v replay %v banned %d strikes %d]", g.Allowed, g.Taken, g.Replay, g.BannedUntil, g.Strikes)
	}
	for _, d := range o.Decisions {
		fmt.Fprintf(&b, " %v %d/%d", d.Allowed, d.Used, d.Remaining)
	}
	return b.String()
}

func TestAcrossSlots(t *testing.T) {
	t.Parallel()
	_, stores := clusterOf3(t, 1)
	steps := 3000
	if testing.Short() {
		steps = 500
	}
	const seed = 1
	if err := acrossTickets(stores[0], seed, steps); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
}

// A store that does not undo, or undoes only a part, fails the check.
func TestAcrossSlotsSabotaged(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	_, stores := clusterOf3(t, 1)
	script := redisstore.AmendScriptText()
	for name, broken := range map[string]string{
		"nothing is undone":           strings.Replace(script, "local acts = kept and", "local acts = verb ~= UNDO and kept and", 1),
		"the record stays":            strings.Replace(script, "how == REPLAY or how == FIRST or how == AGAIN", "false", 1),
		"leases stay":                 strings.Replace(script, "local ends_here = list.held", "local ends_here = verb ~= UNDO and list.held", 1),
		"leaky buckets are forgotten": strings.Replace(script, "receipt.at == since", "false", 1),
		"denied calls do not count":   strings.Replace(script, "verb == UNDO and flags == 1", "false", 1),
	} {
		if broken == script {
			t.Errorf("%s: the line to break is not in the script", name)
			continue
		}
		stores[0].UseAmendScript(broken)
		if err := acrossTickets(stores[0], 1, 3000); err == nil {
			t.Errorf("%s: nobody noticed", name)
		}
	}
}

// Clients on several nodes compete for subjects in different slots. No limit is exceeded, and in the end
// exactly what passed is charged.
func TestAcrossSlotsExactly(t *testing.T) {
	t.Parallel()
	_, stores := clusterOf3(t, 3)
	for trial := range 30 {
		wide := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 20, Window: algorithm.MaxWindow}.MustCompile()
		narrow := algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 7, Window: 24 * time.Hour}.MustCompile()
		first, last := inNode(trial%3), inNode((trial+1)%3)
		var passed atomic.Int64
		atOnce(60, func(i int) {
			ticket := &storage.Ticket{Groups: []storage.Group{
				{Subject: first, Charges: []algorithm.Charge{charge(wide, 1)}},
				{Subject: last, Charges: []algorithm.Charge{charge(narrow, 1)}},
			}}
			var out storage.Outcome
			if err := stores[i%3].Take(t.Context(), ticket, &out); err != nil {
				t.Error(err)
			} else if out.Allowed {
				passed.Add(1)
			}
		})
		if n := passed.Load(); n > 7 {
			t.Errorf("%d passed a limit of 7", n)
		}
		expect(t, "charged to the first", int(used(t, stores[0], 0, first, wide)), int(passed.Load()))
		expect(t, "charged to the last", int(used(t, stores[1], 0, last, narrow)), int(passed.Load()))
	}
}

// If a slot does not answer, the request fails. What the other slots were charged is returned, and so is
// what the silent one was charged, once it answers.
func TestAcrossSlotsFault(t *testing.T) {
	t.Parallel()
	cluster, stores := clusterOf3(t, 1)
	m := spacious()
	for round := range 6 {
		subjects := []storage.Subject{inNode(0), inNode(1), inNode(2)}
		silent := cluster.Nodes[round%3]
		if err := silent.Pause(); err != nil {
			t.Fatal(err)
		}
		ticket := &storage.Ticket{Nonce: 1}
		for _, s := range subjects {
			g := storage.Group{Subject: s, Charges: []algorithm.Charge{charge(m, 1)}}
			if round >= 3 {
				g = guarded(0, s, charge(m, 1)).Groups[0]
			}
			ticket.Groups = append(ticket.Groups, g)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		var out storage.Outcome
		if err := stores[0].Take(ctx, ticket, &out); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("error %v does not wrap ErrUnavailable", err)
		}
		cancel()
		for i := range ticket.Groups { // the caller owns the ticket again
			ticket.Groups[i].Charges[0] = algorithm.Charge{}
		}
		if err := silent.Resume(); err != nil {
			t.Fatal(err)
		}
		await(t, "everything to be given back", func() bool {
			for _, s := range subjects {
				keys := keysOf(t, on(cluster.Addrs, s), s) // only the value is left
				if used(t, stores[0], 0, s, m) != 0 || len(keys) > 1 || len(keys) == 1 && keys[0] != redisstore.SubjectKey(prefix, s) {
					return false
				}
			}
			return true
		})
	}
}
