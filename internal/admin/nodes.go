package admin

import (
	"time"

	"github.com/penstock-io/penstock/internal/membership"
)

// Nodes are the nodes that share the limits, as far as this one knows.
type Nodes struct {
	Nodes []Node `json:"nodes"` // this one first
}

// A Node is one of the nodes.
type Node struct {
	ID     string    `json:"id"`
	Self   bool      `json:"self"`   // the node that answers
	Silent bool      `json:"silent"` // not heard from for longer than a node counts as alive
	Heard  float64   `json:"heard_ago_seconds"`
	About  *NodeInfo `json:"about"` // null: this node cannot read it, for example because the other one is older
}

// A NodeInfo is what a node reports about itself.
type NodeInfo struct {
	Name          string    `json:"name"`
	Version       string    `json:"version"`
	Started       time.Time `json:"started"`
	RulesVersion  int64     `json:"rules_version"`
	RulesChecksum string    `json:"rules_checksum"` // a prefix of it
	Rules         string    `json:"rules"`
	Quality       string    `json:"quality"`
	Calls         float64   `json:"calls_per_second"`
	Denied        float64   `json:"denied_per_second"`
}

// How a node's rules compare to the newest rules of any live node.
const (
	rulesCurrent   = "current"
	rulesBehind    = "behind"
	rulesDifferent = "different" // and it is unknown which are newer
)

func (a *Admin) nodes(*apiRequest) (any, error) { return nodesOf(a.Nodes(), a.Now()), nil }

func nodesOf(all []membership.KnownNode, now time.Time) Nodes {
	newest := newestOf(all, now)
	return Nodes{each(all, func(k *membership.KnownNode) Node {
		one := Node{ID: k.ID, Self: k.Self, Silent: k.Silent(now), Heard: max(0, now.Sub(k.Heard).Round(time.Millisecond).Seconds())}
		if n := k.Node; n != nil {
			one.About = &NodeInfo{
				Name: n.Name, Version: n.Version, Started: n.Started.UTC(),
				RulesVersion: n.Rules, RulesChecksum: n.Checksum, Rules: standingOf(n, newest),
				Quality: n.Quality, Calls: n.Calls, Denied: n.Denied,
			}
		}
		return one
	})}
}

// newestOf returns the first node with the newest rules, which is this one if it has them.
func newestOf(all []membership.KnownNode, now time.Time) (newest *membership.Node) {
	for i := range all {
		if n := all[i].Node; n != nil && !all[i].Silent(now) && (newest == nil || n.Rules > newest.Rules) {
			newest = n
		}
	}
	return newest
}

func standingOf(n, newest *membership.Node) string {
	switch {
	case newest == nil || n.Checksum == newest.Checksum:
		return rulesCurrent
	case n.Rules > 0 && n.Rules < newest.Rules:
		return rulesBehind
	}
	return rulesDifferent
}
