package admin

import (
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/fleet"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/rules"
)

// Stats are what the nodes decided in a period.
type Stats struct {
	From    time.Time        `json:"from"`
	To      time.Time        `json:"to"`      // now: a step that ends later is not complete
	Since   time.Time        `json:"since"`   // when counting began: steps before it are unknown, not zero
	Step    int64            `json:"step_ms"` // between the points of a series
	Nodes   []AskedNode      `json:"nodes"`   // whose numbers these are
	Total   traffic.Counts   `json:"total"`
	Series  []traffic.Counts `json:"series"`
	Rules   []RuleStats      `json:"rules"` // most denied first
	Latency Latency          `json:"latency"`
}

// An AskedNode is a node that was asked for its numbers.
type AskedNode struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Answered bool   `json:"answered"`
	Problem  string `json:"problem,omitempty"` // why its numbers are missing
}

func askedNode(n *fleet.Node) AskedNode { return AskedNode{n.ID, n.Name, n.Answered, n.Problem} }

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
	Shadow  int64      `json:"shadow"` // that a shadow rule would have denied
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

func (a *Admin) stats(x *apiRequest) (any, error) {
	ask, err := x.period()
	if err != nil {
		return nil, err
	}
	return statsOf(a.Fleet.Count(x.r.Context(), ask.query(), ask.node)), nil
}

// A period is how far back to report, and of which node.
type period struct {
	last time.Duration
	node string // its name or ID; "": all nodes
}

func (p *period) query() traffic.Query { return traffic.Last(time.Now(), p.last) }

// period reads how far back to report. It allows no other parameters.
func (x *apiRequest) period() (period, error) {
	q := x.query()
	p := period{last: 15 * time.Minute, node: q.text("node")}
	if text := q.text("last"); text != "" {
		var err error
		if p.last, err = rules.ParseDuration(text); err != nil || p.last <= 0 || p.last > traffic.Reach {
			q.fail("last", "invalid duration %.32q: must be at most %v, for example 15m", text, rules.Duration(traffic.Reach))
		}
	}
	return p, q.err()
}

// shownTop is how many clients of a rule are listed.
const shownTop = 10

func statsOf(s fleet.Stats) *Stats {
	told := &Stats{
		From: s.From, To: s.Now, Since: s.Since, Step: s.Step.Milliseconds(), Total: s.Total, Series: s.Series, Nodes: each(s.Nodes, askedNode),
		Latency: Latency{s.Decisions.Percentile(50).Microseconds(), s.Decisions.Percentile(99).Microseconds(), s.Decisions.Percentile(99.9).Microseconds()},
	}
	told.Rules = each(s.Rules, func(r *traffic.RuleStats) RuleStats {
		top := each(r.Top[:min(len(r.Top), shownTop)], func(k *traffic.KeyStats) KeyStats {
			return KeyStats{attributesOf(k.Key), k.Allowed, k.Denied, k.Shadow}
		})
		return RuleStats{r.Rule, r.Total, r.Series, r.Keys.Count(), top}
	})
	return told
}
