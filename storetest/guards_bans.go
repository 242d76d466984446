package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// strikesAsListed keeps the strikes of a series as a list and the bans as a count.
func strikesAsListed(t *liveTrace) error {
	m, p := perMinute(1+t.r.Int64N(3)), t.penalty()
	var (
		strikes []algorithm.Instant
		bans    int
		until   algorithm.Instant
		last    algorithm.Instant // the last strike or the end of the last ban
	)
	terms := p.Terms()
	for range 60 {
		t.wait(pick(t.r, time.Minute, terms.Within, terms.ForgiveAfter, terms.Bans[0]))
		if often(t.r, 20) && until > t.now {
			t.now = until + algorithm.Instant(t.r.IntN(3)-1)
		}
		g := group(m, pick[int64](t.r, 1, 1, 1, 0, m.Capacity+1))
		g.Penalty = p
		out, err := t.ask(g)
		if err != nil {
			return err
		}
		if t.now >= last.Add(terms.ForgiveAfter) {
			strikes, bans = nil, 0
		}
		if len(strikes) > 0 && t.now >= strikes[0].Add(terms.Within) {
			strikes = nil
		}
		wasBanned := t.now < until
		if wasBanned && out.Allowed {
			return fmt.Errorf("a call passes at %d, banned until %d", t.now, until)
		}
		if cost := g.Charges[0].Cost; !wasBanned && !out.Allowed && cost > 0 && cost <= m.Capacity {
			last = t.now
			if strikes = append(strikes, t.now); len(strikes) == int(terms.After) {
				until = t.now.Add(terms.Bans[min(bans, len(terms.Bans)-1)])
				last = until
				strikes, bans = nil, min(bans+1, len(terms.Bans))
			}
		}
		want := storage.GroupOutcome{Strikes: int64(len(strikes)), Bans: int64(bans)}
		if until > t.now {
			want.BannedUntil = until
		}
		if o := out.Groups[0]; o.Strikes != want.Strikes || o.Bans != want.Bans || o.BannedUntil != want.BannedUntil {
			return fmt.Errorf("strikes %d, bans %d, banned until %d; want %d, %d, %d", o.Strikes, o.Bans, o.BannedUntil, want.Strikes, want.Bans, want.BannedUntil)
		}
	}
	return nil
}

// penalty returns terms that a trace of some dozen requests exhausts completely.
func (t *liveTrace) penalty() *algorithm.Penalty {
	terms := algorithm.PenaltyTerms{
		After: 1 + t.r.Int64N(4), Within: pick(t.r, time.Second, time.Minute, 5*time.Minute),
		ForgiveAfter: pick(t.r, time.Second, time.Minute, time.Hour),
	}
	for range 1 + t.r.IntN(3) {
		terms.Bans = append(terms.Bans, pick(t.r, time.Second, 30*time.Second, time.Minute, 10*time.Minute))
	}
	slices.Sort(terms.Bans)
	return must(terms.Compile())
}

// bansUnderAnyClock: whatever the clock does, the rest of a ban never exceeds its length, and its length is
// one of the rule's or was set manually.
func bansUnderAnyClock(t *liveTrace) error {
	m, p := perMinute(1), t.penalty()
	longest := slices.Max(p.Terms().Bans)
	var bans int64
	straight := true // the clock has not stepped yet, and there was no manual ban
	for range 60 {
		t.wait(time.Minute)
		step := t.r.IntN(20)
		straight = straight && step > 2
		switch step {
		case 0:
			t.now -= algorithm.Instant(t.r.Int64N(int64(time.Hour / time.Microsecond)))
		case 1:
			t.now += algorithm.Instant(t.r.IntN(801)-400) * day
		}
		t.now = max(t.now, 1)
		if step == 2 {
			length := time.Duration(1+t.r.IntN(30)) * time.Minute
			longest = max(longest, length)
			if _, err := t.play(banned(t.now, p, length)); err != nil {
				return err
			}
		}
		g := group(m, 1)
		g.Penalty = p
		out, err := t.ask(g)
		if err != nil {
			return err
		}
		o := out.Groups[0]
		left := o.BannedUntil.Sub(t.now)
		if o.BannedUntil != 0 && (left <= 0 || left > longest) {
			return fmt.Errorf("banned for another %v, longest ban %v", left, longest)
		}
		if straight && o.Bans > bans && !slices.Contains(p.Terms().Bans, left) { // this request caused it
			return fmt.Errorf("banned for %v, which is none of %v", left, p.Terms().Bans)
		}
		bans = o.Bans
	}
	return nil
}

// bannedTouchesNothing: after a ban, the state is as if there had been no requests during it.
func bannedTouchesNothing(t *liveTrace) error {
	r := t.r
	m := smallMeter(r, kinds[r.IntN(len(kinds))])
	if l := m.Limit(); often(r, 50) {
		l.CountDenied = true
		if counting, err := l.Compile(); err == nil {
			m = counting
		}
	}
	p := t.penalty()
	guarded := func(now algorithm.Instant, cost int64, nonce uint64) step {
		g := group(m, cost)
		g.Penalty = p
		g.Dedup = must(algorithm.DedupTerms{TTL: time.Hour, MaxReplays: 2, Budget: 5, Beside: algorithm.Limit{Algorithm: algorithm.FixedWindow, Window: time.Hour}}.Compile())
		g.Call = hasher.Call(fmt.Sprint(nonce % 3))
		s := singleGroup(now, nonce, g)
		s.ticket.MaxDelay = algorithm.AnyDelay
		return s
	}
	length := pick(r, p.Terms().Bans...)
	past := forward(r, m, 1+r.IntN(10))
	now := past[len(past)-1].ticket.Now
	past = append(past, banned(now, p, length))
	var between []step
	for i := range 1 + r.IntN(8) {
		within := algorithm.Instant(r.Int64N(length.Microseconds()))
		between = append(between, guarded(now+within, 1+r.Int64N(m.Capacity), uint64(i+1)))
	}
	slices.SortFunc(between, func(a, b step) int { return int(a.ticket.Now - b.ticket.Now) })
	return unnoticed(t.nodes, past, between, guarded(now.Add(length)+algorithm.Instant(r.IntN(2)), 1, 99))
}

// foreignDenials: denials by another rule, and of costs that can never pass, are not strikes.
func foreignDenials(t *liveTrace) error {
	p := must(algorithm.PenaltyTerms{After: 1, Within: time.Minute, Bans: []time.Duration{time.Minute}, ForgiveAfter: time.Minute}.Compile())
	own, foreign := perMinute(2), algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 0, Window: time.Minute}.MustCompile()
	both := func(cost int64) step {
		s := singleGroup(t.now, 1, group(own, cost))
		s.ticket.Groups[0].Penalty = p
		s.ticket.Groups = append(s.ticket.Groups, group(foreign, 1))
		s.who = []int{0, 0}
		return s
	}
	for _, cost := range []int64{1, 2, 3, algorithm.MaxCount} { // the other rule never passes
		a, err := t.play(both(cost))
		if err != nil {
			return err
		}
		if o := a.outcome.Groups[0]; a.outcome.Allowed || o.Strikes != 0 || o.Bans != 0 || o.BannedUntil != 0 {
			return fmt.Errorf("cost %d: a denial by another limit, or for good, leaves %+v", cost, o)
		}
	}
	g := group(own, 1)
	g.Penalty = p
	for _, want := range []bool{true, true, false} {
		out, err := t.ask(g)
		if err != nil {
			return err
		}
		if out.Allowed != want {
			return fmt.Errorf("pass is %v, want %v", out.Allowed, want)
		}
	}
	a, err := t.play(both(1)) // its own limit is now full too, and it is already banned
	if err != nil {
		return err
	}
	if o := a.outcome.Groups[0]; o.Bans != 1 || o.BannedUntil != t.now.Add(time.Minute) {
		return fmt.Errorf("the third call is a strike and the fourth none: want one ban, got %+v", o)
	}
	return nil
}

// bansByHand: denied to the last microsecond, and a lift takes effect at once.
func bansByHand(t *liveTrace) error {
	m, p := perMinute(100), t.penalty()
	g := group(m, 1)
	g.Penalty = p
	for range 5 {
		length := time.Duration(1+t.r.IntN(90_000)) * time.Millisecond
		a, err := t.play(banned(t.now, p, length))
		if err != nil {
			return err
		}
		if a.until != t.now.Add(length) {
			return fmt.Errorf("banned until %d, want %d", a.until, t.now.Add(length))
		}
		lifted := often(t.r, 30)
		for _, at := range []algorithm.Instant{t.now, a.until - 1, a.until} {
			if lifted && at == a.until-1 {
				t.now = at
				if _, err := t.play(banned(at, p, 0)); err != nil {
					return err
				}
			}
			t.now = at
			out, err := t.ask(g)
			if err != nil {
				return err
			}
			free := at == a.until || lifted && at == a.until-1
			if out.Allowed != free {
				return fmt.Errorf("banned until %d, lifted %v: pass at %d is %v", a.until, lifted, at, out.Allowed)
			}
			if !free && out.Decisions[0].RetryAfter != a.until.Sub(at) {
				return fmt.Errorf("banned until %d: retry after %v at %d", a.until, out.Decisions[0].RetryAfter, at)
			}
		}
		t.wait(time.Minute)
	}
	return nil
}

// resetForgets: after a reset a subject is like new, except for the records of its requests.
func resetForgets(t *liveTrace) error {
	m := smallMeter(t.r, kinds[t.r.IntN(len(kinds))])
	p := t.penalty()
	g := group(m, 1)
	g.Penalty = p
	past := forward(t.r, m, 5+t.r.IntN(20))
	for i := range past {
		past[i].ticket.Groups[0].Penalty = p
		if m.Returns() == nil {
			past[i].ticket.Groups[0].Reserve = time.Hour
		}
	}
	now := past[len(past)-1].ticket.Now
	past = append(past, banned(now, p, time.Hour), step{reset: &g, who: []int{0}})
	question := singleGroup(now, 99, g)
	question.ticket.MaxDelay = algorithm.AnyDelay
	if err := likeNew(t.nodes, past, &question); err != nil {
		return err
	}
	cast, _, err := replay(t.nodes, past)
	if err != nil {
		return err
	}
	if diff := unlikeReservations(NewModel(), t.nodes, cast, now); diff != "" {
		return fmt.Errorf("after a reset there are reservations: %s", diff)
	}
	return nil
}
