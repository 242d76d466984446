package traffic

import (
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/rules"
)

// A shard is what was observed since the last collection. There are several, so that processors seldom wait for each
// other.
type shard struct {
	mu      sync.Mutex
	rules   *rules.Snapshot // the snapshot that the tallies belong to
	slots   []int32         // by the rule's index; 0: none, else the index of its tally plus one
	tallies []tally
	named   map[string]*RuleTotals // of rules that were made for one request
	totals  Totals

	callers      []clientKey       // clients seen
	recentHashes [1 << bits]uint64 // hashes of some of them: most requests come from few clients

	budgets [2]budget // for allowed requests, and for others
	force   int       // number kept for live streams, beyond the budgets
	kept    []Event

	_ [64]byte // padding: the next shard belongs to another processor
}

// A tally is the counts of one rule.
type tally struct {
	rule   *rules.Rule
	counts RuleTotals
}

// A clientKey is a client of a rule, as a hash of its key.
type clientKey struct {
	rule int32 // its index
	hash uint64
}

// spread is an odd number with which consecutive numbers become distant ones.
const spread = 0x9E3779B97F4A7C15

const (
	bits       = 10
	maxCallers = 1 << 14 // at which a shard is collected before the next beat
)

// count counts a request under every rule that was asked.
func (s *shard) count(o *engine.Observation) {
	v := o.Verdict
	if errors.Is(o.Err, penstock.ErrInvalid) {
		s.totals.Invalid++
		return
	}
	s.totals.Decisions[v.Reason][v.Quality][index(v.Allowed)]++
	if o.Err != nil { // the store did not answer
		s.totals.Failed++
	}
	s.totals.Beyond += int64(o.Beyond)
	for i := range o.Failures {
		s.tally(o.Failures[i].Rule).counts.Failures++
	}
	for i := range o.Fallbacks {
		s.tally(o.Fallbacks[i].Rule).counts.Fallbacks[o.Fallbacks[i].Reason]++
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
		s.recordClient(int32(m.Rule.Index), m.Key)
	}
	if shadow {
		s.totals.Shadow++
	}
}

// madeFor returns the counts of rules that were each made for one request and only share a name.
func (s *shard) madeFor(name string) *RuleTotals {
	if s.named == nil {
		s.named = map[string]*RuleTotals{}
	}
	if s.named[name] == nil {
		s.named[name] = new(RuleTotals)
	}
	return s.named[name]
}

// outcome reports whether the first limits, those of the named rule, all allow the request, and how many they are.
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

// recordClient records a client of a rule, unless it was recorded recently. A client has the same hash on every node,
// so that clients of several nodes can be counted together.
func (s *shard) recordClient(rule int32, key []string) {
	h := uint64(0)
	for _, part := range key {
		h = h*spread ^ xxhash.Sum64String(part)
	}
	mark := h ^ uint64(rule)*spread
	if last := &s.recentHashes[mark%(1<<bits)]; *last != mark {
		*last = mark
		s.callers = append(s.callers, clientKey{rule, h})
	}
}

// empty clears what has been collected, and keeps the memory for reuse.
func (s *shard) empty() {
	for i := range s.tallies {
		s.slots[s.tallies[i].rule.Index] = 0
	}
	clear(s.tallies)
	s.tallies, s.callers = s.tallies[:0], s.callers[:0]
	clear(s.recentHashes[:])
	s.totals = Totals{}
	clear(s.named)
	clear(s.kept)
	s.kept = s.kept[:0]
	s.budgets, s.force = [2]budget{}, 0
}

// A budget keeps the first requests of a beat, and then fewer the more there are, at random distances: a fixed
// distance could always miss requests that come at regular intervals.
type budget struct {
	seen, next, spent int
}

// generous is how many requests all shards together keep before the distances double. Each shard keeps at least
// leastGenerous, so that at low rates all requests are kept even if they are spread unevenly.
const generous, leastGenerous = 256, 16

// spend returns the weight of the current request if it is kept; 0: it is not.
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

// maxForced bounds what is kept for live streams, for each shard and beat.
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
