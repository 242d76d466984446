package decisionlog

import (
	"log/slog"

	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/rules"
)

// shownHash is how much of a caller's hash is written: enough to find him, too little to be him. The first
// 32 bits are the rule's tag.
const shownHash = 12

func (l *Log) ruleFailed(f *engine.RuleFailure) {
	if nth, keep := l.failing.count(f.Rule.Name, ruleFailure); keep {
		l.write(ruleFailure, nth, []slog.Attr{slog.String("rule", f.Rule.Name), slog.Any("error", f.Err)})
	}
}

func (l *Log) invalid(o *engine.Observation) {
	if nth, keep := l.failing.count("", invalidCall); keep {
		l.write(invalidCall, nth, []slog.Attr{slog.Any("error", o.Err)})
	}
}

// storeFailed writes whose state could not be had. The verdict does not say: the call is matched
// once more, as it is written seldom enough. Failures are counted by their cause and not by rule: a
// store fails for all of them at once.
func (l *Log) storeFailed(o *engine.Observation) {
	cause := l.options.Cause(o.Err)
	nth, keep := l.failing.count(cause, storeFailure)
	if !keep {
		return
	}
	attrs := []slog.Attr{slog.Any("error", o.Err), slog.Bool("allowed", o.Verdict.Allowed), slog.String("quality", o.Verdict.Quality.String())}
	if cause != "" {
		attrs = append(attrs, slog.String("cause", cause))
	}
	var m rules.Match
	l.options.Rules.Load().Match(o.Call, o.Verdict.Now, &m)
	if concerned := concernedBy(&m, o.Verdict.Rule); concerned != nil {
		attrs = append(attrs, l.stateAttrs(concerned)...)
	}
	l.write(storeFailure, nth, attrs)
}

// concernedBy returns the rule of that name, or else the first.
func concernedBy(m *rules.Match, name string) *rules.Matched {
	for i := range m.Rules {
		if m.Rules[i].Rule.Name == name {
			return &m.Rules[i]
		}
	}
	if len(m.Rules) == 0 {
		return nil
	}
	return &m.Rules[0]
}

func (l *Log) stateAttrs(m *rules.Matched) []slog.Attr {
	limits := m.Rule.Limits
	if m.Override != rules.NoOverride {
		limits = m.Rule.Overrides[m.Override].Limits
	}
	hash := m.Rule.Subjects.Subject(m.Key...).String()[:shownHash]
	attrs := []slog.Attr{slog.String("rule", m.Rule.Name), slog.String("key_hash", hash)}
	if l.options.KeyPrefix != "" {
		attrs = append(attrs, slog.String("redis_key", l.options.KeyPrefix+"{"+hash+"…"))
	}
	if len(limits) > 0 {
		limit := limits[0].Limit()
		attrs = append(attrs, slog.Int64("limit", limit.Count), slog.Float64("window_seconds", limit.Window.Seconds()))
	}
	return attrs
}
