package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// checkExtends lowers limits whose counters were written, and checks what a read by the lowered limit does
// to the key: it lives as long as that limit needs, and a second read changes nothing.
func checkExtends(store *redisstore.Store, addr string) error {
	var errs []error
	for _, now := range clocks {
		for _, l := range []algorithm.Limit{
			{Algorithm: algorithm.TokenBucket, Burst: 1000},
			{Algorithm: algorithm.TokenBucket, Burst: 1000, Refill: algorithm.Interval},
			{Algorithm: algorithm.LeakyBucket, Queue: 999},
		} {
			l.Count, l.Window = 1000, 10*time.Second
			fast := l.MustCompile()
			l.Count = 1 // takes longer than the hour for which given instants are always kept
			slow := l.MustCompile()
			for cost := range int64(2) {
				for _, company := range []bool{false, true} {
					errs = append(errs, extends(store, addr, one(now, stranger(), charge(fast, 1000)), charge(slow, cost), company))
				}
			}
		}
	}
	return errors.Join(append(errs, extendsStrikes(store, addr), leavesTheFuture(store, addr))...)
}

// extends checks one counter, alone in its value or together with a limit that ends sooner.
func extends(store *redisstore.Store, addr string, spend *storage.Ticket, look algorithm.Charge, company bool) error {
	g := &spend.Groups[0]
	if company {
		g.Charges = append(g.Charges, charge(eachKind(time.Minute)[0], 1))
	}
	var first, out storage.Outcome
	if err := store.Take(context.Background(), spend, &first); err != nil || !first.Allowed {
		return fmt.Errorf("%v: %v, %w", g.Charges[0].Meter, first.Allowed, err)
	}
	ticket := one(spend.Now, g.Subject, look)
	var before string
	var used int64
	for i := range 3 {
		if err := store.Take(context.Background(), ticket, &out); err != nil {
			return err
		}
		if err := ends(addr, g.Subject, out, []*algorithm.Meter{look.Meter}, spend.Now != 0); err != nil {
			return fmt.Errorf("look %d of cost %d: %w", i, look.Cost, err)
		}
		after, err := dump(addr, g.Subject)
		refilled := spend.Now == 0 && out.Decisions[0].Used != used // between two looks by the server's clock
		if err != nil || i > 0 && after != before && !refilled {
			return fmt.Errorf("%v: look %d changed %q to %q (%w)", look.Meter, i, before, after, err)
		}
		before, used = after, out.Decisions[0].Used
	}
	// The state itself is unchanged: the fast limit finds it as it left it.
	peek := one(spend.Now, g.Subject, charge(g.Charges[0].Meter, 0))
	if spend.Now == 0 {
		return nil
	}
	if err := store.Take(context.Background(), peek, &out); err != nil || out.Decisions[0].Used != first.Decisions[0].Used {
		return fmt.Errorf("%v: %d used before, then %d (%w)", look.Meter, first.Decisions[0].Used, out.Decisions[0].Used, err)
	}
	return nil
}

// extendsStrikes: strikes are kept for the current forgive period.
func extendsStrikes(store *redisstore.Store, addr string) error {
	for _, now := range clocks {
		for cost := range int64(2) { // a request that passes beside the strike, and a peek
			denies, passes := slidingLog(1, time.Hour), algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 9, Window: 2 * time.Hour}.MustCompile()
			t := one(now, stranger(), charge(denies, 1))
			t.Groups[0].Penalty = penaltyOf(9, time.Minute, time.Minute)
			var out storage.Outcome
			for range 2 {
				if err := store.Take(context.Background(), t, &out); err != nil {
					return err
				}
			}
			t.Groups[0].Charges = []algorithm.Charge{charge(passes, cost)}
			t.Groups[0].Penalty = penaltyOf(9, time.Minute, 5*time.Hour)
			if err := store.Take(context.Background(), t, &out); err != nil || out.Groups[0].Strikes != 1 {
				return fmt.Errorf("%d strikes (%w)", out.Groups[0].Strikes, err)
			}
			left, err := redistest.Command(addr, "EVAL", `return redis.call('PTTL', KEYS[1]) > 5 * 3600000 - 60000 and 'yes' or 'no'`, "1", theValue(t))
			if err != nil || left != "yes" {
				return fmt.Errorf("a strike that is to be forgiven after 5h ends sooner (%w)", err)
			}
		}
	}
	return nil
}

// leavesTheFuture: a peek at a state that a wrong clock wrote does not keep it until that future, and an
// expired state is not kept at all.
func leavesTheFuture(store *redisstore.Store, addr string) error {
	l := algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 1000, Burst: 1000, Window: 10 * time.Second}
	fast := l.MustCompile()
	l.Count = 1
	slow := l.MustCompile()
	kept := algorithm.Instant(algorithm.CodeLife(algorithm.LifeCode(slow.Life)))
	for _, wrote := range []algorithm.Instant{monday + seconds(1e6), monday - seconds(10_000), monday - kept + 1, monday - kept, monday - seconds(12_000)} {
		t := one(wrote, stranger(), charge(fast, 1000))
		if err := store.Take(context.Background(), t, new(storage.Outcome)); err != nil {
			return err
		}
		before, err := dump(addr, t.Groups[0].Subject)
		if err != nil {
			return err
		}
		peek := one(monday, t.Groups[0].Subject, charge(slow, 0))
		if err := store.Take(context.Background(), peek, new(storage.Outcome)); err != nil {
			return err
		}
		after, err := dump(addr, t.Groups[0].Subject)
		matters := wrote <= monday && wrote+kept > monday
		if err != nil || matters == (before == after) {
			return fmt.Errorf("written %v before a peek: changed is %v (%w)", monday.Sub(wrote), before != after, err)
		}
	}
	return nil
}

func TestLooksExtend(t *testing.T) {
	server, store := serve(t)
	if err := checkExtends(store, server.Addr); err != nil {
		t.Error(err)
	}
}
