package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/rules"
)

// patience bounds the wait for another process.
const patience = 30 * time.Second

// A script is a list of requests to an engine and the expected answers, line by line. Each line is
//
//	at  operation  ->  the answer
//
// with the time since the beginning, by the script's own clock. The operation is
//
//	call name=value…         attributes; cost=, id=, delay=, reserve or reserve=ttl, domain=
//	settle R cost=           R is the call's name for its reservation: as=R, or its original's: original=R
//	settle R name:value…     with a response of these headers and fields, bytes:, and charged:
//	release R, renew R ttl= cost=
//	rules file               from now on
//
// and the answer as [render] writes it.
type script struct {
	files []txtar.File
	stand *testEngine
	names map[string]string // of reservations
	alter func(*rules.Snapshot)
	diffs []string
}

// A testEngine is an engine whose clock and rules a script sets.
type testEngine struct {
	engine interface {
		penstock.Decider
		penstock.Concluder
	}
	clock atomic.Int64 // the engine reads it in the background too
	rules *rules.Snapshot
}

func newTestEngine() *testEngine {
	s := new(testEngine)
	s.set(beginning)
	return s
}

func (s *testEngine) Load() *rules.Snapshot     { return s.rules }
func (s *testEngine) instant() penstock.Instant { return penstock.Instant(s.clock.Load()) }
func (s *testEngine) set(now penstock.Instant)  { s.clock.Store(int64(now)) }

const beginning = penstock.Instant(1_800_000_000_000_000) // a multiple of an hour

// run plays the script with an engine of these options and returns the differences.
func run(t *testing.T, files []txtar.File, o engine.Options) (diffs []string) {
	t.Helper()
	return runWith(t, files, o, sabotage{})
}

// runWith is run with rules and verdicts that a sabotage alters.
func runWith(t *testing.T, files []txtar.File, o engine.Options, sabotage sabotage) (diffs []string) {
	t.Helper()
	s := &script{files: files, stand: newTestEngine(), names: map[string]string{}, alter: sabotage.rules}
	s.load(t, "rules.yaml")
	o.Rules = s.stand
	o.Now = s.stand.instant
	e := newEngine(t, "", o)
	if s.stand.engine = e; sabotage.verdict != nil {
		s.stand.engine = alteredEngine{e, sabotage.verdict}
	}
	for number, line := range strings.Split(s.file("script"), "\n") {
		if line, _, _ = strings.Cut(line, "#"); strings.TrimSpace(line) == "" {
			continue
		}
		asked, want, ok := strings.Cut(line, "->")
		if !ok {
			t.Fatalf("line %d has no answer: %s", number+1, line)
		}
		got, err := s.play(t, strings.Fields(asked))
		if err != nil {
			t.Fatalf("line %d: %v: %s", number+1, err, line)
		}
		if want = strings.Join(strings.Fields(want), " "); got != want {
			s.diffs = append(s.diffs, fmt.Sprintf("line %d: %s\n   want %s\n   got  %s", number+1, strings.TrimSpace(asked), want, got))
		}
	}
	return s.diffs
}

func (s *script) file(name string) string {
	i := slices.IndexFunc(s.files, func(f txtar.File) bool { return f.Name == name })
	if i < 0 {
		panic("the scenario lacks " + name)
	}
	return string(s.files[i].Data)
}

// load compiles a file of rules, to decide by from now on.
func (s *script) load(t *testing.T, file string) {
	s.stand.rules = compile(t, s.file(file))
	if s.alter != nil {
		s.alter(s.stand.rules)
	}
}

func (s *script) play(t *testing.T, words []string) (answer string, err error) {
	if len(words) < 2 {
		return "", errors.New("it says when, and what")
	}
	at, err := time.ParseDuration(words[0])
	if err != nil {
		return "", err
	}
	s.stand.set(beginning.Add(at))
	verb, words := words[1], words[2:]
	var v penstock.Verdict
	switch verb {
	case "call":
		c, as, original, err := readCall(words)
		if err != nil {
			return "", err
		}
		err = s.stand.engine.Decide(context.Background(), c, &v)
		if as != "" {
			s.names[as] = v.Reservation
		}
		if original != "" {
			s.names[original] = v.OriginalReservation
		}
		return render(&v, err), nil
	case "rules":
		s.load(t, words[0])
		return "", nil
	}
	c, err := s.readConclusion(verb, words)
	if err != nil {
		return "", err
	}
	err = s.stand.engine.Conclude(context.Background(), c, &v)
	return render(&v, err), nil
}

func readCall(words []string) (c *penstock.Call, as, original string, err error) {
	c = &penstock.Call{Cost: 1}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		var wrong error
		switch name {
		case "cost":
			c.Cost, wrong = strconv.ParseInt(value, 10, 64)
		case "id":
			c.ID = value
		case "domain":
			c.Domain = value
		case "delay":
			c.MaxDelay, wrong = time.ParseDuration(value)
		case "reserve":
			if c.Reserve = true; value != "" {
				c.TTL, wrong = time.ParseDuration(value)
			}
		case "as":
			as = value
		case "original":
			original = value
		default:
			c.Attributes = append(c.Attributes, penstock.Attribute{Name: name, Value: value})
		}
		err = errors.Join(err, wrong)
	}
	return c, as, original, err
}

func (s *script) readConclusion(verb string, words []string) (*penstock.Conclusion, error) {
	verbs := map[string]penstock.Verb{"settle": penstock.Settle, "release": penstock.Release, "renew": penstock.Renew}
	v, ok := verbs[verb]
	if !ok || len(words) == 0 {
		return nil, fmt.Errorf("nothing is called %s, or it is about nothing", verb)
	}
	c := &penstock.Conclusion{Verb: v, Reservation: s.names[words[0]]}
	headers := map[string]string{}
	var errs []error
	for _, word := range words[1:] {
		var err error
		if name, value, ok := strings.Cut(word, ":"); ok {
			c.Response = &penstock.Response{
				Header: func(name string) string { return headers[name] },
				JSON: func(field string) (int64, bool) {
					n, err := strconv.ParseInt(headers[field], 10, 64)
					return n, err == nil
				},
			}
			if headers[name] = value; headers["bytes"] != "" {
				c.Response.Bytes, err = strconv.ParseInt(headers["bytes"], 10, 64)
			}
			c.Response.Charged, _ = strconv.ParseInt(headers["charged"], 10, 64)
		} else if value, ok := strings.CutPrefix(word, "cost="); ok {
			c.Cost, err = strconv.ParseInt(value, 10, 64)
		} else if value, ok := strings.CutPrefix(word, "ttl="); ok {
			c.TTL, err = time.ParseDuration(value)
		} else {
			err = fmt.Errorf("%s means nothing", word)
		}
		errs = append(errs, err)
	}
	return c, errors.Join(errs...)
}

// render writes a verdict as
//
//	allow reason [quality] [rule used/limit] [wait=] [delay=] [banned=] [duplicate] [reserved] [original] [error=] { policy used/limit … }
//
// with the limits if there are others than the one that decided: ! denies, ~ is of a shadow rule, * has
// banned.
func render(v *penstock.Verdict, err error) string {
	words := []string{"deny", v.Reason.String()}
	if v.Allowed {
		words[0] = "allow"
	}
	add := func(when bool, format string, args ...any) {
		if when {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(v.Quality != penstock.QualityExact, "%v", v.Quality)
	add(v.Rule != "", "%s %d/%d", v.Rule, v.Decision.Used, v.Decision.Limit)
	add(v.Decision.RetryAfter > 0, "wait=%v", v.Decision.RetryAfter)
	add(v.Decision.RetryAfter == penstock.Never, "wait=never")
	add(v.Delay != 0, "delay=%v", v.Delay)
	add(v.BannedUntil != 0, "banned=%v", v.BannedUntil.Sub(v.Now))
	add(v.Duplicate, "duplicate")
	add(v.Reservation != "", "reserved")
	add(v.OriginalReservation != "", "original")
	add(err != nil, "error=%s", kindOf(err))
	if len(v.Limits) > 1 || len(v.Limits) == 1 && v.Limits[0].Shadow {
		add(true, "{")
		for i := range v.Limits {
			add(true, "%s", renderLimit(&v.Limits[i]))
		}
		add(true, "}")
	}
	return strings.Join(words, " ")
}

func renderLimit(l *penstock.LimitVerdict) string {
	mark := ""
	if l.Shadow {
		mark += "~"
	}
	if l.Banned {
		mark += "*"
	}
	if !l.Allowed {
		mark += "!"
	}
	return fmt.Sprintf("%s%s %d/%d", mark, l.Policy, l.Used, l.Limit)
}

func kindOf(err error) string {
	for _, kind := range []struct {
		err  error
		name string
	}{
		{penstock.ErrNoReservation, "no_reservation"}, {penstock.ErrClosed, "closed"},
		{penstock.ErrInvalid, "invalid"}, {penstock.ErrUnavailable, "unavailable"},
	} {
		if errors.Is(err, kind.err) {
			return kind.name
		}
	}
	return fmt.Sprint(err)
}
