package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// An operationEvent is an operation other than a request: a settlement, a ban, a reset or a late charge.
type operationEvent struct {
	settle  *storage.Settlement // without charges, which come from the limits at that time
	cost    int64
	strikes bool // under the penalty at that time
	verdict string

	ban    bool
	length time.Duration // 0: lifted

	reset bool

	late  []amountChange // what was admitted without the store
	nonce uint64         // of the late charge

	at     algorithm.Instant
	expect []expectation
}

var verdicts = []string{"passes", "again", "denied", "closed", "unknown"}

// verdictOf names the result of a settlement.
func verdictOf(out *storage.SettleOutcome, refusal error) string {
	switch {
	case refusal == storage.ErrClosed:
		return "closed"
	case refusal == storage.ErrNoReservation:
		return "unknown"
	case !out.Allowed:
		return "denied"
	case out.Again:
		return "again"
	}
	return "passes"
}

// play performs the operation for the group of the current limits.
func (e *operationEvent) play(node CompleteStore, g storage.Group) error {
	ctx := context.Background()
	switch {
	case e.ban:
		_, err := node.Ban(ctx, &storage.Ban{Now: e.at, Subject: g.Subject, Penalty: g.Penalty, Length: e.length})
		return err
	case e.reset:
		return node.Reset(ctx, &g)
	case e.late != nil:
		return node.ChargeLate(ctx, e.lateCharge(&g))
	}
	s := *e.settle
	s.Now, s.Subject = e.at, g.Subject
	if e.strikes {
		s.Strike = g.Penalty
	}
	for _, c := range g.Charges {
		s.Charges = append(s.Charges, algorithm.Charge{Meter: c.Meter, Cost: e.cost})
	}
	var out storage.SettleOutcome
	err := node.Settle(ctx, &s, &out)
	refusal := refusalOf(err)
	if err != nil && (refusal == nil || refusal == algorithm.ErrInvalid) {
		return err
	}
	if got := verdictOf(&out, refusal); got != e.verdict {
		return fmt.Errorf("%v is answered %q, want %q: %+v", s.Verb, got, e.verdict, out)
	}
	if refusal != nil {
		return nil
	}
	return check(e.expect, out.Decisions, nil, out.Now)
}

// lateCharge returns a late charge of all limits of the group that can be charged late.
func (e *operationEvent) lateCharge(g *storage.Group) *storage.LateCharge {
	c := &storage.LateCharge{Now: e.at, Subject: g.Subject, Nonce: e.nonce}
	for i := range g.Charges {
		a := lateAmount{meter: g.Charges[i].Meter}
		if !a.meter.CanChargeLate() {
			continue
		}
		for _, f := range e.late {
			a.admit(f.at, f.amount)
		}
		c.Amounts = append(c.Amounts, a.amount())
	}
	return c
}

// parseLate reads "3 of 0s, 1 of 4s with nonce 9".
func (e *operationEvent) parseLate(clauses []string) error {
	for i, clause := range clauses {
		w := &words{left: strings.Fields(clause)}
		amount, err := w.number()
		if err != nil {
			return err
		}
		if !w.skip("of") {
			return fmt.Errorf("want %q in %q", "<amount> of <instant>", clause)
		}
		at, err := parseInstant(w.next())
		if err != nil {
			return err
		}
		e.late = append(e.late, amountChange{at, amount})
		if i == len(clauses)-1 {
			if !w.skip("with") || !w.skip("nonce") {
				return fmt.Errorf("want %q at the end of %q", "with nonce N", clause)
			}
			nonce, err := w.number()
			if err != nil {
				return err
			}
			e.nonce = uint64(nonce)
		}
		if len(w.left) > 0 {
			return fmt.Errorf("unknown word %q", w.left[0])
		}
	}
	return nil
}

// parseGuard reads "penalty after 3 within 10m bans 1m,5m forgive 1h", "dedup ttl 5m replays 1 budget 1/60s
// beside sliding_window_log" or "reserve 10m". The group has the guard from then on.
func parseGuard(kind string, w *words) (func(g *storage.Group), error) {
	switch kind {
	case "penalty":
		p, err := parsePenalty(w)
		return func(g *storage.Group) { g.Penalty = p }, err
	case "dedup":
		d, err := parseDedup(w)
		return func(g *storage.Group) { g.Dedup = d }, err
	}
	d, err := w.duration()
	return func(g *storage.Group) { g.Reserve = d }, err
}

func parsePenalty(w *words) (*algorithm.Penalty, error) {
	var t algorithm.PenaltyTerms
	var err error
	for len(w.left) > 0 && err == nil {
		switch word := w.next(); word {
		case "after":
			t.After, err = w.number()
		case "within":
			t.Within, err = w.duration()
		case "forgive":
			t.ForgiveAfter, err = w.duration()
		case "bans":
			for _, text := range strings.Split(w.next(), ",") {
				ban, bad := parseDuration(text)
				if bad != nil {
					return nil, bad
				}
				t.Bans = append(t.Bans, ban)
			}
		default:
			err = fmt.Errorf("unknown word %q in a penalty", word)
		}
	}
	if err != nil {
		return nil, err
	}
	return t.Compile()
}

func parseDedup(w *words) (*algorithm.Dedup, error) {
	var t algorithm.DedupTerms
	var err error
	for len(w.left) > 0 && err == nil {
		switch word := w.next(); word {
		case "ttl":
			t.TTL, err = w.duration()
		case "replays":
			t.MaxReplays, err = w.number()
		case "budget":
			t.Beside.Algorithm = algorithm.FixedWindow
			t.Budget, t.Beside.Window, t.Beside.Period, err = parseRate(w.next())
		case "beside":
			err = t.Beside.Algorithm.UnmarshalText([]byte(w.next()))
		default:
			err = fmt.Errorf("unknown word %q in a dedup", word)
		}
	}
	if err != nil {
		return nil, err
	}
	return t.Compile()
}

// parseAround reads "settle nonce 7 of 3 overage debt passes, used 3", "settle nonce 7 of 1 striking passes",
// "release nonce 7 again", "renew nonce 7 for 10m passes", "refund of 3 passes", "ban for 1h", "lift", "reset" or
// "charge late 3 of 0s with nonce 9". It returns false for anything else.
func (p *scenarioParser) parseAround(at algorithm.Instant, clauses []string) (_ *operationEvent, ok bool, err error) {
	w := &words{left: strings.Fields(clauses[0])}
	e := &operationEvent{at: at}
	switch word := w.next(); word {
	case "ban":
		e.ban = true
		if !w.skip("for") {
			return nil, true, fmt.Errorf("want %q", "ban for")
		}
		if e.length, err = w.duration(); err != nil {
			return nil, true, err
		}
	case "lift":
		e.ban = true
	case "reset":
		e.reset = true
	case "charge":
		if !w.skip("late") {
			return nil, true, fmt.Errorf("want %q", "charge late")
		}
		clauses[0] = strings.Join(w.left, " ")
		return e, true, e.parseLate(clauses)
	case "settle", "release", "renew", "refund":
		e.settle = &storage.Settlement{Verb: map[string]storage.Verb{"settle": storage.Settle, "release": storage.Release, "renew": storage.Renew, "refund": storage.Refund}[word]}
		err = e.parseSettlement(w)
	default:
		return nil, false, nil
	}
	if err == nil && len(w.left) > 0 {
		err = fmt.Errorf("unknown word %q", w.left[0])
	}
	if err == nil && e.settle == nil && len(clauses) > 1 {
		err = fmt.Errorf("nothing can be expected of %q", clauses[0])
	}
	if err != nil {
		return nil, true, err
	}
	e.expect, err = p.parseExpectations(clauses[1:])
	return e, true, err
}

func (e *operationEvent) parseSettlement(w *words) (err error) {
	for err == nil {
		switch word := w.next(); word {
		case "nonce":
			var n int64
			n, err = w.number()
			e.settle.Nonce = uint64(n)
		case "of":
			e.cost, err = w.number()
		case "overage":
			err = e.settle.Overage.UnmarshalText([]byte(w.next()))
		case "for":
			e.settle.TTL, err = w.duration()
		case "striking":
			e.strikes = true
		default:
			for _, v := range verdicts {
				if word == v {
					e.verdict = v
					return nil
				}
			}
			err = fmt.Errorf("unknown word %q; the verdict is one of %v", word, verdicts)
		}
	}
	return err
}
