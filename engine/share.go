package engine

import (
	"sync/atomic"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/rules"
)

// nodeShares are the parts of limits that one node enforces while the store does not answer and the limits are
// divided among the nodes. They are computed once for the rules and the number of nodes.
type nodeShares struct {
	of    *rules.Snapshot
	nodes int
	parts map[*algorithm.Meter]*algorithm.Meter
	dedup map[*algorithm.Dedup]*algorithm.Dedup

	// recent are parts of limits whose numbers come from data, which are not known in advance.
	recent [1 << 10]atomic.Pointer[recentShare]
}

type recentShare struct{ of, part *algorithm.Meter }

// sharesFor returns the shares under the rules for the current number of nodes.
func (e *Engine) sharesFor(s *rules.Snapshot) *nodeShares {
	nodes := 1
	if e.nodes != nil {
		nodes = max(1, e.nodes())
	}
	known := e.shares.Load()
	if known == nil || known.of != s || known.nodes != nodes {
		known = newNodeShares(s, nodes)
		e.shares.Store(known)
	}
	return known
}

func newNodeShares(s *rules.Snapshot, nodes int) *nodeShares {
	all := &nodeShares{of: s, nodes: nodes, parts: map[*algorithm.Meter]*algorithm.Meter{}, dedup: map[*algorithm.Dedup]*algorithm.Dedup{}}
	for _, r := range s.Rules {
		if r.OnStoreError != rules.FailDivided {
			continue
		}
		all.add(r.Limits, r.Dedup)
		for i := range r.Overrides {
			all.add(r.Overrides[i].Limits, r.Overrides[i].Dedup)
		}
	}
	return all
}

func (s *nodeShares) add(limits []*algorithm.Meter, d *algorithm.Dedup) {
	for _, m := range limits {
		s.parts[m] = s.shareOf(m)
	}
	if d != nil {
		s.dedup[d] = s.shareOfDuplicates(d)
	}
}

// shareOfDuplicates returns a dedup with the part of the budget that one node has.
func (s *nodeShares) shareOfDuplicates(d *algorithm.Dedup) *algorithm.Dedup {
	terms := d.Terms()
	terms.Budget, terms.Burst = portion(terms.Budget, s.nodes), portion(terms.Burst, s.nodes)
	part, err := terms.Compile()
	if err != nil {
		return d // what cannot be divided is enforced in full
	}
	return part
}

// duplicates returns the dedup of a rule with the part of its budget that this node has by itself.
func (s *nodeShares) duplicates(r *rules.Rule, d *algorithm.Dedup) *algorithm.Dedup {
	if r.OnStoreError != rules.FailDivided || d == nil {
		return d
	}
	if part := s.dedup[d]; part != nil {
		return part
	}
	return s.shareOfDuplicates(d) // beside a limit whose number comes from data
}

// shareOf returns the part of a limit that one node enforces.
func (s *nodeShares) shareOf(m *algorithm.Meter) *algorithm.Meter {
	part, err := divide(m.Limit(), s.nodes).Compile()
	if err != nil {
		return m // what cannot be divided is enforced in full
	}
	return part
}

// divide returns the n-th part of a limit, rounded up: n nodes allow less than n more than one would.
func divide(l penstock.Limit, n int) penstock.Limit {
	l.Count, l.Burst, l.Overdraft = portion(l.Count, n), portion(l.Burst, n), portion(l.Overdraft, n)
	if l.Algorithm == penstock.LeakyBucket {
		l.Queue = portion(l.Queue+1, n) - 1 // one runs besides those that wait
	}
	return l
}

// portion returns the n-th part of a number, rounded up.
func portion(x int64, n int) int64 { return (x + int64(n) - 1) / int64(n) }

// state returns the state of a share that has its part of what was left: ⌈left/n⌉ for each node now, and from
// the next window on its share of the whole limit. A bucket refills at the share's rate.
func (s *nodeShares) state(m, part *algorithm.Meter, st algorithm.State, now penstock.Instant) algorithm.State {
	if s.nodes == 1 {
		return st
	}
	n := int64(s.nodes)
	left := (m.Peek(st, now).Remaining + n - 1) / n
	share := algorithm.State{At: st.At}
	if m.Kind == algorithm.KindCounter { // the previous window continues to fade
		share.Previous = st.Previous / n
	}
	fading := part.Peek(share, now).Used
	return part.Charge(share, max(0, part.Capacity-left-fading))
}

// meter returns the part of a rule's limit that this node enforces by itself. It uses the limit's own state.
func (s *nodeShares) meter(r *rules.Rule, m *algorithm.Meter) *algorithm.Meter {
	if r.OnStoreError == rules.FailDivided {
		if part := s.parts[m]; part != nil {
			return part
		}
		return s.recentPart(m)
	}
	return m
}

// recentPart returns the part of a limit whose number comes from data.
func (s *nodeShares) recentPart(m *algorithm.Meter) *algorithm.Meter {
	hash := (m.Fingerprint ^ uint64(m.Count)<<20) * 0x9e3779b97f4a7c15
	slot := &s.recent[hash>>54]
	if known := slot.Load(); known != nil && known.of == m {
		return known.part
	}
	made := &recentShare{m, s.shareOf(m)}
	slot.Store(made)
	return made.part
}
