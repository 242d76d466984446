package rls

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/onevalue"
)

// An Engine decides requests, singly or several atomically. *engine.Engine is one.
type Engine interface {
	penstock.Decider
	DecideTogether(ctx context.Context, calls []penstock.Call, verdicts []penstock.Verdict, errs []error)
	Refund(ctx context.Context, c *penstock.Call, v *penstock.Verdict) error
}

// RuleLimiter is a Limiter for Penstock rules: each descriptor is decided like a request, with its entries as the
// attributes. All rules that match any descriptor of a request are charged atomically. If a key occurs several times,
// the second entry is named key_2. Rules use path, ip and domain for something other than an entry of that key: the
// value of the entry is also available as path_1. Rules cannot name an empty key, so such an entry is left out.
type RuleLimiter struct {
	Engine Engine

	// Overrides answers descriptors that contain their own limit, to which rules do not apply. They are charged
	// regardless of the others.
	Overrides Limiter
}

var _ Limiter = (*RuleLimiter)(nil)

func (c *RuleLimiter) Limit(ctx context.Context, r *Request) (*Answers, error) {
	out := r.Answers()
	if err := c.decide(ctx, r, out); err != nil {
		return nil, err
	}
	if err := c.refund(ctx, r, out); err != nil {
		return nil, err
	}
	if err := c.override(ctx, r, out); err != nil {
		return nil, err
	}
	for i := range out.Each {
		out.Allowed = out.Allowed && out.Each[i].Verdict.Allowed
	}
	return out, nil
}

// decide answers the descriptors that rules apply to.
func (c *RuleLimiter) decide(ctx context.Context, r *Request, out *Answers) error {
	calls := make([]penstock.Call, 0, len(r.Descriptors))
	for i := range r.Descriptors {
		if d := &r.Descriptors[i]; d.isDecided() {
			calls = append(calls, callOf(r, d))
		}
	}
	if len(calls) == 0 {
		return nil
	}
	verdicts, errs := make([]penstock.Verdict, len(calls)), make([]error, len(calls))
	if len(calls) == 1 {
		errs[0] = c.Engine.Decide(ctx, &calls[0], &verdicts[0])
	} else {
		c.Engine.DecideTogether(ctx, calls, verdicts, errs)
	}
	var invalid []error
	for i := range r.Descriptors {
		if !r.Descriptors[i].isDecided() {
			continue
		}
		// Only an invalid request is an error here. After any other error the rules' failure policies have decided.
		if errors.Is(errs[0], penstock.ErrInvalid) {
			invalid = append(invalid, fmt.Errorf("descriptors[%d]: %w", i, errs[0]))
		}
		a := &out.Each[i]
		a.Verdict = verdicts[0]
		a.tellSpeaker()
		verdicts, errs = verdicts[1:], errs[1:]
	}
	return errors.Join(invalid...)
}

// isDecided reports whether rules decide the descriptor: it has no limit of its own and is not a refund.
func (d *Descriptor) isDecided() bool { return d.Limit == nil && !d.Refund }

func callOf(r *Request, d *Descriptor) penstock.Call {
	return penstock.Call{Domain: r.Domain, Attributes: attributesOf(d.Entries), Cost: d.Cost, ID: d.ID, Named: d.ID != ""}
}

// tellSpeaker sets the limit to report to Envoy: the one whose numbers the verdict has.
func (a *Answer) tellSpeaker() {
	if a.Verdict.Rule != "" {
		a.Told = reportedLimit(&a.Verdict)
	}
	if a.Told != nil {
		a.Name = a.Told.Policy
	}
}

// refund refunds descriptors with negative hits. It never denies.
func (c *RuleLimiter) refund(ctx context.Context, r *Request, out *Answers) error {
	for i := range r.Descriptors {
		d, a := &r.Descriptors[i], &out.Each[i]
		if !d.Refund || d.Limit != nil {
			continue
		}
		call := callOf(r, d)
		if err := c.Engine.Refund(ctx, &call, &a.Verdict); err != nil {
			return fmt.Errorf("descriptors[%d]: %w", i, err)
		}
		a.Verdict.Allowed = true
		a.tellSpeaker()
	}
	return nil
}

// override answers the descriptors that contain a limit.
func (c *RuleLimiter) override(ctx context.Context, r *Request, out *Answers) error {
	own := Request{Domain: r.Domain}
	var at []int
	for i := range r.Descriptors {
		if r.Descriptors[i].Limit != nil {
			own.Descriptors, at = append(own.Descriptors, r.Descriptors[i]), append(at, i)
		}
	}
	if len(at) == 0 {
		return nil
	}
	answers, err := c.Overrides.Limit(ctx, &own)
	if err != nil {
		return err
	}
	for k, i := range at {
		out.Each[i] = answers.Each[k]
	}
	return nil
}

// reportedLimit returns the limit whose numbers the verdict has, or nil if a rule decided without a limit.
func reportedLimit(v *penstock.Verdict) *penstock.LimitVerdict {
	for i := range v.Limits {
		if l := &v.Limits[i]; !l.Shadow && l.Rule == v.Rule && l.Decision == v.Decision {
			return l
		}
	}
	return nil
}

// builtin are attributes that rules compare in a special form, or that do not come from the entry at all.
var builtin = []string{"path", "ip", "domain"}

// AttributeName returns the name under which rules find the exact value of a key's nth entry, counted from 1.
func AttributeName(key string, nth int) string {
	if nth == 1 && !slices.Contains(builtin, key) {
		return key
	}
	return key + "_" + strconv.Itoa(nth)
}

// attributesOf numbers entries with the same key, since a request cannot have an attribute twice. Values come from
// headers as Envoy has them, which over HTTP/2 may be with spaces around them.
func attributesOf(entries []penstock.Attribute) []penstock.Attribute {
	entries = Countable(entries)
	out := make([]penstock.Attribute, 0, len(entries))
	for i, e := range entries {
		if e.Name == "" {
			continue
		}
		e.Value = onevalue.Trim(e.Value)
		nth := 1
		for k := range i {
			if entries[k].Name == e.Name {
				nth++
			}
		}
		key := e.Name
		if nth == 1 {
			out = append(out, e)
		}
		if nth > 1 || slices.Contains(builtin, key) {
			e.Name = unusedName(entries, out, key, nth)
			out = append(out, e)
		}
	}
	return out
}

// unusedName returns the name of a key's nth entry, or one with a higher number if another entry has that name.
func unusedName(entries, named []penstock.Attribute, key string, nth int) string {
	for ; ; nth++ {
		name := AttributeName(key, nth)
		taken := func(e penstock.Attribute) bool { return e.Name == name }
		if !slices.ContainsFunc(entries, taken) && !slices.ContainsFunc(named, taken) {
			return name
		}
	}
}
