package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// parseCalls reads what follows "at": "59s: 5 calls pass, remaining 0".
func (p *scenarioParser) parseCalls(s string) (event, error) {
	at, rest, ok := strings.Cut(s, ": ")
	if !ok {
		return event{}, fmt.Errorf("want %q after %q", ": ", s)
	}
	c := &callsEvent{count: 1, cost: 1}
	var err error
	if c.at, err = parseInstant(at); err != nil {
		return event{}, err
	}
	clauses := strings.Split(rest, ", ")
	if around, ok, err := p.parseAround(c.at, clauses); ok {
		return event{around: around}, err
	}
	if err := c.parseAsk(&words{left: strings.Fields(clauses[0])}); err != nil {
		return event{}, err
	}
	c.expect, err = p.parseExpectations(clauses[1:])
	return event{calls: c}, err
}

func (p *scenarioParser) parseExpectations(clauses []string) (expect []expectation, err error) {
	for _, clause := range clauses {
		x, err := p.parseExpectation(clause)
		if err != nil {
			return nil, fmt.Errorf("in %q: %w", clause, err)
		}
		expect = append(expect, x)
	}
	return expect, nil
}

func parseInstant(s string) (algorithm.Instant, error) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return algorithm.InstantOf(t), nil
	}
	d, err := parseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("neither an RFC 3339 time nor a duration: %q", s)
	}
	return scenarioStart.Add(d), nil
}

// parseAsk reads "5 calls of 3 waiting up to 2s with nonce 7 pass", or "peek denied".
func (c *callsEvent) parseAsk(w *words) (err error) {
	if w.skip("peek") {
		c.cost = 0
	} else {
		n, err := w.number()
		if err != nil {
			return err
		}
		if n < 1 || n > 100_000 {
			return fmt.Errorf("%d calls: must be from 1 to 100,000", n)
		}
		c.count = int(n)
		if !w.skip("call") && !w.skip("calls") {
			return fmt.Errorf("want call or calls, got %q", w.next())
		}
	}
	for {
		switch word := w.next(); word {
		case "of":
			if c.cost == 0 {
				return fmt.Errorf("a peek costs nothing")
			}
			if c.cost, err = w.number(); err != nil {
				return err
			}
		case "waiting":
			if !w.skip("up") || !w.skip("to") {
				return fmt.Errorf("want %q", "waiting up to")
			}
			if c.maxDelay, err = w.duration(); err != nil {
				return err
			}
		case "queueing":
			c.maxDelay = algorithm.AnyDelay
		case "with":
			switch what := w.next(); what {
			case "nonce":
				n, err := w.number()
				if err != nil {
					return err
				}
				c.nonce = uint64(n)
			case "id":
				c.id = w.next()
			default:
				return fmt.Errorf("want %q or %q, got %q", "with nonce", "with id", what)
			}
		case "overdrawing":
			c.overdraw = true
		case "pass", "passes", "denied":
			c.pass = word != "denied"
			if len(w.left) > 0 {
				return fmt.Errorf("unknown word %q after %q; expectations follow a comma", w.left[0], word)
			}
			return nil
		case "":
			return fmt.Errorf("neither pass nor denied")
		default:
			return fmt.Errorf("unknown word %q", word)
		}
	}
}

// parseExpectation reads "retry after 10s" or "limit 2 remaining 3".
func (p *scenarioParser) parseExpectation(s string) (expectation, error) {
	w := &words{left: strings.Fields(s)}
	x := expectation{text: s, limit: everyLimit}
	if w.skip("limit") {
		n, err := w.number()
		if err != nil {
			return x, err
		}
		if n < 1 || int(n) > p.limits {
			return x, fmt.Errorf("there is no limit %d", n)
		}
		x.limit = int(n) - 1
	}
	err := x.parseWhat(w, x.limit == everyLimit && p.limits > 1)
	if err == nil && len(w.left) > 0 {
		err = fmt.Errorf("unknown word %q", w.left[0])
	}
	return x, err
}

func (x *expectation) parseWhat(w *words, several bool) (err error) {
	what := w.next()
	if x.limit == everyLimit {
		if ok, err := x.parseGroup(what, w); ok || err != nil {
			return err
		}
	}
	if several && what != "retry" {
		return fmt.Errorf("of which limit? write %q", "limit 1 "+what)
	}
	switch what {
	case "retry":
		return x.parseRetry(w)
	case "reset":
		if !w.skip("after") {
			return fmt.Errorf("want %q", "reset after")
		}
		return x.duration(w, func(d algorithm.Decision) time.Duration { return d.ResetAfter })
	case "delay":
		return x.duration(w, func(d algorithm.Decision) time.Duration { return d.Delay })
	case "used":
		return x.number(w, func(d algorithm.Decision) int64 { return d.Used })
	case "remaining":
		return x.number(w, func(d algorithm.Decision) int64 { return d.Remaining })
	case "passes", "denies":
		x.check = func(ds []algorithm.Decision) (any, bool) {
			return ds[0].Allowed, ds[0].Allowed == (what == "passes")
		}
		return nil
	}
	return fmt.Errorf("unknown word %q", what)
}

// parseGroup reads an expectation about the group: "repeated", "not repeated", "banned for 1m", "not
// banned", "strikes 2" or "bans 1". It returns false for anything else.
func (x *expectation) parseGroup(what string, w *words) (ok bool, err error) {
	not := what == "not"
	if not {
		what = w.next()
	}
	switch {
	case what == "repeated":
		x.group = func(o *storage.GroupOutcome, _ algorithm.Instant) (any, bool) { return o.Replay, o.Replay != not }
	case what == "banned" && not:
		x.group = func(o *storage.GroupOutcome, _ algorithm.Instant) (any, bool) {
			return o.BannedUntil, o.BannedUntil == 0
		}
	case not:
		return false, fmt.Errorf("want %q or %q", "not repeated", "not banned")
	case what == "banned":
		if !w.skip("for") {
			return false, fmt.Errorf("want %q", "banned for")
		}
		var left time.Duration
		left, err = w.duration()
		x.group = func(o *storage.GroupOutcome, now algorithm.Instant) (any, bool) {
			return o.BannedUntil.Sub(now), o.BannedUntil == now.Add(left)
		}
	case what == "strikes":
		err = x.groupNumber(w, func(o *storage.GroupOutcome) int64 { return o.Strikes })
	case what == "bans":
		err = x.groupNumber(w, func(o *storage.GroupOutcome) int64 { return o.Bans })
	default:
		return false, nil
	}
	return true, err
}

func (x *expectation) groupNumber(w *words, of func(*storage.GroupOutcome) int64) error {
	want, err := w.number()
	x.group = func(o *storage.GroupOutcome, _ algorithm.Instant) (any, bool) { return of(o), of(o) == want }
	return err
}

// parseRetry reads "after 10s" or "never". With several limits, the longest counts.
func (x *expectation) parseRetry(w *words) error {
	want := algorithm.Never
	if !w.skip("never") {
		if !w.skip("after") {
			return fmt.Errorf("want %q or %q", "retry after", "retry never")
		}
		var err error
		if want, err = w.duration(); err != nil {
			return err
		}
	}
	x.check = func(ds []algorithm.Decision) (any, bool) {
		var longest time.Duration
		for _, d := range ds {
			if d.RetryAfter == algorithm.Never || longest == algorithm.Never {
				longest = algorithm.Never
			} else {
				longest = max(longest, d.RetryAfter)
			}
		}
		return longest, longest == want
	}
	return nil
}

func (x *expectation) duration(w *words, of func(algorithm.Decision) time.Duration) error {
	want, err := w.duration()
	x.check = func(ds []algorithm.Decision) (any, bool) { return of(ds[0]), of(ds[0]) == want }
	return err
}

func (x *expectation) number(w *words, of func(algorithm.Decision) int64) error {
	want, err := w.number()
	x.check = func(ds []algorithm.Decision) (any, bool) { return of(ds[0]), of(ds[0]) == want }
	return err
}
