package storetest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

// scenarioStart is the origin of offsets: a day whose number since the epoch, 20,160, is a multiple of 1 to
// 10, so that windows of 1 to 10 days, and all shorter ones, start there.
var scenarioStart = algorithm.InstantOf(time.Unix(0, 0).AddDate(0, 0, 20160))

// parseScenario reads a scenario. Anything it does not understand is an error that names the line.
func parseScenario(file, text string) (*scenario, error) {
	p := scenarioParser{}
	var problems []error
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		where := fmt.Sprintf("%s:%d", file, i+1)
		e, err := p.parseLine(line)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", where, err))
			continue
		}
		e.line = where
		p.scenario.events = append(p.scenario.events, e)
	}
	if len(problems) == 0 && !p.called {
		problems = append(problems, fmt.Errorf("%s: no call is made", file))
	}
	return &p.scenario, errors.Join(problems...)
}

type scenarioParser struct {
	scenario scenario
	limits   int
	called   bool
	alone    bool // an independent limit was seen: only more of them may follow
}

func (p *scenarioParser) parseLine(line string) (event, error) {
	if rest, ok := strings.CutPrefix(line, "at "); ok {
		if p.limits == 0 {
			return event{}, errors.New("a call is made before there is a limit")
		}
		p.called = true
		return p.parseCalls(rest)
	}
	w := words{left: strings.Fields(line)}
	for _, kind := range []string{"penalty", "dedup", "reserve"} {
		if w.skip(kind) {
			guard, err := parseGuard(kind, &w)
			if err == nil && len(w.left) > 0 {
				err = fmt.Errorf("unknown word %q", w.left[0])
			}
			return event{guard: guard}, err
		}
	}
	alone := w.skip("alone")
	if !w.skip("limit") {
		return event{}, fmt.Errorf("unknown word %q: a line starts with limit, alone limit, penalty, dedup, reserve or at", w.next())
	}
	return p.parseLimit(&w, alone)
}

// parseLimit reads "token_bucket 10/1s burst 20", or "2 changes to token_bucket 20/1s".
func (p *scenarioParser) parseLimit(w *words, alone bool) (event, error) {
	index := p.limits
	if len(w.left) > 1 && (w.left[0] == "changes" || w.left[1] == "changes") {
		index = 0
		if w.left[0] != "changes" {
			n, err := w.number()
			if err != nil {
				return event{}, err
			}
			index = int(n) - 1
		}
		if !w.skip("changes") || !w.skip("to") {
			return event{}, fmt.Errorf("want %q, got %q", "changes to", w.left)
		}
		if index < 0 || index >= p.limits {
			return event{}, fmt.Errorf("limit %d changes, but there are %d", index+1, p.limits)
		}
	} else {
		switch {
		case p.called:
			return event{}, errors.New("a limit appears after calls were made; let one change instead")
		case p.alone && !alone:
			return event{}, errors.New("limits that stand together come before those that are alone")
		}
		p.limits++
		p.alone = alone
	}
	l, err := parseLimitWords(w)
	if err != nil {
		return event{}, err
	}
	m, err := l.Compile()
	if err != nil {
		return event{}, err
	}
	return event{limit: &limitEvent{index: index, meter: m, alone: alone}}, nil
}

func parseLimitWords(w *words) (l algorithm.Limit, err error) {
	if err := l.Algorithm.UnmarshalText([]byte(w.next())); err != nil {
		return l, err
	}
	if l.Count, l.Window, l.Period, err = parseRate(w.next()); err != nil {
		return l, err
	}
	for len(w.left) > 0 && err == nil {
		switch word := w.next(); word {
		case "burst":
			l.Burst, err = w.number()
		case "queue":
			l.Queue, err = w.number()
		case "ordinal":
			var n int64
			n, err = w.number()
			l.Ordinal = uint8(min(n, 255))
		case "refill":
			err = l.Refill.UnmarshalText([]byte(w.next()))
		case "count_denied":
			l.CountDenied = true
		case "count_all":
			l.CountAll = true
		case "overdraft":
			l.Overdraft, err = w.number()
		case "zone":
			l.Location, err = time.LoadLocation(w.next())
		default:
			err = fmt.Errorf("unknown word %q in a limit", word)
		}
	}
	return l, err
}

// parseRate reads "10/1s" or "10/day".
func parseRate(s string) (count int64, window time.Duration, period algorithm.Period, err error) {
	number, per, ok := strings.Cut(s, "/")
	if !ok {
		return 0, 0, 0, fmt.Errorf("want count/window, got %q", s)
	}
	if count, err = parseNumber(number); err != nil {
		return 0, 0, 0, err
	}
	if period.UnmarshalText([]byte(per)) != nil {
		if window, err = parseDuration(per); err != nil {
			return 0, 0, 0, fmt.Errorf("neither a period nor a duration: %w", err)
		}
	}
	return count, window, period, nil
}

// words are consumed from the left.
type words struct{ left []string }

func (w *words) next() string {
	if len(w.left) == 0 {
		return ""
	}
	word := w.left[0]
	w.left = w.left[1:]
	return word
}

func (w *words) skip(word string) bool {
	if len(w.left) == 0 || w.left[0] != word {
		return false
	}
	w.left = w.left[1:]
	return true
}

func (w *words) number() (int64, error) { return parseNumber(w.next()) }

func (w *words) duration() (time.Duration, error) { return parseDuration(w.next()) }

func parseNumber(s string) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(s, ",", ""), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("not a number: %q", s)
	}
	return n, nil
}

// parseDuration reads the format of package time after an optional number of days: "7d", "1d2h", "-30d".
func parseDuration(s string) (time.Duration, error) {
	days, rest, ok := strings.Cut(s, "d")
	if !ok {
		return time.ParseDuration(s)
	}
	n, err := parseNumber(days)
	if err != nil {
		return 0, fmt.Errorf("not a duration: %q", s)
	}
	d := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	return d + more, err
}
