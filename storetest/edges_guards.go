package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
)

// reserved makes a newcomer with a reservation of 3 of 100 a day, nonce 7, for an hour.
func reserved(nodes []penstock.Store) (who []penstock.Subject, m *penstock.Meter, err error) {
	m = penstock.Limit{Algorithm: penstock.FixedWindow, Count: 100, Window: 24 * time.Hour}.MustCompile()
	g := group(m, 3)
	g.Reserve = time.Hour
	s := asked(scenarioStart, 7, g)
	who = newcomers(2)
	_, err = take(nodes, who, &s)
	return who, m, err
}

// stillReserved checks that the reservation is as it was: 3 are used, and can be released once.
func stillReserved(nodes []penstock.Store, who []penstock.Subject, m *penstock.Meter) error {
	peek := one(scenarioStart, m, 0, 0, 0)
	out, err := take(nodes, who, &peek)
	if err != nil {
		return err
	}
	if used := out.Decisions[0].Used; used != 3 {
		return fmt.Errorf("afterwards %d are used, want 3", used)
	}
	release := settled(penstock.Settlement{Now: scenarioStart, Nonce: 7, Verb: penstock.Release, Charges: group(m, 0).Charges})
	a, err := play(nodes, who, &release)
	if err != nil || a.refusal != nil || a.settled.Again || a.settled.Decisions[0].Used != 0 {
		return fmt.Errorf("afterwards a release is answered %+v, %w, %w", a.settled, a.refusal, err)
	}
	return nil
}

// checkInvalidSettlements sends what no store could settle: an error says what is wrong, and the
// reservation stays as it was.
func checkInvalidSettlements(nodes []penstock.Store) error {
	leaky := penstock.Limit{Algorithm: penstock.LeakyBucket, Count: 5, Window: time.Hour}.MustCompile()
	long := penstock.Limit{Algorithm: penstock.SlidingWindowLog, Count: penstock.MaxReservedLog + 1, Window: time.Hour}.MustCompile()
	var errs []error
	for _, v := range []struct {
		name, want string
		spoil      func(s *penstock.Settlement)
	}{
		{"no nonce", "no nonce", func(s *penstock.Settlement) { s.Nonce = 0 }},
		{"no charges", "0 charges", func(s *penstock.Settlement) { s.Charges = nil }},
		{"17 charges", "17 charges", func(s *penstock.Settlement) { s.Charges = slices.Repeat(s.Charges, 17) }},
		{"no meter", "no meter", func(s *penstock.Settlement) { s.Charges[0].Meter = nil }},
		{"cost -1", "cost -1", func(s *penstock.Settlement) { s.Charges[0].Cost = -1 }},
		{"the most negative cost", "cost -9223372036854775808", func(s *penstock.Settlement) { s.Charges[0].Cost = -1 << 63 }},
		{"cost above the most", "cost 1000000000001", func(s *penstock.Settlement) { s.Charges[0].Cost = penstock.MaxCount + 1 }},
		{"the same twice", "twice", func(s *penstock.Settlement) { s.Charges = slices.Repeat(s.Charges, 2) }},
		{"a leaky bucket", "leaky_bucket", func(s *penstock.Settlement) { s.Charges[0].Meter = leaky }},
		{"a long log", "10000", func(s *penstock.Settlement) { s.Charges[0].Meter = long }},
		{"another verb", "settle", func(s *penstock.Settlement) { s.Verb = 3 }},
		{"another overage", "overage", func(s *penstock.Settlement) { s.Overage = 3 }},
		{"renewed for no time", "ttl 0s", func(s *penstock.Settlement) { s.Verb = penstock.Renew }},
		{"renewed for too long", "ttl 24h0m0.000000001s", func(s *penstock.Settlement) { s.Verb, s.TTL = penstock.Renew, penstock.MaxReserve+1 }},
		{"before the epoch", "now -1", func(s *penstock.Settlement) { s.Now = -1 }},
		{"after the last instant", "now 4503599627370496", func(s *penstock.Settlement) { s.Now = penstock.MaxInstant + 1 }},
	} {
		who, m, err := reserved(nodes)
		if err != nil {
			return err
		}
		s := penstock.Settlement{Now: scenarioStart, Subject: who[0], Nonce: 7, Charges: group(m, 1).Charges}
		v.spoil(&s)
		err = safely(func() error {
			return nodes[0].(penstock.Settler).Settle(context.Background(), &s, new(penstock.Settled))
		})
		if refusalOf(err) != penstock.ErrInvalid || !strings.Contains(err.Error(), v.want) {
			errs = append(errs, fmt.Errorf("%s: error is %v, want one that wraps %q and says %q", v.name, err, penstock.ErrInvalid, v.want))
		} else if err := stillReserved(nodes, who, m); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", v.name, err))
		}
	}
	return errors.Join(errs...)
}

// safely turns a panic into an error.
func safely(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return do()
}

// checkRefusedSettlements settles what is not there: each is refused in its own way, and the
// reservation stays as it was.
func checkRefusedSettlements(nodes []penstock.Store) error {
	other := penstock.Limit{Algorithm: penstock.Concurrency, Count: 5, Window: time.Hour}.MustCompile()
	end := scenarioStart.Add(time.Hour)
	var errs []error
	for _, v := range []struct {
		name  string
		spoil func(s *step)
		want  error
	}{
		{"another subject's", func(s *step) { s.who = []int{1} }, penstock.ErrNoReservation},
		{"another nonce", func(s *step) { s.settle.Nonce = 8 }, penstock.ErrNoReservation},
		{"the largest nonce", func(s *step) { s.settle.Nonce = 1<<64 - 1 }, penstock.ErrNoReservation},
		{"when it is over", func(s *step) { s.settle.Now = end }, penstock.ErrNoReservation},
		{"a renewal when it is over", func(s *step) { s.settle.Now, s.settle.Verb = end, penstock.Renew }, penstock.ErrNoReservation},
		{"from a wrong clock", func(s *step) { s.settle.Now = scenarioStart - 2*day }, penstock.ErrNoReservation},
		{"the renewal of a lease that was never taken", func(s *step) {
			s.settle.Nonce, s.settle.Verb, s.settle.Charges = 8, penstock.Renew, group(other, 1).Charges
		}, penstock.ErrNoReservation},
	} {
		who, m, err := reserved(nodes)
		if err != nil {
			return err
		}
		s := settled(penstock.Settlement{Now: scenarioStart, Nonce: 7, TTL: time.Hour, Charges: group(m, 1).Charges})
		v.spoil(&s)
		if a, err := play(nodes, who, &s); err != nil || a.refusal != v.want {
			errs = append(errs, fmt.Errorf("%s: answered %+v, %v, %w; want %v", v.name, a.settled, a.refusal, err, v.want))
		} else if err := stillReserved(nodes, who, m); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", v.name, err))
		}
	}
	return errors.Join(append(errs, checkLastMoment(nodes))...)
}

// checkLastMoment settles a microsecond before the end, and twice with different costs.
func checkLastMoment(nodes []penstock.Store) error {
	who, m, err := reserved(nodes)
	if err != nil {
		return err
	}
	last := scenarioStart.Add(time.Hour) - 1
	for _, v := range []struct {
		cost int64
		want error
	}{{1, nil}, {2, penstock.ErrClosed}, {0, penstock.ErrClosed}, {1, nil}} {
		s := settled(penstock.Settlement{Now: last, Nonce: 7, Charges: group(m, v.cost).Charges})
		a, err := play(nodes, who, &s)
		if err != nil || a.refusal != v.want {
			return fmt.Errorf("settled with %d in the last moment: %v, %w; want %v", v.cost, a.refusal, err, v.want)
		}
		peek := one(last, m, 0, 0, 0)
		out, err := take(nodes, who, &peek)
		if err != nil {
			return err
		}
		if used := out.Decisions[0].Used; used != 1 {
			return fmt.Errorf("settled with 1, then with %d: %d are used", v.cost, used)
		}
	}
	return nil
}

// checkBans bans in ways that no store could.
func checkBans(nodes []penstock.Store) error {
	p := must(penstock.PenaltyTerms{After: 1, Within: time.Minute, Bans: []time.Duration{time.Minute}, ForgiveAfter: time.Minute}.Compile())
	m := perMinute(5)
	var errs []error
	for _, v := range []struct {
		name, want string
		ban        penstock.Ban
	}{
		{"no penalty", "no penalty", penstock.Ban{Now: scenarioStart, Length: time.Minute}},
		{"a negative length", "-1m0s", penstock.Ban{Now: scenarioStart, Penalty: p, Length: -time.Minute}},
		{"too short", "1µs", penstock.Ban{Now: scenarioStart, Penalty: p, Length: time.Microsecond}},
		{"too long", "8784h0m0.000000001s", penstock.Ban{Now: scenarioStart, Penalty: p, Length: penstock.MaxWindow + 1}},
		{"before the epoch", "now -1", penstock.Ban{Now: -1, Penalty: p, Length: time.Minute}},
		{"after the last instant", "now 4503599627370496", penstock.Ban{Now: penstock.MaxInstant + 1, Penalty: p, Length: time.Minute}},
	} {
		who := newcomer()
		v.ban.Subject = who
		err := safely(func() error {
			_, err := nodes[0].(penstock.Banner).Ban(context.Background(), &v.ban)
			return err
		})
		if refusalOf(err) != penstock.ErrInvalid || !strings.Contains(err.Error(), v.want) {
			errs = append(errs, fmt.Errorf("%s: error is %v, want one that wraps %q and says %q", v.name, err, penstock.ErrInvalid, v.want))
		}
		g := group(m, 1)
		g.Penalty = p
		s := asked(scenarioStart, 1, g)
		if out, err := take(nodes, []penstock.Subject{who}, &s); err != nil || !out.Allowed {
			errs = append(errs, fmt.Errorf("%s: a call is then answered %+v, %w", v.name, out.Groups, err))
		}
	}
	return errors.Join(errs...)
}

// checkEndedContexts does everything but calls with a context that has ended: nothing comes of it.
func checkEndedContexts(nodes []penstock.Store) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	who, m, err := reserved(nodes)
	if err != nil {
		return err
	}
	node := nodes[0].(Able)
	g := group(m, 3)
	g.Subject = who[0]
	g.Penalty = must(penstock.PenaltyTerms{After: 1, Within: time.Minute, Bans: []time.Duration{time.Minute}, ForgiveAfter: time.Minute}.Compile())
	var errs []error
	for name, do := range map[string]func() error{
		"settle": func() error {
			s := &penstock.Settlement{Now: scenarioStart, Subject: who[0], Nonce: 7, Charges: group(m, 1).Charges}
			return node.Settle(ctx, s, new(penstock.Settled))
		},
		"ban": func() error {
			_, err := node.Ban(ctx, &penstock.Ban{Now: scenarioStart, Subject: who[0], Penalty: g.Penalty, Length: time.Minute})
			return err
		},
		"reset": func() error { return node.Reset(ctx, &g) },
		"inspect": func() error {
			_, _, err := node.Reservations(ctx, scenarioStart, who[0], 10)
			return err
		},
	} {
		if err := do(); !errors.Is(err, penstock.ErrUnavailable) || !errors.Is(err, ctx.Err()) {
			errs = append(errs, fmt.Errorf("%s: error is %v, want one that wraps %v and %v", name, err, penstock.ErrUnavailable, ctx.Err()))
		}
	}
	peek := group(m, 0)
	peek.Penalty = g.Penalty
	s := asked(scenarioStart, 1, peek)
	if out, err := take(nodes, who, &s); err != nil || !out.Allowed {
		errs = append(errs, fmt.Errorf("a peek is then answered %+v, %w", out.Groups, err))
	}
	return errors.Join(append(errs, stillReserved(nodes, who, m))...)
}

// checkInspection asks for some of several reservations, of one subject beside another.
func checkInspection(nodes []penstock.Store) error {
	const several = 5
	who, m, err := reserved(nodes)
	if err != nil {
		return err
	}
	for nonce := range uint64(several - 1) {
		g := group(m, 1)
		g.Reserve = time.Minute
		s := asked(scenarioStart, 1<<63+nonce, g)
		if _, err := take(nodes, who, &s); err != nil {
			return err
		}
	}
	for most := range several + 2 {
		got, total, err := nodes[1].(penstock.Inspector).Reservations(context.Background(), scenarioStart, who[0], most)
		if err != nil {
			return err
		}
		if len(got) != min(most, several) || total != several {
			return fmt.Errorf("asked for %d of %d: got %d of %d", most, several, len(got), total)
		}
	}
	got, _, err := nodes[1].(penstock.Inspector).Reservations(context.Background(), scenarioStart, who[1], several)
	if err != nil || len(got) != 0 {
		return fmt.Errorf("another subject has %+v reserved, %w", got, err)
	}
	return nil
}

// checkSettledReuse gives the store a Settled that still holds what another settlement left.
func checkSettledReuse(nodes []penstock.Store) error {
	who, m, err := reserved(nodes)
	if err != nil {
		return err
	}
	stale := penstock.Settled{Now: 1, Again: true, Until: 99, Decisions: make([]penstock.Decision, 7, 40)}
	for i := range stale.Decisions {
		stale.Decisions[i] = penstock.Decision{Used: 99, RetryAfter: 99, Delay: 99, Receipt: penstock.Receipt{Cost: 99}}
	}
	s := penstock.Settlement{Now: scenarioStart, Subject: who[0], Nonce: 7, Charges: group(m, 2).Charges}
	if err := nodes[0].(penstock.Settler).Settle(context.Background(), &s, &stale); err != nil {
		return err
	}
	peek := one(scenarioStart, m, 0, 0, 0)
	out, err := take(nodes, who, &peek)
	if err != nil {
		return err
	}
	want := penstock.Settled{Now: scenarioStart, Allowed: true, Decisions: out.Decisions}
	if diff := difference(&answer{settled: want}, &answer{settled: stale}); diff != "" {
		return fmt.Errorf("it differs where it was used before (-new +used):\n%s", diff)
	}
	return nil
}

// checkIDs sends ids as hostile as keys: each is its own call and no other.
func checkIDs(nodes []penstock.Store) error {
	const long = 10 << 20
	g := group(perMinute(100), 1)
	g.Dedup = repeats(time.Minute, 1, 100, time.Minute)
	cast := newcomers(1)
	ids := []string{
		"", "a", "a\x00", "\x00", "{}", "a\r\n", "\xff\xfe", "🚰", "pen:{a}",
		strings.Repeat("x", long), strings.Repeat("x", long-1), strings.Repeat("x", long-1) + "y",
	}
	for _, again := range []bool{false, true} {
		for _, id := range ids {
			g.Call = hasher.Call(id)
			s := asked(scenarioStart, 1, g)
			out, err := take(nodes, cast, &s)
			if err != nil {
				return err
			}
			if out.Groups[0].Replay != again {
				return fmt.Errorf("id %.20q of %d bytes: again is %v, replay is %v", id, len(id), again, out.Groups[0].Replay)
			}
		}
	}
	return nil
}

// checkGuardedExtremes does everything at the ends of the time that can be told.
func checkGuardedExtremes(nodes []penstock.Store) error {
	p := must(penstock.PenaltyTerms{After: 2, Within: penstock.MaxWindow, Bans: []time.Duration{time.Millisecond, penstock.MaxWindow}, ForgiveAfter: penstock.MaxWindow}.Compile())
	d := repeats(penstock.MaxDedupTTL, penstock.MaxReplays, 3, penstock.MaxWindow)
	return forEachKind(func(m *penstock.Meter) error {
		model, cast := NewModel(), newcomers(1)
		for i, now := range []penstock.Instant{1, 1, 2, 1001, penstock.MaxInstant, penstock.MaxInstant, penstock.MaxInstant, penstock.MaxInstant - 1, 1, 2} {
			g := group(m, 1)
			g.Penalty, g.Dedup, g.Call = p, d, hasher.Call(fmt.Sprint(i%4))
			steps := []step{asked(now, uint64(i/3+1), g)}
			if m.Returns() == nil {
				steps[0].ticket.Groups[0].Reserve = penstock.MaxReserve
				steps = append(steps, settled(penstock.Settlement{
					Now: now, Nonce: uint64(i/3 + 1), Verb: penstock.Verb(i % 3), TTL: penstock.MaxReserve, Charges: group(m, 2).Charges,
				}))
			}
			if i%4 == 3 {
				steps = append(steps, banned(now, p, penstock.MaxWindow), banned(now, p, 0))
			}
			for j := range steps {
				want, got, err := both(model, nodes, cast, &steps[j])
				if err != nil {
					return err
				}
				if diff := difference(want, got); diff != "" {
					return fmt.Errorf("%v (-model +store):\n%s", &steps[j], diff)
				}
			}
		}
		return nil
	})
}
