package admin

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/penstock-io/penstock/internal/fleet"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/internal/trafficdb"
	"github.com/penstock-io/penstock/rules"
)

// A History is what all nodes decided over hours, and what happened meanwhile.
type History struct {
	From   time.Time         `json:"from"`
	To     time.Time         `json:"to"`      // now, or the end of the period: a step that ends later is not complete
	Step   int64             `json:"step_ms"` // between the points of a series
	Nodes  []AskedNode       `json:"nodes"`
	Total  traffic.Counts    `json:"total"`
	Series []*traffic.Counts `json:"series"` // null: no node was running
	Rules  []RuleHistory     `json:"rules"`  // most denied first
	Marks  []Mark            `json:"marks"`  // oldest first

	DecisionP99 []*int64 `json:"decision_p99_us"` // the highest of any node
	StoreP99    []*int64 `json:"store_p99_us"`

	Problem string `json:"problem,omitempty"` // why some of it may be missing
}

// RuleHistory are the decisions of one rule.
type RuleHistory struct {
	Rule   string            `json:"rule"`
	Total  traffic.Counts    `json:"total"`
	Series []*traffic.Counts `json:"series"`
}

// A Mark is an event that explains numbers.
type Mark struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
	Text Detail    `json:"text"`
	Node string    `json:"node"` // its name; "": all nodes

	ID     string `json:"id,omitempty"`     // of an annotation
	Author string `json:"author,omitempty"` // of an annotation
	Rule   string `json:"rule,omitempty"`   // that an annotation is about; "": all rules
}

const (
	maxMarks   = 500 // of one answer; the latest are returned
	shownRules = 256
)

func (a *Admin) history(x *apiRequest) (any, error) {
	q := x.query()
	ask, node := x.between(q), q.text("node")
	ask.Rule = q.text("rule")
	if err := q.err(); err != nil {
		return nil, err
	}
	found, err := a.Fleet.History(x.r.Context(), ask, node)
	if err != nil {
		return nil, refuse(http.StatusServiceUnavailable, Unavailable, err.Error())
	}
	return historyOf(found), nil
}

// between reads a period: its length up to now, or from when to when.
func (x *apiRequest) between(q *query) traffic.Query {
	now := time.Now()
	from, to := now.Add(-24*time.Hour), now
	if text := q.text("last"); text != "" {
		last, err := rules.ParseDuration(text)
		if err != nil || last <= 0 || last > trafficdb.Reach {
			q.fail("last", "invalid duration %.32q: must be at most %v, for example 24h", text, rules.Duration(trafficdb.Reach))
			last = time.Hour
		}
		from = now.Add(-last)
	}
	read := func(name string, at *time.Time) {
		if text := q.text(name); text != "" {
			var err error
			if *at, err = time.Parse(time.RFC3339, text); err != nil {
				q.fail(name, "invalid time %.40q, for example 2026-01-31T03:00:00Z", text)
			}
		}
	}
	read("from", &from)
	read("to", &to)
	if !from.Before(to) || to.Sub(from) > trafficdb.Reach-time.Hour && from.Before(now.Add(-trafficdb.Reach)) || to.Sub(from) > trafficdb.Reach {
		q.fail("from", "must be before to, and at most %v before it", rules.Duration(trafficdb.Reach))
		from, to = now.Add(-time.Hour), now
	}
	return trafficdb.Between(from, to)
}

// A merged history adds up nodes.
type mergedHistory struct {
	*History
	rules map[string][]traffic.Counts
}

func historyOf(h *fleet.History) *History {
	steps := h.Steps()
	m := mergedHistory{History: &History{
		From: h.From, To: h.Now, Step: h.Step.Milliseconds(), Nodes: each(h.Nodes, askedNode), Rules: []RuleHistory{}, Marks: []Mark{},
		Series: make([]*traffic.Counts, steps), DecisionP99: make([]*int64, steps), StoreP99: make([]*int64, steps),
	}, rules: map[string][]traffic.Counts{}}
	if h.To.Before(h.Now) {
		m.To = h.To
	}
	if h.Err != nil {
		m.Problem = h.Err.Error()
	}
	for _, p := range h.Past {
		m.add(p)
	}
	for _, n := range h.Annotations {
		m.Marks = append(m.Marks, Mark{At: n.At, Kind: markAnnotation, Text: Detail(n.Text), ID: n.ID, Author: n.Author, Rule: n.Rule})
	}
	m.finish()
	return m.History
}

// add adds the numbers of one node.
func (m *mergedHistory) add(p *trafficdb.Past) {
	for i, known := range p.Known {
		if !known {
			continue
		}
		if m.Series[i] == nil {
			m.Series[i], m.DecisionP99[i], m.StoreP99[i] = new(traffic.Counts), new(int64), new(int64)
		}
		m.Series[i].Add(p.Series[i])
		m.Total.Add(p.Series[i])
		*m.DecisionP99[i] = max(*m.DecisionP99[i], p.DecisionP99[i])
		*m.StoreP99[i] = max(*m.StoreP99[i], p.StoreP99[i])
	}
	for rule, series := range p.Rules {
		if m.rules[rule] == nil {
			m.rules[rule] = make([]traffic.Counts, len(series))
		}
		for i := range series {
			m.rules[rule][i].Add(series[i])
		}
	}
	for _, mark := range p.Marks {
		m.Marks = append(m.Marks, Mark{At: mark.At, Kind: mark.Kind, Text: Detail(mark.Text), Node: p.Name})
	}
}

// finish sorts what was added. A series has no value where no node was running.
func (m *mergedHistory) finish() {
	for rule, series := range m.rules {
		one := RuleHistory{Rule: rule, Series: make([]*traffic.Counts, len(series))}
		for i := range series {
			one.Total.Add(series[i])
			if m.Series[i] != nil {
				one.Series[i] = &series[i]
			}
		}
		m.Rules = append(m.Rules, one)
	}
	slices.SortFunc(m.Rules, func(a, b RuleHistory) int {
		return cmp.Or(cmp.Compare(b.Total.Denied, a.Total.Denied), cmp.Compare(b.Total.Shadow, a.Total.Shadow), cmp.Compare(a.Rule, b.Rule))
	})
	m.Rules = m.Rules[:min(len(m.Rules), shownRules)]
	slices.SortStableFunc(m.Marks, func(a, b Mark) int { return a.At.Compare(b.At) })
	m.Marks = sameChanges(m.Marks)
	m.Marks = m.Marks[max(0, len(m.Marks)-maxMarks):]
}

// sameChanges merges what every node reports of one change of the rules.
func sameChanges(marks []Mark) []Mark {
	first := map[Detail]int{} // index of the mark
	kept := marks[:0]
	for _, m := range marks {
		if m.Kind != traffic.MarkRules {
			kept = append(kept, m)
			continue
		}
		if i, ok := first[m.Text]; ok && m.At.Sub(kept[i].At) < time.Minute {
			if kept[i].Node != m.Node {
				kept[i].Node = ""
			}
			continue
		}
		first[m.Text] = len(kept)
		kept = append(kept, m)
	}
	return kept
}
