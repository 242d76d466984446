package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
)

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
		"charge late": func() error {
			a := lateAmount{meter: m}
			a.admit(scenarioStart, 1)
			return node.ChargeLate(ctx, &penstock.LateCharge{Now: scenarioStart, Subject: who[0], Nonce: 7, Amounts: []penstock.LateAmount{a.amount()}})
		},
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

// checkInvalidResets resets what no store can, and forgets nothing; and resets a subject that is banned
// by a rule without a penalty any more, which lifts the ban.
func checkInvalidResets(nodes []penstock.Store) error {
	m := perMinute(5)
	reset := func(g penstock.Group) error {
		return safely(func() error { return nodes[0].(penstock.Resetter).Reset(context.Background(), &g) })
	}
	var errs []error
	for name, charges := range map[string][]penstock.Charge{
		"no meter":         {{}},
		"a nil meter last": {{Meter: m}, {}},
		"too many charges": slices.Repeat([]penstock.Charge{{Meter: m}}, penstock.MaxCharges+1),
	} {
		who := []penstock.Subject{newcomer()}
		s := one(scenarioStart, m, 1, 0, 0)
		if _, err := take(nodes, who, &s); err != nil {
			return err
		}
		if err := reset(penstock.Group{Subject: who[0], Charges: charges}); refusalOf(err) != penstock.ErrInvalid {
			errs = append(errs, fmt.Errorf("reset with %s: error is %v, want one that wraps %q", name, err, penstock.ErrInvalid))
		}
		peek := one(scenarioStart, m, 0, 0, 0)
		if out, err := take(nodes, who, &peek); err != nil || out.Decisions[0].Used != 1 {
			errs = append(errs, fmt.Errorf("reset with %s: %d are used then (%w)", name, out.Decisions[0].Used, err))
		}
	}
	return errors.Join(append(errs, checkResetLifts(nodes, reset))...)
}

func checkResetLifts(nodes []penstock.Store, reset func(penstock.Group) error) error {
	p := must(penstock.PenaltyTerms{After: 1, Within: time.Minute, Bans: []time.Duration{time.Hour}, ForgiveAfter: time.Hour}.Compile())
	for _, named := range []*penstock.Penalty{p, nil} {
		for _, charges := range [][]penstock.Charge{nil, {{Meter: perMinute(5)}}} {
			who := []penstock.Subject{newcomer()}
			ban := banned(scenarioStart, p, time.Hour)
			if _, err := play(nodes, who, &ban); err != nil {
				return err
			}
			if err := reset(penstock.Group{Subject: who[0], Charges: charges, Penalty: named}); err != nil {
				return err
			}
			g := group(perMinute(5), 1)
			g.Penalty = p
			s := asked(scenarioStart, 1, g)
			if out, err := take(nodes, who, &s); err != nil || !out.Allowed {
				return fmt.Errorf("a subject that was banned and reset (its penalty named: %v): allowed %v (%w)", named != nil, out.Allowed, err)
			}
		}
	}
	return nil
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
	for _, v := range []struct {
		now  penstock.Instant
		most int
	}{{scenarioStart, -1}, {scenarioStart, math.MinInt}, {-1, 1}, {penstock.MaxInstant + 1, 1}} {
		err := safely(func() error {
			_, _, err := nodes[1].(penstock.Inspector).Reservations(context.Background(), v.now, who[0], v.most)
			return err
		})
		if refusalOf(err) != penstock.ErrInvalid {
			return fmt.Errorf("asked for %d at %d: error is %v, want one that wraps %q", v.most, v.now, err, penstock.ErrInvalid)
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
