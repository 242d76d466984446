package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// checkBans requests bans that are invalid for every store.
func checkBans(nodes []storage.Store) error {
	p := must(algorithm.PenaltyTerms{After: 1, Within: time.Minute, Bans: []time.Duration{time.Minute}, ForgiveAfter: time.Minute}.Compile())
	m := perMinute(5)
	var errs []error
	for _, v := range []struct {
		name, want string
		ban        storage.Ban
	}{
		{"no penalty", "no penalty", storage.Ban{Now: scenarioStart, Length: time.Minute}},
		{"a negative length", "-1m0s", storage.Ban{Now: scenarioStart, Penalty: p, Length: -time.Minute}},
		{"too short", "1µs", storage.Ban{Now: scenarioStart, Penalty: p, Length: time.Microsecond}},
		{"too long", "8784h0m0.000000001s", storage.Ban{Now: scenarioStart, Penalty: p, Length: algorithm.MaxWindow + 1}},
		{"before the epoch", "now -1", storage.Ban{Now: -1, Penalty: p, Length: time.Minute}},
		{"after the last instant", "now 4503599627370496", storage.Ban{Now: algorithm.MaxInstant + 1, Penalty: p, Length: time.Minute}},
	} {
		who := newSubject()
		v.ban.Subject = who
		err := safely(func() error {
			_, err := nodes[0].(storage.Banner).Ban(context.Background(), &v.ban)
			return err
		})
		if refusalOf(err) != algorithm.ErrInvalid || !strings.Contains(err.Error(), v.want) {
			errs = append(errs, fmt.Errorf("%s: error is %v, want one that wraps %q and says %q", v.name, err, algorithm.ErrInvalid, v.want))
		}
		g := group(m, 1)
		g.Penalty = p
		s := singleGroup(scenarioStart, 1, g)
		if out, err := take(nodes, []storage.Subject{who}, &s); err != nil || !out.Allowed {
			errs = append(errs, fmt.Errorf("%s: a call is then answered %+v, %w", v.name, out.Groups, err))
		}
	}
	return errors.Join(errs...)
}

// checkEndedContexts does everything except requests with a context that has ended: nothing may change.
func checkEndedContexts(nodes []storage.Store) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	who, m, err := reserved(nodes)
	if err != nil {
		return err
	}
	node := nodes[0].(CompleteStore)
	g := group(m, 3)
	g.Subject = who[0]
	g.Penalty = must(algorithm.PenaltyTerms{After: 1, Within: time.Minute, Bans: []time.Duration{time.Minute}, ForgiveAfter: time.Minute}.Compile())
	var errs []error
	for name, do := range map[string]func() error{
		"settle": func() error {
			s := &storage.Settlement{Now: scenarioStart, Subject: who[0], Nonce: 7, Charges: group(m, 1).Charges}
			return node.Settle(ctx, s, new(storage.SettleOutcome))
		},
		"ban": func() error {
			_, err := node.Ban(ctx, &storage.Ban{Now: scenarioStart, Subject: who[0], Penalty: g.Penalty, Length: time.Minute})
			return err
		},
		"reset": func() error { return node.Reset(ctx, &g) },
		"charge late": func() error {
			a := lateAmount{meter: m}
			a.admit(scenarioStart, 1)
			return node.ChargeLate(ctx, &storage.LateCharge{Now: scenarioStart, Subject: who[0], Nonce: 7, Amounts: []storage.LateAmount{a.amount()}})
		},
		"inspect": func() error {
			_, _, err := node.Reservations(ctx, scenarioStart, who[0], 10)
			return err
		},
	} {
		if err := do(); !errors.Is(err, storage.ErrUnavailable) || !errors.Is(err, ctx.Err()) {
			errs = append(errs, fmt.Errorf("%s: error is %v, want one that wraps %v and %v", name, err, storage.ErrUnavailable, ctx.Err()))
		}
	}
	peek := group(m, 0)
	peek.Penalty = g.Penalty
	s := singleGroup(scenarioStart, 1, peek)
	if out, err := take(nodes, who, &s); err != nil || !out.Allowed {
		errs = append(errs, fmt.Errorf("a peek is then answered %+v, %w", out.Groups, err))
	}
	return errors.Join(append(errs, stillReserved(nodes, who, m))...)
}

// checkInvalidResets makes resets that are invalid for every store and must forget nothing. It also resets
// a banned subject whose rule no longer has a penalty, which lifts the ban.
func checkInvalidResets(nodes []storage.Store) error {
	m := perMinute(5)
	reset := func(g storage.Group) error {
		return safely(func() error { return nodes[0].(storage.Resetter).Reset(context.Background(), &g) })
	}
	var errs []error
	for name, charges := range map[string][]algorithm.Charge{
		"no meter":         {{}},
		"a nil meter last": {{Meter: m}, {}},
		"too many charges": slices.Repeat([]algorithm.Charge{{Meter: m}}, storage.MaxCharges+1),
	} {
		who := []storage.Subject{newSubject()}
		s := singleCharge(scenarioStart, m, 1, 0, 0)
		if _, err := take(nodes, who, &s); err != nil {
			return err
		}
		if err := reset(storage.Group{Subject: who[0], Charges: charges}); refusalOf(err) != algorithm.ErrInvalid {
			errs = append(errs, fmt.Errorf("reset with %s: error is %v, want one that wraps %q", name, err, algorithm.ErrInvalid))
		}
		peek := singleCharge(scenarioStart, m, 0, 0, 0)
		if out, err := take(nodes, who, &peek); err != nil || out.Decisions[0].Used != 1 {
			errs = append(errs, fmt.Errorf("reset with %s: %d are used then (%w)", name, out.Decisions[0].Used, err))
		}
	}
	return errors.Join(append(errs, checkResetLifts(nodes, reset))...)
}

func checkResetLifts(nodes []storage.Store, reset func(storage.Group) error) error {
	p := must(algorithm.PenaltyTerms{After: 1, Within: time.Minute, Bans: []time.Duration{time.Hour}, ForgiveAfter: time.Hour}.Compile())
	for _, named := range []*algorithm.Penalty{p, nil} {
		for _, charges := range [][]algorithm.Charge{nil, {{Meter: perMinute(5)}}} {
			who := []storage.Subject{newSubject()}
			ban := banned(scenarioStart, p, time.Hour)
			if _, err := play(nodes, who, &ban); err != nil {
				return err
			}
			if err := reset(storage.Group{Subject: who[0], Charges: charges, Penalty: named}); err != nil {
				return err
			}
			g := group(perMinute(5), 1)
			g.Penalty = p
			s := singleGroup(scenarioStart, 1, g)
			if out, err := take(nodes, who, &s); err != nil || !out.Allowed {
				return fmt.Errorf("a subject that was banned and reset (its penalty named: %v): allowed %v (%w)", named != nil, out.Allowed, err)
			}
		}
	}
	return nil
}

// checkInspection asks for some of several reservations of one subject next to another.
func checkInspection(nodes []storage.Store) error {
	const several = 5
	who, m, err := reserved(nodes)
	if err != nil {
		return err
	}
	for nonce := range uint64(several - 1) {
		g := group(m, 1)
		g.Reserve = time.Minute
		s := singleGroup(scenarioStart, 1<<63+nonce, g)
		if _, err := take(nodes, who, &s); err != nil {
			return err
		}
	}
	for most := range several + 2 {
		got, total, err := nodes[1].(storage.Inspector).Reservations(context.Background(), scenarioStart, who[0], most)
		if err != nil {
			return err
		}
		if len(got) != min(most, several) || total != several {
			return fmt.Errorf("asked for %d of %d: got %d of %d", most, several, len(got), total)
		}
	}
	for _, v := range []struct {
		now  algorithm.Instant
		most int
	}{{scenarioStart, -1}, {scenarioStart, math.MinInt}, {-1, 1}, {algorithm.MaxInstant + 1, 1}} {
		err := safely(func() error {
			_, _, err := nodes[1].(storage.Inspector).Reservations(context.Background(), v.now, who[0], v.most)
			return err
		})
		if refusalOf(err) != algorithm.ErrInvalid {
			return fmt.Errorf("asked for %d at %d: error is %v, want one that wraps %q", v.most, v.now, err, algorithm.ErrInvalid)
		}
	}
	got, _, err := nodes[1].(storage.Inspector).Reservations(context.Background(), scenarioStart, who[1], several)
	if err != nil || len(got) != 0 {
		return fmt.Errorf("another subject has %+v reserved, %w", got, err)
	}
	return nil
}

// checkSettledReuse passes the store a Settled that still holds what another settlement left.
func checkSettledReuse(nodes []storage.Store) error {
	who, m, err := reserved(nodes)
	if err != nil {
		return err
	}
	stale := storage.SettleOutcome{Now: 1, Again: true, Until: 99, Decisions: make([]algorithm.Decision, 7, 40)}
	for i := range stale.Decisions {
		stale.Decisions[i] = algorithm.Decision{Used: 99, RetryAfter: 99, Delay: 99, Receipt: algorithm.Receipt{Cost: 99}}
	}
	s := storage.Settlement{Now: scenarioStart, Subject: who[0], Nonce: 7, Charges: group(m, 2).Charges}
	if err := nodes[0].(storage.Settler).Settle(context.Background(), &s, &stale); err != nil {
		return err
	}
	peek := singleCharge(scenarioStart, m, 0, 0, 0)
	out, err := take(nodes, who, &peek)
	if err != nil {
		return err
	}
	want := storage.SettleOutcome{Now: scenarioStart, Allowed: true, Decisions: out.Decisions}
	if diff := difference(&answer{settled: want}, &answer{settled: stale}); diff != "" {
		return fmt.Errorf("it differs where it was used before (-new +used):\n%s", diff)
	}
	return nil
}

// checkIDs sends ids as hostile as the keys: each identifies its own request and no other.
func checkIDs(nodes []storage.Store) error {
	const long = 10 << 20
	g := group(perMinute(100), 1)
	g.Dedup = repeats(time.Minute, 1, 100, time.Minute)
	cast := newSubjects(1)
	ids := []string{
		"", "a", "a\x00", "\x00", "{}", "a\r\n", "\xff\xfe", "🚰", "pen:{a}",
		strings.Repeat("x", long), strings.Repeat("x", long-1), strings.Repeat("x", long-1) + "y",
	}
	for _, again := range []bool{false, true} {
		for _, id := range ids {
			g.Call = hasher.Call(id)
			s := singleGroup(scenarioStart, 1, g)
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

// checkGuardedExtremes does everything at both ends of the range of instants.
func checkGuardedExtremes(nodes []storage.Store) error {
	p := must(algorithm.PenaltyTerms{After: 2, Within: algorithm.MaxWindow, Bans: []time.Duration{time.Millisecond, algorithm.MaxWindow}, ForgiveAfter: algorithm.MaxWindow}.Compile())
	d := repeats(algorithm.MaxDedupTTL, algorithm.MaxReplays, 3, algorithm.MaxWindow)
	return forEachKind(func(m *algorithm.Meter) error {
		model, cast := NewModel(), newSubjects(1)
		for i, now := range []algorithm.Instant{1, 1, 2, 1001, algorithm.MaxInstant, algorithm.MaxInstant, algorithm.MaxInstant, algorithm.MaxInstant - 1, 1, 2} {
			g := group(m, 1)
			g.Penalty, g.Dedup, g.Call = p, d, hasher.Call(fmt.Sprint(i%4))
			steps := []step{singleGroup(now, uint64(i/3+1), g)}
			if m.Returns() == nil {
				steps[0].ticket.Groups[0].Reserve = storage.MaxReserve
				steps = append(steps, settlementOf(storage.Settlement{
					Now: now, Nonce: uint64(i/3 + 1), Verb: storage.Verb(i % 3), TTL: storage.MaxReserve, Charges: group(m, 2).Charges,
				}))
			}
			if i%4 == 3 {
				steps = append(steps, banned(now, p, algorithm.MaxWindow), banned(now, p, 0))
			}
			for j := range steps {
				want, got, err := playBoth(model, nodes, cast, &steps[j])
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
