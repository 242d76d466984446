package ruletest

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
)

// check finds the errors that reading does not, and computes the time and the requests of each step.
func (f *Fixture) check() {
	names := map[string]int{}
	calls := int64(0)
	for i := range f.Tests {
		t := &f.Tests[i]
		if first, taken := names[t.Name]; taken && t.Name != "" {
			f.fail(fmt.Sprintf("the name %q is taken", t.Name), fmt.Sprintf("by test %d", first+1), "tests", i, "name")
		} else {
			names[t.Name] = i
		}
		c := &checker{Fixture: f, test: i}
		c.check(t)
		calls += c.calls
	}
	if calls > MaxCalls {
		f.fail(fmt.Sprintf("the tests make %d calls, at most %d", calls, MaxCalls), "write several files", "tests")
	}
}

func (f *Fixture) fail(message, hint string, at ...any) { f.reading.Fail(message, hint, at...) }

// A checker checks the steps of a test in order.
type checker struct {
	*Fixture
	test  int
	start penstock.Instant
	now   penstock.Instant // time of the last request so far
	named map[string]bool  // reservations
	calls int64
}

func (c *checker) fail(message, hint string, step int, field ...any) {
	c.Fixture.fail(message, hint, append([]any{"tests", c.test, "steps", step}, field...)...)
}

func (c *checker) check(t *Test) {
	begin := cmp.Or(t.Start, c.Start, DefaultStart)
	t.start = penstock.InstantOf(begin)
	if t.start <= 0 || t.start > algorithm.MaxInstant {
		at := []any{"start"}
		if !t.Start.IsZero() {
			at = []any{"tests", c.test, "start"}
		}
		c.Fixture.fail(fmt.Sprintf("start %s cannot be represented", begin.Format(time.RFC3339)), "choose a date from 1970 to 2112", at...)
		return
	}
	c.start, c.now, c.named = t.start, t.start, map[string]bool{}
	for i := range t.Steps {
		s := &t.Steps[i]
		c.kind(s, i)
		c.advanceTo(s, i)
		c.names(s, i)
		c.expectation(s, i)
		c.fill(s, t)
	}
}

// kind checks that a step does one thing.
func (c *checker) kind(s *Step, i int) {
	kinds := 0
	for _, given := range []bool{s.Call != nil, s.Calls != nil, s.Settle != nil, s.Release != nil, s.Renew != nil} {
		if given {
			kinds++
		}
	}
	const one = "give one of call, calls, settle, release, renew"
	if !c.reading.Sound("tests", c.test, "steps", i) {
		return // the intended kind could not be read
	}
	switch {
	case kinds == 0:
		c.fail("the step does nothing", one, i)
	case kinds > 1:
		c.fail("the step does several things", one, i)
	case !s.isCall() && s.Times != nil:
		c.fail("times is for calls", "leave it out", i, "times")
	}
	if s.Every != nil && s.Times == nil {
		c.fail("every without times", "say how many times", i, "every")
	}
	if s.Settle != nil && (s.Settle.Cost == nil) == (s.Settle.Response == nil) {
		c.fail("settle needs the true cost", "give either cost or response", i, "settle")
	}
}

func (s *Step) isCall() bool { return s.Call != nil || s.Calls != nil }

// advanceTo computes the time of the step. Time never goes back.
func (c *checker) advanceTo(s *Step, i int) {
	switch {
	case s.At != nil && s.After != nil:
		c.fail("both at and after say when", "leave one out", i, "after")
	case s.At != nil && !s.At.Date.IsZero():
		c.moveTo(penstock.InstantOf(s.At.Date), i, "at")
	case s.At != nil:
		c.moveBy(c.start, s.At.Offset, 1, i, "at")
	case s.After != nil:
		c.moveBy(c.now, time.Duration(*s.After), 1, i, "after")
	}
	s.at = c.now
	if s.Every != nil && s.Times != nil {
		c.moveBy(c.now, time.Duration(*s.Every), *s.Times-1, i, "every")
	}
}

func (c *checker) moveBy(from penstock.Instant, by time.Duration, times int64, i int, field string) {
	if left := algorithm.MaxInstant.Sub(from); times > 0 && by > left/time.Duration(times) {
		c.fail("the step lies too far ahead", "stay before 2112", i, field)
		return
	}
	c.moveTo(from.Add(by*time.Duration(times)), i, field)
}

func (c *checker) moveTo(to penstock.Instant, i int, field string) {
	switch {
	case to < c.now:
		c.fail(fmt.Sprintf("time goes back from %s to %s", c.sinceStart(c.now), c.sinceStart(to)), "order the steps by time", i, field)
	case to > algorithm.MaxInstant:
		c.fail("the step lies too far ahead", "stay before 2112", i, field)
	default:
		c.now = to
	}
}

func (c *checker) sinceStart(at penstock.Instant) string {
	if at < c.start {
		return "before the start"
	}
	return showSpan(at.Sub(c.start))
}

// names checks that reservations are named once and before they are used.
func (c *checker) names(s *Step, i int) {
	if s.Call != nil && s.Call.As != "" {
		c.name(s.Call.As, s, i, "call", "as")
	}
	for j := range s.Calls {
		if s.Calls[j].As != "" {
			c.name(s.Calls[j].As, s, i, "calls", j, "as")
		}
	}
	if used, field := s.reservation(); used != "" && !c.named[used] {
		c.fail(fmt.Sprintf("no call before has the reservation %q", used), fmt.Sprintf("give that call as: %s", used), i, field, "reservation")
	}
}

func (c *checker) name(as string, s *Step, i int, field ...any) {
	switch {
	case c.named[as]:
		c.fail(fmt.Sprintf("the name %q is taken", as), "by a call before", i, field...)
	case s.Times != nil && *s.Times > 1:
		c.fail(fmt.Sprintf("%d calls cannot all be called %q", *s.Times, as), "write them under calls", i, field...)
	}
	c.named[as] = true
}

// reservation returns the name of the reservation that the step ends, and the field that names it.
func (s *Step) reservation() (name, field string) {
	switch {
	case s.Settle != nil:
		return s.Settle.Reservation, "settle"
	case s.Release != nil:
		return s.Release.Reservation, "release"
	case s.Renew != nil:
		return s.Renew.Reservation, "renew"
	}
	return "", ""
}

func (c *checker) expectation(s *Step, i int) {
	e := &s.Expect
	if e.Passed == nil {
		return
	}
	if e.Allowed != nil {
		c.fail("both allowed and passed", "allowed is for every call, passed counts them: leave one out", i, "expect", "passed")
	}
	if !s.isCall() {
		c.fail("passed is for calls", "write allowed", i, "expect", "passed")
	}
}

// fill completes the requests: the test supplies what a request does not set, then the fixture.
func (c *checker) fill(s *Step, t *Test) {
	s.calls = s.Calls
	if s.Call != nil {
		s.calls = []CallTerms{*s.Call}
	}
	for i := range s.calls {
		call := &s.calls[i]
		call.Domain = cmp.Or(call.Domain, t.With.Domain, c.With.Domain)
		call.Cost = cmp.Or(call.Cost, t.With.Cost, c.With.Cost)
		call.MaxDelay = cmp.Or(call.MaxDelay, t.With.MaxDelay, c.With.MaxDelay)
		attributes := map[string]string{}
		for _, more := range []map[string]string{c.With.Attributes, t.With.Attributes, call.Attributes} {
			maps.Copy(attributes, more)
		}
		call.Attributes = attributes
	}
	c.calls += int64(len(s.calls)) * s.times()
}

func (s *Step) times() int64 {
	if s.Times == nil {
		return 1
	}
	return *s.Times
}
