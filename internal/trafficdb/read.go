package trafficdb

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/traffic"
)

// A Past is what one node counted over a period, by step.
type Past struct {
	Node string `json:"node"` // its ID
	Name string `json:"name"`

	Known  []bool                      `json:"known"` // whether the node ran in a step
	Series []traffic.Counts            `json:"series"`
	Rules  map[string][]traffic.Counts `json:"rules"`
	Store  []traffic.StoreCounts       `json:"store"`

	// DecisionP99 and StoreP99 are the highest of a step, in microseconds.
	DecisionP99 []int64 `json:"decision_p99_us"`
	StoreP99    []int64 `json:"store_p99_us"`

	Marks []traffic.Mark `json:"marks"`

	// Last is the last minute that is included, since 1970.
	Last int64 `json:"last"`
}

func newPast(node, name string, steps int) *Past {
	return &Past{
		Node: node, Name: name, Known: make([]bool, steps), Series: make([]traffic.Counts, steps), Rules: map[string][]traffic.Counts{},
		Store: make([]traffic.StoreCounts, steps), DecisionP99: make([]int64, steps), StoreP99: make([]int64, steps), Last: -1,
	}
}

// add adds one minute to a step.
func (p *Past) add(minute int64, step int, c *counted, rule string) {
	steps := len(p.Known)
	p.Known[step], p.Last = true, max(p.Last, minute)
	p.Series[step].Add(c.Total)
	p.Store[step].Add(c.Store)
	p.DecisionP99[step] = max(p.DecisionP99[step], c.DecisionP99)
	p.StoreP99[step] = max(p.StoreP99[step], c.StoreP99)
	p.Marks = append(p.Marks, c.Marks...)
	for name, counts := range c.Rules {
		if rule != "" && name != rule {
			continue
		}
		if p.Rules[name] == nil && len(p.Rules) >= maxRules {
			name = traffic.Others
		}
		if p.Rules[name] == nil {
			p.Rules[name] = make([]traffic.Counts, steps)
		}
		p.Rules[name][step].Add(counts)
	}
}

// maxSteps bounds a query: a day in minutes.
const maxSteps = 1440

// Valid reports whether a query can be answered from the history.
func Valid(q *traffic.Query) bool {
	return q.Step >= Resolution && q.Step%Resolution == 0 && q.From.Before(q.To) && q.To.Sub(q.From) <= maxSteps*q.Step && q.To.Sub(q.From) <= Reach+2*q.Step && // both ends are rounded to steps

		q.From.UnixNano()%int64(q.Step) == 0 && q.To.UnixNano()%int64(q.Step) == 0
}

// steps are the steps in which a period is shown: each divides the next.
var steps = []time.Duration{1, 2, 5, 10, 15, 30, 60}

// Between returns the query for a period. It has about 200 steps at most, the last of which may not be over.
func Between(from, to time.Time) Query {
	step := steps[len(steps)-1] * Resolution
	for _, s := range steps {
		if to.Sub(from) <= 200*s*Resolution {
			step = s * Resolution
			break
		}
	}
	end := to.Truncate(step)
	if end.Before(to) {
		end = end.Add(step)
	}
	return Query{From: from.Truncate(step).UTC(), To: end.UTC(), Step: step}
}

// Query is a query with steps of whole minutes.
type Query = traffic.Query

// Read returns what is known of the nodes: from the database, and what this node has not saved yet. have names the
// last minute of nodes that the reader has already: only later ones are returned of them.
func (r *Recorder) Read(ctx context.Context, q Query, have map[string]int64) (found []*Past, err error) {
	all := map[string]*Past{}
	add := func(node, name string, minute int64, c *counted) {
		if last, ok := have[node]; ok && minute <= last {
			return
		}
		if all[node] == nil {
			all[node] = newPast(node, name, q.Steps())
		}
		all[node].add(minute, int(time.Duration(minute-minuteOf(q.From))*Resolution/q.Step), c, q.Rule)
	}
	unsaved := r.unsaved(&q)
	db, err := r.options.Database(ctx)
	if err == nil {
		err = db.Traffic(ctx, minuteOf(q.From), minuteOf(q.To), func(m ruledb.TrafficMinute) error {
			if _, ok := unsaved[m.Minute]; ok && m.Node == r.options.Node {
				return nil
			}
			c, err := decode(m.Counts)
			if err == nil {
				add(m.Node, m.Name, m.Minute, c)
			}
			return nil // what cannot be read is left out, as of another version
		})
	}
	for minute, c := range unsaved {
		add(r.options.Node, r.options.Name, minute, c)
	}
	found = slices.SortedFunc(maps.Values(all), func(a, b *Past) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node)) })
	for _, p := range found {
		slices.SortFunc(p.Marks, func(a, b traffic.Mark) int { return a.At.Compare(b.At) })
	}
	return found, err
}

// unsaved returns the minutes of a query that only memory has.
func (r *Recorder) unsaved(q *Query) map[int64]*counted {
	r.mu.Lock()
	saved := r.saved
	r.mu.Unlock()
	now := minuteOf(time.Now())
	found := map[int64]*counted{}
	for minute := max(saved, minuteOf(q.From), now-int64(traffic.Reach/Resolution)+1); minute <= min(now, minuteOf(q.To)-1); minute++ {
		found[minute] = r.minute(minute)
	}
	return found
}

// Fits reports whether everything has a number of steps. Another node may have sent it.
func (p *Past) Fits(steps int) bool {
	for _, series := range p.Rules {
		if len(series) != steps {
			return false
		}
	}
	return len(p.Known) == steps && len(p.Series) == steps && len(p.Store) == steps && len(p.DecisionP99) == steps && len(p.StoreP99) == steps
}
