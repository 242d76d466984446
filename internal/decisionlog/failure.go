package decisionlog

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/rules"
)

// shownHash is how much of a client's hash is logged: enough to find the client, too little to identify it. The first
// 32 bits are the rule's tag.
const shownHash = 12

// RuleFailed logs that a rule could not be evaluated, if that is in the sample.
func (l *Log) RuleFailed(f *engine.RuleFailure) {
	if nth, keep := l.sample(&l.failing, f.Rule.Name, ruleFailure); keep {
		l.write(ruleFailure, nth, append(errorAttrs(f.Err), slog.String("rule", f.Rule.Name)))
	}
}

// badNumber logs data that cannot be the number of a limit. The default applies instead.
func (l *Log) badNumber(f *rules.Fallback) {
	if nth, keep := l.sample(&l.failing, f.Rule.Name, badNumber); keep {
		l.write(badNumber, nth, []slog.Attr{
			slog.String("rule", f.Rule.Name), slog.String("policy", f.Policy), slog.String("reason", f.Reason.String()),
			slog.String("source", f.Source), slog.String("value", fmt.Sprintf("%.64s", f.Value)),
			slog.Int64("max", f.Max), slog.Int64("used_instead", f.Number),
		})
	}
}

func (l *Log) invalid(o *engine.Observation) {
	if nth, keep := l.sample(&l.failing, "", invalidCall); keep {
		l.write(invalidCall, nth, errorAttrs(o.Err))
	}
}

// storeFailed logs whose state was unavailable. Failures are counted by cause and not by rule, since a store fails
// for all rules at once.
func (l *Log) storeFailed(o *engine.Observation) {
	cause := l.options.Cause(o.Err)
	nth, keep := l.sample(&l.failing, cause, storeFailure)
	if !keep {
		return
	}
	attrs := append(errorAttrs(o.Err), slog.Bool("allowed", o.Verdict.Allowed), slog.String("quality", o.Verdict.Quality.String()))
	if cause != "" {
		attrs = append(attrs, slog.String("cause", cause))
	}
	concerned := concernedBy(o)
	if concerned == nil && len(o.Matched) > 0 {
		concerned = &o.Matched[0]
	}
	if concerned != nil {
		attrs = append(attrs, l.stateAttrs(concerned, o.Verdict.Now)...)
	}
	l.write(storeFailure, nth, attrs)
}

// errorAttrs returns an error as attributes, with its stack if it is a panic.
func errorAttrs(err error) []slog.Attr {
	attrs := []slog.Attr{slog.Any("error", err)}
	if panicked, ok := errors.AsType[*engine.PanicError](err); ok {
		attrs = append(attrs, slog.String("stack", string(panicked.Stack)))
	}
	return attrs
}

// concernedBy returns the rule that the verdict comes from, or nil if there is none.
func concernedBy(o *engine.Observation) *rules.MatchedRule {
	for i := range o.Matched {
		if o.Matched[i].Rule.Name == o.Verdict.Rule {
			return &o.Matched[i]
		}
	}
	return nil
}

// keyHash returns the part of a client's hash that is logged.
func keyHash(m *rules.MatchedRule) string {
	return m.Rule.Subjects.Subject(m.Key...).String()[:shownHash]
}

func (l *Log) stateAttrs(m *rules.MatchedRule, now penstock.Instant) []slog.Attr {
	limits := m.Rule.Limits
	switch {
	case m.Rule.FromData(m.Override):
		limits = nil // unknown here
	case m.Override != rules.NoOverride:
		limits = m.Rule.Overrides[m.Override].Limits
	}
	hash := keyHash(m)
	attrs := []slog.Attr{slog.String("rule", m.Rule.Name), slog.String("key_hash", hash)}
	if l.options.KeyPrefix != "" {
		attrs = append(attrs, slog.String("redis_key", l.options.KeyPrefix+"{"+hash+"…"))
	}
	if len(limits) > 0 {
		attrs = append(attrs, slog.Int64("limit", limits[0].PerWindow()), slog.Float64("window_seconds", limits[0].WindowAt(now).Seconds()))
	}
	return attrs
}
