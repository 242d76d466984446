package ruletest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/textproto"
	"regexp"
	"slices"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// Options configure a test run.
type Options struct {
	Rules        *rules.Snapshot
	Entitlements rules.Entitlements // numbers of limits that rules take from a table; nil: none

	NewStore func() (Store, error) // an empty one

	Run *regexp.Regexp // the names of the tests to run; nil: all

	// MaxDelay is how long a request is held by default; 0: as long as the rule's queue takes.
	MaxDelay time.Duration
}

// A Store keeps the state of one test.
type Store interface {
	penstock.Store
	storage.Settler
	io.Closer
}

// Run runs the tests one after the other. An error means that they could not be run. Rules that differ from the
// expectations are in the results.
func (f *Fixture) Run(ctx context.Context, o Options) ([]Result, error) {
	var results []Result
	for i := range f.Tests {
		if o.Run != nil && !o.Run.MatchString(f.Tests[i].Name) {
			continue
		}
		result, err := f.runTest(ctx, i, o)
		if err != nil {
			return results, fmt.Errorf("test %q: %w", f.Tests[i].Name, err)
		}
		results = append(results, result)
	}
	return results, nil
}

func (f *Fixture) runTest(ctx context.Context, index int, o Options) (Result, error) {
	t := &f.Tests[index]
	place, _ := f.reading.Place("tests", index)
	r := &run{fixture: f, test: t, index: index, now: t.start, maxDelay: o.MaxDelay, reservations: map[string]string{}}
	r.result = Result{Position: place, Name: t.Name}
	store, err := o.NewStore()
	if err != nil {
		return r.result, err
	}
	defer store.Close()
	r.engine, err = engine.New(engine.Options{
		Store:   store,
		Rules:   engine.Fixed(o.Rules),
		Now:     func() penstock.Instant { return r.now },
		Observe: r.observe,

		Entitlements: o.Entitlements,
	})
	if err != nil {
		return r.result, err
	}
	for i := range t.Steps {
		if err := ctx.Err(); err != nil {
			return r.result, err
		}
		r.step(ctx, i, &t.Steps[i])
	}
	return r.result, nil
}

// A run is a test in progress.
type run struct {
	fixture      *Fixture
	test         *Test
	index        int
	engine       *engine.Engine
	now          penstock.Instant
	maxDelay     time.Duration     // 0: any
	reservations map[string]string // by their names in the test
	unevaluated  []string          // rules that could not be evaluated for the last request
	result       Result
}

func (r *run) observe(o *engine.Observation) {
	r.unevaluated = r.unevaluated[:0]
	for _, f := range o.Failures {
		r.unevaluated = append(r.unevaluated, fmt.Sprintf("rule %q: %v", f.Rule.Name, f.Err))
	}
}

func (r *run) step(ctx context.Context, index int, s *Step) {
	r.now = s.at
	if !s.isCall() {
		r.conclude(ctx, index, s)
		return
	}
	total := int64(len(s.calls)) * s.times()
	v := &penstock.Verdict{}
	var call *penstock.Call
	var passed, count int64
	var first *Failure // later failures in the same step mostly have the same cause
	for round := range s.times() {
		if round > 0 && s.Every != nil {
			r.now = r.now.Add(time.Duration(*s.Every))
		}
		for i := range s.calls {
			if ctx.Err() != nil {
				return
			}
			call = s.calls[i].call(r.maxDelay)
			differences := r.decide(ctx, s, call, s.calls[i].As, v)
			count++
			if v.Allowed {
				passed++
			}
			if len(differences) > 0 && first == nil {
				first = r.failure(nth(count, total), index, differences, call, v)
			}
		}
	}
	if want := s.Expect.Passed; first == nil && want != nil && *want != passed {
		d := Difference{"passed", fmt.Sprint(*want), fmt.Sprint(passed), []any{"passed"}}
		first = r.failure(fmt.Sprintf("%d calls, the last", total), index, []Difference{d}, call, v)
	}
	if first != nil {
		r.result.Failures = append(r.result.Failures, *first)
	}
}

// decide decides a request and returns how it differs from the expectation.
func (r *run) decide(ctx context.Context, s *Step, call *penstock.Call, as string, v *penstock.Verdict) []Difference {
	err := r.engine.Decide(ctx, call, v)
	r.result.Calls++
	if as != "" {
		r.reservations[as] = v.Reservation
	}
	return s.Expect.differences(v, err)
}

func nth(n, total int64) string {
	if total == 1 {
		return "call"
	}
	return fmt.Sprintf("call %d of %d", n, total)
}

// call returns the request that the terms describe.
func (c *CallTerms) call(maxDelay time.Duration) *penstock.Call {
	call := &penstock.Call{
		Domain: c.Domain, Cost: 1, ID: c.ID, MaxDelay: cmp.Or(maxDelay, penstock.AnyDelay),
		Reserve: c.Reserve, TTL: time.Duration(c.TTL),
	}
	if c.Cost != nil {
		call.Cost = *c.Cost
	}
	if c.MaxDelay != nil {
		call.MaxDelay = time.Duration(*c.MaxDelay)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Attributes)) {
		call.Attributes = append(call.Attributes, penstock.Attribute{Name: name, Value: c.Attributes[name]})
	}
	return call
}

func (r *run) conclude(ctx context.Context, index int, s *Step) {
	name, verb := s.reservation()
	conclusion := s.conclusion()
	conclusion.Reservation = r.reservations[name]
	v := &penstock.Verdict{}
	err := fmt.Errorf("nothing was reserved as %s", name)
	if conclusion.Reservation != "" {
		err = r.engine.Conclude(ctx, conclusion, v)
	}
	r.result.Calls++
	if differences := s.Expect.differences(v, err); len(differences) > 0 {
		if err != nil {
			v = nil
		}
		r.result.Failures = append(r.result.Failures, *r.failure(verb+" "+name, index, differences, nil, v))
	}
}

func (s *Step) conclusion() *penstock.Conclusion {
	switch {
	case s.Release != nil:
		return &penstock.Conclusion{Verb: penstock.Release}
	case s.Renew != nil:
		return &penstock.Conclusion{Verb: penstock.Renew, TTL: time.Duration(s.Renew.TTL)}
	case s.Settle.Response == nil:
		return &penstock.Conclusion{Verb: penstock.Settle, Cost: *s.Settle.Cost}
	}
	headers := map[string]string{}
	for name, value := range s.Settle.Response.Headers {
		headers[textproto.CanonicalMIMEHeaderKey(name)] = value
	}
	return &penstock.Conclusion{Verb: penstock.Settle, Response: &penstock.Response{
		Header: func(name string) string { return headers[textproto.CanonicalMIMEHeaderKey(name)] },
		Bytes:  s.Settle.Response.Bytes,
		Status: int(s.Settle.Response.Status), Duration: time.Duration(s.Settle.Response.Duration),
	}}
}

// failure returns the differences as a Failure, at the place of the first one.
func (r *run) failure(what string, step int, differences []Difference, call *penstock.Call, v *penstock.Verdict) *Failure {
	f := &Failure{What: what, At: r.now.Sub(r.test.start), Differences: differences, Call: call, Unevaluated: slices.Clone(r.unevaluated)}
	f.Position, f.Text = r.fixture.reading.Place(append([]any{"tests", r.index, "steps", step, "expect"}, differences[0].at...)...)
	if v != nil {
		shown := *v // v is reused
		shown.Limits = slices.Clone(v.Limits)
		f.Verdict = &shown
	}
	return f
}
