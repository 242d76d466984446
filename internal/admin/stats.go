package admin

import (
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/rules"
)

// Stats are what this node decided in a period.
type Stats struct {
	From    time.Time        `json:"from"`
	To      time.Time        `json:"to"`
	Step    int64            `json:"step_ms"` // between the points of a series
	Total   traffic.Counts   `json:"total"`
	Series  []traffic.Counts `json:"series"`
	Rules   []RuleStats      `json:"rules"` // most denied first
	Latency Latency          `json:"latency"`
}

// RuleStats are the decisions of one rule.
type RuleStats struct {
	Rule         string           `json:"rule"`
	Total        traffic.Counts   `json:"total"`
	Series       []traffic.Counts `json:"series"`
	DistinctKeys int64            `json:"distinct_keys"` // estimated
	Top          []KeyStats       `json:"top"`           // clients denied most
}

// KeyStats are estimates for one client.
type KeyStats struct {
	Key     Attributes `json:"key"`
	Allowed int64      `json:"allowed"`
	Denied  int64      `json:"denied"`
}

// Latency is how long decisions took, in microseconds.
type Latency struct {
	P50  int64 `json:"p50_us"`
	P99  int64 `json:"p99_us"`
	P999 int64 `json:"p999_us"`
}

// Attributes are names and values.
type Attributes map[string]string

func attributesOf(list []penstock.Attribute) Attributes {
	all := make(Attributes, len(list))
	for _, a := range list {
		all[a.Name] = a.Value
	}
	return all
}

func (a *Admin) stats(x *exchange) (any, error) {
	last, err := x.last()
	if err != nil {
		return nil, err
	}
	return statsOf(a.Traffic.Stats(last)), nil
}

// last reads how far back to report. It allows no other parameter.
func (x *exchange) last() (time.Duration, error) {
	q := x.query()
	last := 15 * time.Minute
	if text := q.text("last"); text != "" {
		var err error
		if last, err = rules.ParseDuration(text); err != nil || last <= 0 || last > traffic.Reach {
			q.fail("last", fmt.Sprintf("invalid duration %.32q: must be at most %v, for example 15m", text, rules.Duration(traffic.Reach)))
		}
	}
	return last, q.err()
}

func statsOf(s traffic.Stats) *Stats {
	told := &Stats{
		From: s.From, To: s.To, Step: s.Step.Milliseconds(), Total: s.Total, Series: s.Series, Rules: []RuleStats{},
		Latency: Latency{s.Latency.P50.Microseconds(), s.Latency.P99.Microseconds(), s.Latency.P999.Microseconds()},
	}
	for _, r := range s.Rules {
		one := RuleStats{Rule: r.Rule, Total: r.Total, Series: r.Series, DistinctKeys: r.DistinctKeys, Top: []KeyStats{}}
		for _, k := range r.Top {
			one.Top = append(one.Top, KeyStats{attributesOf(k.Key), k.Allowed, k.Denied})
		}
		told.Rules = append(told.Rules, one)
	}
	return told
}
