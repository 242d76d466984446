package storetest

import (
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// repeats returns the terms of a rule that recognises duplicates.
func repeats(ttl time.Duration, replays, budget int64, window time.Duration) *algorithm.Dedup {
	return must(algorithm.DedupTerms{TTL: ttl, MaxReplays: replays, Budget: budget, Beside: algorithm.Limit{Algorithm: algorithm.FixedWindow, Window: window}}.Compile())
}

// repeatsAsAgreed records when each id was first seen and counts its duplicates.
func repeatsAsAgreed(t *liveTrace) error {
	m := perMinute(3 + t.r.Int64N(5))
	ttl, replays, budget := pick(t.r, time.Second, time.Minute, 3*time.Minute), 1+t.r.Int64N(3), t.r.Int64N(5)
	g := group(m, 1)
	g.Dedup = repeats(ttl, replays, budget, time.Minute)
	type sight struct {
		first   algorithm.Instant
		repeats int64
	}
	sights, spent, used := map[int]sight{}, map[int64]int64{}, map[int64]int64{}
	for range 80 {
		t.wait(pick(t.r, time.Minute, ttl, time.Second))
		id := t.r.IntN(5)
		g.Call = hasher.Call(fmt.Sprint(id))
		if id == 0 {
			g.Call = storage.CallID{}
		}
		out, err := t.ask(g)
		if err != nil {
			return err
		}
		seen, minute := sights[id], int64(t.now)/m.Window
		free := id != 0 && seen.first != 0 && t.now < seen.first.Add(ttl) && seen.repeats < replays && spent[minute] < budget
		passes := free || used[minute] < m.Count
		if o := out.Groups[0]; o.Replay != free || out.Allowed != passes {
			return fmt.Errorf("id %d: replay %v, pass %v; want %v, %v with %+v and %d repeats in this minute", id, o.Replay, out.Allowed, free, passes, seen, spent[minute])
		}
		switch {
		case free:
			seen.repeats++
			spent[minute]++
			sights[id] = seen
		case passes:
			used[minute]++
			sights[id] = sight{first: t.now}
		}
		if got := out.Decisions[0].Used; got != used[minute] {
			return fmt.Errorf("id %d: %d used, want %d", id, got, used[minute])
		}
	}
	return nil
}

// oneIDOften: the limit and the budget, and not one more.
func oneIDOften(t *liveTrace) error {
	budget, replays := 1+t.r.Int64N(5), pick[int64](t.r, 1, 2, algorithm.MaxReplays)
	return t.burst(10, budget, replays, 50, func(int) int { return 0 }, 10+budget)
}

// everyIDFourTimes: a client that invents ids gets no more than the budget for it.
func everyIDFourTimes(t *liveTrace) error {
	budget := 1 + t.r.Int64N(5)
	return t.burst(10, budget, 3, 200, func(i int) int { return i / 4 }, 10+budget)
}

// burst makes requests at one instant and counts those that pass.
func (t *liveTrace) burst(limit, budget, replays int64, calls int, id func(i int) int, want int64) error {
	g := group(perMinute(limit), 1)
	g.Dedup = repeats(time.Minute, replays, budget, time.Minute)
	var allowed, used int64
	for i := range calls {
		g.Call = hasher.Call(fmt.Sprint(id(i)))
		out, err := t.ask(g)
		if err != nil {
			return err
		}
		if out.Allowed {
			allowed++
		}
		used = out.Decisions[0].Used
	}
	if allowed != want || used != limit {
		return fmt.Errorf("%d of %d calls passed and %d were charged, want %d and %d", allowed, calls, used, want, limit)
	}
	return nil
}

// repeatsForMinutes: in any minute, at most the limit plus the budget pass, whatever the ids.
func repeatsForMinutes(t *liveTrace) error {
	const limit = 10
	budget, ids := 1+t.r.Int64N(3), 1+t.r.IntN(40)
	g := group(perMinute(limit), 1)
	g.Dedup = repeats(pick(t.r, time.Minute, time.Hour), pick[int64](t.r, 1, 3, algorithm.MaxReplays), budget, time.Minute)
	allowed := map[int64]int64{}
	for range 600 {
		g.Call = hasher.Call(fmt.Sprint(t.r.IntN(ids)))
		out, err := t.ask(g)
		if err != nil {
			return err
		}
		if minute := int64(t.now) / g.Charges[0].Meter.Window; out.Allowed {
			if allowed[minute]++; allowed[minute] > limit+budget {
				return fmt.Errorf("%d calls passed in one minute, limit %d and budget %d", allowed[minute], limit, budget)
			}
		}
		t.now = t.now.Add(time.Second)
	}
	return nil
}

// duplicatesOverLogs: with a sliding log, no trailing window holds more than limit plus budget, wherever
// fixed windows begin.
func duplicatesOverLogs(t *liveTrace) error {
	const limit, window = 10, time.Minute
	budget, ids := 1+t.r.Int64N(4), 1+t.r.IntN(40)
	g := group(algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: limit, Window: window}.MustCompile(), 1)
	g.Dedup = must(algorithm.DedupTerms{TTL: time.Hour, MaxReplays: algorithm.MaxReplays, Budget: budget, Beside: g.Charges[0].Meter.Limit()}.Compile())
	var passed []algorithm.Instant
	for range 300 {
		g.Call = hasher.Call(fmt.Sprint(t.r.IntN(ids)))
		out, err := t.ask(g)
		if err != nil {
			return err
		}
		if out.Allowed {
			passed = append(passed, t.now)
		}
		if n := len(passed) - limit - int(budget) - 1; n >= 0 && passed[n] > t.now.Add(-window) {
			return fmt.Errorf("%d requests passed within %v, limit %d and budget %d", limit+budget+1, t.now.Sub(passed[n]), limit, budget)
		}
		t.now = t.now.Add(time.Duration(t.r.Int64N(int64(5 * time.Second))))
	}
	return nil
}

// largerDuplicates: a client that sends each id first with a small cost and then with a large one gets no more
// than limit plus budget, in units of cost.
func largerDuplicates(t *liveTrace) error {
	const limit = 100
	budget, ids := 1+t.r.Int64N(20), 1+t.r.IntN(40)
	dedup := repeats(time.Minute, 1+t.r.Int64N(3), budget, time.Minute)
	passed := int64(0)
	for i := range 200 {
		cost := int64(1)
		if i >= ids {
			cost += t.r.Int64N(limit)
		}
		g := group(perMinute(limit), cost)
		g.Dedup, g.Call = dedup, hasher.Call(fmt.Sprint(i%ids))
		out, err := t.ask(g)
		if err != nil {
			return err
		}
		if out.Allowed {
			passed += cost
		}
	}
	if passed > limit+budget {
		return fmt.Errorf("%d units passed at one instant, limit %d and budget %d", passed, limit, budget)
	}
	return nil
}

// duplicatesHoldPermits: however many ids are sent twice, no more requests run than there are permits. A
// duplicate is charged nothing, and releasing what it took does not release the original's permit.
func duplicatesHoldPermits(t *liveTrace) error {
	const ttl = time.Minute
	permits := algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 1 + t.r.Int64N(3), Window: ttl}.MustCompile()
	quota := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: algorithm.MaxCount, Window: algorithm.MaxWindow}.MustCompile()
	g := storage.Group{Charges: []algorithm.Charge{{Meter: quota, Cost: 1}, {Meter: permits, Cost: 1}}}
	g.Dedup = repeats(ttl, algorithm.MaxReplays, 1000, algorithm.MaxWindow)
	g.Penalty = must(algorithm.PenaltyTerms{After: 1, Within: ttl, Bans: []time.Duration{time.Millisecond}, ForgiveAfter: time.Hour}.Compile())
	if often(t.r, 50) {
		g.Reserve = ttl
	}
	running := map[uint64]algorithm.Instant{} // until when each holds a permit
	originals := map[storage.CallID]struct {
		nonce uint64
		first algorithm.Instant
	}{}
	var charged int64
	for range 60 {
		t.wait(ttl / 4)
		for nonce, until := range running {
			if until <= t.now {
				delete(running, nonce)
			}
		}
		if t.r.IntN(3) == 0 {
			if err := t.endOne(running, permits); err != nil {
				return err
			}
			continue
		}
		g.Call = hasher.Call(fmt.Sprint(t.r.IntN(3)))
		original := originals[g.Call]
		replay := original.nonce != 0 && t.now < original.first.Add(ttl)
		nonce := t.r.Uint64() | 1
		a, err := t.play(singleGroup(t.now, nonce, g))
		if err != nil {
			return err
		}
		o, pass := a.outcome.Groups[0], int64(len(running)) < permits.Count
		if o.BannedUntil != 0 && !replay { // by the strike of an original that got no permit
			t.now = o.BannedUntil
			if pass {
				return fmt.Errorf("banned with %d of %d permits taken", len(running), permits.Count)
			}
			continue
		}
		want := storage.GroupOutcome{Allowed: pass, Taken: pass, Replay: replay, Strikes: o.Strikes, Bans: o.Bans}
		if pass {
			running[nonce], want.Nonce = t.now.Add(ttl), nonce
		}
		switch {
		case replay:
			want.Original = original.nonce
		case pass:
			charged++
			original.nonce, original.first = nonce, t.now
			originals[g.Call] = original
		}
		if o != want {
			return fmt.Errorf("with %d of %d permits taken the outcome is %+v, want %+v", len(running), permits.Count, o, want)
		}
		if d := a.outcome.Decisions; d[0].Used != charged || d[1].Used != int64(len(running)) {
			return fmt.Errorf("%d charged and %d permits taken, want %d and %d", d[0].Used, d[1].Used, charged, len(running))
		}
	}
	return nil
}

// endOne releases the permit of one running request, and no other.
func (t *liveTrace) endOne(running map[uint64]algorithm.Instant, permits *algorithm.Meter) error {
	for nonce := range running {
		a, err := t.play(settlementOf(storage.Settlement{Now: t.now, Nonce: nonce, Verb: storage.Release, Charges: group(permits, 1).Charges}))
		if err != nil {
			return err
		}
		delete(running, nonce)
		if a.refusal != nil || a.settled.Again || a.settled.Decisions[0].Used != int64(len(running)) {
			return fmt.Errorf("released one of %d: %+v, %v", len(running)+1, a.settled, a.refusal)
		}
		break
	}
	return nil
}

// deniedIDs: a denied request leaves no record, so its retry is not a duplicate, and it passes after its
// retry-after.
func deniedIDs(t *liveTrace) error {
	m := smallMeter(t.r, pick(t.r, algorithm.KindWindow, algorithm.KindBucket, algorithm.KindLog, algorithm.KindCounter))
	g := group(m, 1)
	g.Dedup = repeats(algorithm.MaxDedupTTL, algorithm.MaxReplays, 100, algorithm.MaxWindow)
	full := group(m, m.Capacity)
	if _, err := t.ask(full); err != nil {
		return err
	}
	g.Call = hasher.Call("denied")
	for range 2 + t.r.IntN(3) {
		out, err := t.ask(g)
		if err != nil {
			return err
		}
		if out.Allowed || out.Groups[0].Replay {
			return fmt.Errorf("with nothing left a new id is answered %+v", out.Groups[0])
		}
		if often(t.r, 30) {
			t.now = t.now.Add(out.Decisions[0].RetryAfter)
			break
		}
	}
	out, err := t.ask(g)
	if err != nil {
		return err
	}
	if !out.Allowed {
		t.now = t.now.Add(out.Decisions[0].RetryAfter)
		if out, err = t.ask(g); err != nil {
			return err
		}
	}
	if !out.Allowed || out.Groups[0].Replay || out.Decisions[0].Receipt.Cost != 1 {
		return fmt.Errorf("at its retry-after an id that was denied is answered %+v, %+v", out.Groups[0], out.Decisions[0])
	}
	return nil
}
