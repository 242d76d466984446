package backtest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/accesslog"
	"github.com/penstock-io/penstock/internal/simulator/replay"
	"github.com/penstock-io/penstock/rules"
)

// Options configure a backtest.
type Options struct {
	Documents []Document // one, or two to compare
	Domain    string

	Entitlements rules.Entitlements // numbers of limits that rules take from a table; nil: none
	EndsAtOnce   bool               // a request whose duration the log does not have ends as soon as it is decided

	NewStore func() (replay.Store, error)
	Progress func(requests int64) // called from time to time; may be nil
}

// A Document is rules and their name.
type Document struct {
	Name  string
	Rules *rules.Snapshot
}

// A Report is what rules would have done.
type Report struct {
	Log        accesslog.Stats     `json:"log"`
	Documents  []DocumentReport    `json:"documents"`
	Difference *Difference         `json:"difference,omitempty"` // of two documents
	Recorded   *RecordedComparison `json:"recorded,omitempty"`   // of a replay log
	Series     Series              `json:"series"`
}

// A DocumentReport is what one document would have done.
type DocumentReport struct {
	Name      string `json:"name"`
	Denied    int64  `json:"denied"`    // requests denied by any enforcing rule or a list
	Unmatched int64  `json:"unmatched"` // requests that no rule applied to
	Listed    int64  `json:"deny_listed"`
	Invalid   int64  `json:"invalid"` // requests that the engine rejects as invalid
	Delayed   int64  `json:"delayed"` // requests that leaky buckets would have held

	// Defaulted are the rules with limits whose numbers come from entitlements, if there are none: such limits have
	// their default.
	Defaulted []string `json:"limits_at_default,omitempty"`

	Rules []RuleReport `json:"rules"`
}

// A RuleReport is what one rule would have done.
type RuleReport struct {
	Rule       string     `json:"rule"`
	Mode       string     `json:"mode"`
	Limits     []string   `json:"limits"`
	Requests   int64      `json:"requests"` // that it applied to
	Denied     int64      `json:"denied"`
	Banned     int64      `json:"banned"` // of these, because of a ban
	Keys       int64      `json:"keys"`
	KeysDenied int64      `json:"keys_denied"`
	KeysExact  bool       `json:"keys_exact"` // false: Keys and KeysDenied are estimates, within about 1 %
	Most       []KeyCount `json:"most_denied"`

	keys, denied DistinctCounter
	most         frequentKeys
}

// A KeyCount is how many requests of a key were denied.
type KeyCount struct {
	Key      string `json:"key"`
	Requests int64  `json:"requests"`
}

// RecordedComparison compares the first document with the decisions recorded in a replay log.
type RecordedComparison struct {
	Same    int64 `json:"same"`
	Differs int64 `json:"differs"`
	Inexact int64 `json:"inexact"` // not compared, because they were not decided on the shared counters
}

func (r *RecordedComparison) add(was *accesslog.RecordedVerdict, allowed bool) {
	switch {
	case !was.Exact:
		r.Inexact++
	case was.Allowed == allowed:
		r.Same++
	default:
		r.Differs++
	}
}

// A Difference is where the second document decides differently from the first.
type Difference struct {
	OnlyFirst   int64      `json:"denied_only_by_first"`
	OnlySecond  int64      `json:"denied_only_by_second"`
	Both        int64      `json:"denied_by_both"`
	FirstByKey  []KeyCount `json:"keys_denied_only_by_first"`
	SecondByKey []KeyCount `json:"keys_denied_only_by_second"`

	first, second frequentKeys
}

// mostShown is how many keys are listed.
const mostShown = 10

// A documentRun is one document in progress.
type documentRun struct {
	replay *replay.Replay
	domain string
	report *DocumentReport
	denier string // rule and key that denied the last request
}

// Run replays a log. An error of the log or of the store ends it; an invalid line does not.
func Run(ctx context.Context, log *accesslog.Log, o Options) (*Report, error) {
	if n := len(o.Documents); n < 1 || n > 2 {
		return nil, fmt.Errorf("%d rule documents; a backtest has one or two", n)
	}
	report := &Report{Documents: make([]DocumentReport, len(o.Documents))}
	if len(o.Documents) == 2 {
		report.Difference = &Difference{}
	}
	lanes := make([]*documentRun, len(o.Documents))
	for i, d := range o.Documents {
		if err := CheckAttributes(d.Rules, o.Domain, log); err != nil {
			return nil, err
		}
		var err error
		if lanes[i], err = newLane(d, &report.Documents[i], &o); err != nil {
			return nil, err
		}
		defer lanes[i].replay.Close()
	}
	err := Each(ctx, log, o.Progress, func(q *accesslog.Request) error { return report.decide(ctx, lanes, q) })
	if err != nil {
		return nil, err
	}
	return report, report.finish(log, o)
}

func newLane(d Document, report *DocumentReport, o *Options) (*documentRun, error) {
	l := &documentRun{report: report, domain: o.Domain}
	report.prepare(d)
	if o.Entitlements == nil { // with them the limits would have other numbers
		var names []string
		for _, l := range d.Rules.EntitledLimits() {
			names = append(names, l.Rule.Name)
		}
		report.Defaulted = unique(names)
	}
	store, err := o.NewStore()
	if err != nil {
		return nil, err
	}
	if l.replay, err = replay.New(replay.Options{Rules: d.Rules, Store: store, Entitlements: o.Entitlements, EndsAtOnce: o.EndsAtOnce, Observe: l.observe}); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return l, nil
}

// ErrStop ends Each without an error.
var ErrStop = errors.New("enough was read")

// Each calls do for every request of a log, until there are no more, do returns an error, or the context ends.
// progress may be nil.
func Each(ctx context.Context, log *accesslog.Log, progress func(requests int64), do func(q *accesslog.Request) error) error {
	for n := int64(1); ; n++ {
		if n%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if progress != nil {
				progress(n)
			}
		}
		q, err := log.Next()
		if err == nil {
			err = do(&q)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, ErrStop) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *Report) decide(ctx context.Context, lanes []*documentRun, q *accesslog.Request) error {
	bucket := r.Series.at(q.At)
	bucket.Requests++
	var denied [2]bool
	for i, l := range lanes {
		v, err := l.replay.Decide(ctx, RequestOf(q, l.domain))
		if err != nil {
			return err
		}
		if denied[i] = !v.Allowed; denied[i] {
			bucket.Denied[i]++
		}
	}
	if q.Recorded != nil {
		if r.Recorded == nil {
			r.Recorded = &RecordedComparison{}
		}
		r.Recorded.add(q.Recorded, !denied[0])
	}
	if r.Difference != nil {
		r.Difference.add(denied, lanes)
	}
	return nil
}

func (d *Difference) add(denied [2]bool, lanes []*documentRun) {
	switch {
	case denied[0] && denied[1]:
		d.Both++
	case denied[0]:
		d.OnlyFirst++
		d.first.add(lanes[0].denier)
	case denied[1]:
		d.OnlySecond++
		d.second.add(lanes[1].denier)
	}
}

func (d *DocumentReport) prepare(from Document) {
	d.Name = from.Name
	d.Rules = make([]RuleReport, len(from.Rules.Rules))
	for i, r := range from.Rules.Rules {
		d.Rules[i] = RuleReport{Rule: r.Name, Mode: r.Mode.String()}
		for _, m := range r.Limits {
			d.Rules[i].Limits = append(d.Rules[i].Limits, m.String())
		}
	}
}

// observe counts a decision.
func (l *documentRun) observe(o *engine.Observation) {
	v, d := o.Verdict, l.report
	l.denier = ""
	if !v.Allowed {
		d.Denied++
		l.denier = v.Reason.String()
	}
	switch {
	case errors.Is(o.Err, penstock.ErrInvalid):
		d.Invalid++
		return
	case v.Reason == penstock.ReasonDenyList:
		d.Listed++
	case v.Reason == penstock.ReasonNoRule:
		d.Unmatched++
	}
	if v.Delay > 0 {
		d.Delayed++
	}
	for i := range o.Matched {
		m := &o.Matched[i]
		denied, banned, asked := ruleSays(v, m.Rule.Name)
		if !asked {
			continue
		}
		text := d.Rules[m.Rule.Index].add(m, denied, banned)
		if denied && m.Rule.Name == v.Rule {
			l.denier = m.Rule.Name + " " + text
		}
	}
}

// ruleSays returns the decision of a rule's limits.
func ruleSays(v *penstock.Verdict, rule string) (denied, banned, asked bool) {
	for i := range v.Limits {
		if l := &v.Limits[i]; l.Rule == rule {
			asked = true
			banned = banned || l.Banned
			denied = denied || l.Banned || !l.Allowed
		}
	}
	return denied, banned, asked
}

// add counts a request and returns its key, if it was denied.
func (r *RuleReport) add(m *rules.MatchedRule, denied, banned bool) (text string) {
	hash := HashKey(m.Key)
	r.Requests++
	r.keys.Add(hash)
	if denied {
		text = keyText(m.Rule, m.Key)
		r.Denied++
		r.denied.Add(hash)
		r.most.add(text)
	}
	if banned {
		r.Banned++
	}
	return text
}

func (r *Report) finish(log *accesslog.Log, o Options) error {
	r.Log = log.Stats()
	var errs []error
	for i := range r.Documents {
		errs = append(errs, CheckAttributes(o.Documents[i].Rules, o.Domain, log))
		for j := range r.Documents[i].Rules {
			rule := &r.Documents[i].Rules[j]
			rule.Keys, rule.KeysDenied = rule.keys.Count(), rule.denied.Count()
			rule.KeysExact = rule.keys.Exact() && rule.denied.Exact()
			rule.Most = rule.most.top(mostShown)
		}
	}
	if d := r.Difference; d != nil {
		d.FirstByKey, d.SecondByKey = d.first.top(mostShown), d.second.top(mostShown)
	}
	return errors.Join(errs...)
}
