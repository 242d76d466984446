package redisstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// ends checks that every key of the subject expires: not before the subject is like new according to the
// decisions, and not later than the longest-lived of its limits needs. With a given instant, the minimum is
// an hour.
func ends(addr string, who storage.Subject, out storage.Outcome, meters []*algorithm.Meter, given bool) error {
	for i, m := range meters {
		key, d := keyOf(who, m), out.Decisions[i]
		reply, err := redistest.Command(addr, "EVAL", `local now = redis.call('TIME')
			return now[1] .. ' ' .. now[2] .. ' ' .. string.format('%.0f', redis.call('PEXPIRETIME', KEYS[1]))`, "1", key)
		if err != nil {
			return err
		}
		var sec, usec, ms int64
		if _, err := fmt.Sscan(reply, &sec, &usec, &ms); err != nil {
			return err
		}
		const gone = -2
		now, end := algorithm.Instant(sec*1_000_000+usec), algorithm.Instant(ms*1000)
		if ms == gone {
			if d.Used > 0 && (given || now < out.Now.Add(d.ResetAfter)) {
				return fmt.Errorf("%v: %s is gone and says that it matters for %v", m, key, d.ResetAfter)
			}
			continue
		}
		// The server sets the expiry a moment after it has read its clock, and has done so by now.
		from, least, most := out.Now, d.ResetAfter, time.Duration(0)
		for _, other := range meters {
			switch {
			case keyOf(who, other) != key:
			case other.Kind.Fixed(): // in a shared value its life is rounded up, and kept for an eighth longer
				most = max(most, time.Duration(algorithm.CodeLife(algorithm.LifeCode(other.Life)))*time.Microsecond*9/8)
			default:
				most = max(most, time.Duration(other.Life)*time.Microsecond)
			}
		}
		if given { // the hour is on the real clock, which has advanced
			from, least, most = now, max(least, time.Hour)-time.Minute, max(most, time.Hour)
		}
		if end < from.Add(least) || end > now.Add(most+5*time.Millisecond) {
			return fmt.Errorf("%v: %s ends %v after the decision, want from %v to %v", m, key, end.Sub(from), least, most)
		}
	}
	return nil
}

// oddWindow does not end on a millisecond, as the expiry of keys does.
const oddWindow = 9*time.Second + 999*time.Microsecond

// Whatever the requests were, every key expires when its state no longer matters, and not much later.
func TestEveryKeyEnds(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	server, store := serve(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, window := range []time.Duration{oddWindow, 13 * time.Second, time.Hour, 20 * time.Hour, algorithm.MaxWindow} {
		meters := eachKind(window)
		for range 20 {
			who := stranger()
			for range 6 {
				ticket := one(0, who)
				for _, m := range meters {
					ticket.Groups[0].Charges = append(ticket.Groups[0].Charges, charge(m, r.Int64N(3)))
				}
				// Earlier requests may have cost less: what they left expires within the same bounds.
				if err := ends(server.Addr, who, take(t, store, ticket), meters, false); err != nil {
					t.Error(err)
				}
			}
			if len(keysOf(t, server.Addr, who)) == 0 {
				t.Fatal("nothing was written, so nothing was checked")
			}
		}
	}
	for _, window := range []time.Duration{time.Second, time.Hour, algorithm.MaxWindow} {
		for _, m := range eachKind(window) { // each by itself
			who := stranger()
			for range 4 {
				if err := ends(server.Addr, who, take(t, store, one(0, who, charge(m, 1))), []*algorithm.Meter{m}, false); err != nil {
					t.Error(err)
				}
			}
			expect(t, fmt.Sprintf("keys of %v", m), len(keysOf(t, server.Addr, who)), 1)
		}
	}
}

// State that was written at a given instant does not expire on the real clock before a replay ends.
func TestGivenInstantsLiveAnHour(t *testing.T) {
	server, store := serve(t)
	for _, m := range eachKind(time.Millisecond) {
		who := stranger()
		for i := range 4 {
			take(t, store, one(monday+algorithm.Instant(i*300), who, charge(m, 1)))
			for _, key := range keysOf(t, server.Addr, who) {
				if left := time.Duration(number(t, server.Addr, "PTTL", key)) * time.Millisecond; left < 59*time.Minute {
					t.Errorf("%v: %s ends in %v", m, key, left)
				}
			}
		}
	}
}

// Idle keys cost nothing: what no longer matters disappears from the server by itself.
func TestStateDisappears(t *testing.T) {
	server, store := serve(t)
	who := stranger()
	ticket := one(0, who)
	for _, m := range eachKind(40 * time.Millisecond) {
		if m.Kind != algorithm.KindCalendar {
			ticket.Groups[0].Charges = append(ticket.Groups[0].Charges, charge(m, 1))
		}
	}
	take(t, store, ticket)
	if len(keysOf(t, server.Addr, who)) == 0 { // slower than the windows: then it did disappear
		t.Log("gone before it could be seen")
	}
	await(t, "the subject's keys to end", func() bool { return len(keysOf(t, server.Addr, who)) == 0 })
}

// Slots of limits that are no longer in use are removed by the first write after their end.
func TestStaleSlotsAreDropped(t *testing.T) {
	server, store := serve(t)
	who := stranger()
	key := redisstore.SubjectKey(prefix, who)
	length := func() int { return number(t, server.Addr, "STRLEN", key) }
	kept := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: algorithm.MaxCount, Window: algorithm.MaxWindow}.MustCompile()
	ticket := one(0, who, charge(kept, 1))
	for _, window := range []time.Duration{2, 3, 4} {
		short := algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 1, Window: window * time.Hour}.MustCompile()
		ticket.Groups[0].Charges = append(ticket.Groups[0].Charges, charge(short, 1))
	}
	take(t, store, ticket)
	expect(t, "bytes with four limits", length(), 1+4*27)
	hit(t, store, 0, who, kept)
	expect(t, "bytes while all four matter", length(), 1+4*27)

	brief := algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 1, Window: 5 * time.Millisecond}.MustCompile()
	hit(t, store, 0, who, brief)
	await(t, "the brief limit's slot to be dropped", func() bool {
		hit(t, store, 0, who, kept)
		return length() == 1+4*27
	})
	// At a given instant nothing is dropped: another replay may be at an earlier instant.
	take(t, store, one(monday+seconds(400*24*3600), who, charge(brief, 1)))
	expect(t, "bytes after a call of the far future", length(), 1+5*27)
	if used(t, store, 0, who, kept) < 3 {
		t.Error("the limit that stayed in use lost what it had counted")
	}
}

// Records, reservations, holds and bans expire in time, and not before.
func TestGuardsEnd(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	server, store := serve(t)
	if err := errors.Join(checkGuardEnds(store, server.Addr), checkTidy(store, server.Addr)); err != nil {
		t.Error(err)
	}
}

// No state of a guarded request outlives it for long.
func TestGuardsDisappear(t *testing.T) {
	server, store := serve(t)
	const brief = 40 * time.Millisecond
	ticket := one(0, stranger(), charge(slidingLog(1, brief), 1))
	g := &ticket.Groups[0]
	g.Penalty = must(algorithm.PenaltyTerms{After: 1, Within: brief, Bans: []time.Duration{brief}, ForgiveAfter: brief}.Compile())
	g.Dedup, g.Call, g.Reserve = must(algorithm.DedupTerms{TTL: brief, MaxReplays: 1, Budget: 1, Beside: algorithm.Limit{Algorithm: algorithm.FixedWindow, Window: brief}}.Compile()), newCallID(), brief
	for range 4 { // first, duplicate, denied, banned
		take(t, store, ticket)
	}
	await(t, "the subject's keys to end", func() bool { return len(keysOf(t, server.Addr, g.Subject)) == 0 })
}
