package traffic

import (
	"errors"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/rules"
)

// A shard is what was observed since the shards were last put together. There are several, so that
// processors seldom wait for each other.
type shard struct {
	mu      sync.Mutex
	rules   *rules.Snapshot // that the tallies are of
	slots   []int32         // by the rule's index; 0: none, else one more than its tally's index
	tallies []tally
	named   map[string]*RuleTotals // of rules that were made for one request
	totals  Totals

	callers []caller          // that were met
	lately  [1 << bits]uint64 // hashes of some of them: most calls are of few callers

	budgets [2]budget // of allowed calls, of others
	force   int       // how many were kept for who watches, beyond the budgets
	kept    []Event

	_ [64]byte // the next shard is another processor's
}

// A tally is what happened to one rule.
type tally struct {
	rule   *rules.Rule
	counts RuleTotals
}

// A caller is one that a rule has met, as a hash of its key.
type caller struct {
	rule int32 // its index
	hash uint64
}

const (
	bits       = 10
	maxCallers = 1 << 14
)

var hashSeed = maphash.MakeSeed()

// follow makes ready for other rules. What was counted of the last has been put away.
func (s *shard) follow(r *rules.Snapshot) {
	s.rules = r
	s.slots = slices.Grow(s.slots[:0], len(r.Rules))[:len(r.Rules)]
	clear(s.slots)
}

// count counts one call under every rule that was asked.
func (s *shard) count(o *engine.Observation) {
	v := o.Verdict
	if errors.Is(o.Err, penstock.ErrInvalid) {
		s.totals.Invalid++
		return
	}
	s.totals.Decisions[v.Reason][v.Quality][index(v.Allowed)]++
	if failed(o) {
		s.totals.Failed++
	}
	s.totals.Beyond += int64(o.Beyond)
	for i := range o.Failures {
		s.tally(o.Failures[i].Rule).counts.Failures++
	}
	limits, shadow := v.Limits, false
	for i := range o.Matched {
		m := &o.Matched[i]
		allowed, n := outcome(limits, m.Rule.Name)
		if n == 0 {
			continue // it was not asked
		}
		result := resultOf(m.Rule.Mode == rules.Shadow, allowed)
		limits = limits[n:]
		shadow = shadow || result == ShadowDenied
		if m.Rule.Index < 0 {
			s.madeFor(m.Rule.Name).Decisions[result][v.Quality]++
			continue
		}
		s.tally(m.Rule).counts.Decisions[result][v.Quality]++
		s.meet(int32(m.Rule.Index), m.Key)
	}
	if shadow {
		s.totals.Shadow++
	}
}

// madeFor returns the counts of rules that were each made for one request. They have only a name in common.
func (s *shard) madeFor(name string) *RuleTotals {
	if s.named == nil {
		s.named = map[string]*RuleTotals{}
	}
	if s.named[name] == nil {
		s.named[name] = new(RuleTotals)
	}
	return s.named[name]
}

// outcome tells whether the limits at the head, of the rule of that name, all allow the call, and
// how many they are.
func outcome(limits []penstock.LimitVerdict, rule string) (allowed bool, n int) {
	allowed = true
	for n < len(limits) && limits[n].Rule == rule {
		allowed = allowed && limits[n].Allowed
		n++
	}
	return allowed, n
}

func (s *shard) tally(r *rules.Rule) *tally {
	slot := &s.slots[r.Index]
	if *slot == 0 {
		s.tallies = append(s.tallies, tally{rule: r})
		*slot = int32(len(s.tallies))
	}
	return &s.tallies[*slot-1]
}

// meet notes a rule's caller, unless it was noted just before.
func (s *shard) meet(rule int32, key []string) {
	h := uint64(rule)
	for _, part := range key {
		h = h*0x9E3779B97F4A7C15 ^ maphash.String(hashSeed, part)
	}
	if last := &s.lately[h%(1<<bits)]; *last != h {
		*last = h
		s.callers = append(s.callers, caller{rule, h})
	}
}

// full tells that the shard is to be put away before the beat.
func (s *shard) full() bool { return len(s.callers) == maxCallers }

// empty forgets what has been put away, and keeps the memory for the next.
func (s *shard) empty() {
	for i := range s.tallies {
		s.slots[s.tallies[i].rule.Index] = 0
	}
	clear(s.tallies)
	s.tallies, s.callers = s.tallies[:0], s.callers[:0]
	clear(s.lately[:])
	s.totals = Totals{}
	clear(s.named)
	clear(s.kept)
	s.kept = s.kept[:0]
	s.budgets, s.force = [2]budget{}, 0
}

// A budget lets the first calls of a beat be kept, and then fewer the more there are, at random
// distances: what comes at regular ones must not be missed by rule.
type budget struct {
	seen, next, spent int
}

// generous is how many all shards together keep before the distances double. A shard by itself keeps
// enough that few calls, unevenly spread, are all kept.
const generous, leastGenerous = 256, 16

// spend tells how many calls the one at hand is to stand for if it is kept; 0: it is not.
func (b *budget) spend(generous int) (weight int64) {
	b.seen++
	if b.seen < b.next {
		return 0
	}
	stride := 1 << (b.spent / generous)
	b.spent++
	b.next = b.seen + 1
	if stride > 1 {
		b.next = b.seen + 1 + rand.IntN(2*stride-1)
	}
	return int64(stride)
}

// maxForced bounds what is kept because somebody watches for it, of each shard and beat.
const maxForced = 256

func (s *shard) forced() bool {
	s.force++
	return s.force <= maxForced
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}
