package backtest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock/rules"
)

// maxDistinct is the number up to which keys are counted exactly. Beyond it, only half of them, a quarter, …
// are counted.
const maxDistinct = 1 << 16

// A DistinctCounter counts different keys in bounded memory, exactly up to maxDistinct.
type DistinctCounter struct {
	seen  map[uint64]struct{}
	level uint // only hashes that end in level zero bits count
}

// Add counts a key by its hash.
func (d *DistinctCounter) Add(hash uint64) {
	if hash&(1<<d.level-1) != 0 {
		return
	}
	if d.seen == nil {
		d.seen = map[uint64]struct{}{}
	}
	d.seen[hash] = struct{}{}
	for len(d.seen) > maxDistinct {
		d.level++
		for h := range d.seen {
			if h&(1<<d.level-1) != 0 {
				delete(d.seen, h)
			}
		}
	}
}

// Count returns the number of different keys.
func (d *DistinctCounter) Count() int64 { return int64(len(d.seen)) << d.level }

// Exact reports whether Count is exact and not an estimate.
func (d *DistinctCounter) Exact() bool { return d.level == 0 }

// maxCounted is how many keys a frequent tracks at once.
const maxCounted = 20_000

// A frequentKeys finds the most frequent keys in bounded memory, by the Misra-Gries algorithm. Counts are exact up to
// maxCounted keys, and otherwise too low by at most floor.
type frequentKeys struct {
	counts map[string]int64
	floor  int64
}

func (f *frequentKeys) add(key string) {
	if f.counts == nil {
		f.counts = map[string]int64{}
	}
	if _, known := f.counts[key]; known || len(f.counts) < maxCounted {
		f.counts[key]++
		return
	}
	f.floor++
	for k, n := range f.counts {
		if n == 1 {
			delete(f.counts, k)
		} else {
			f.counts[k] = n - 1
		}
	}
}

func (f *frequentKeys) top(most int) []KeyCount {
	all := make([]KeyCount, 0, len(f.counts))
	for key, n := range f.counts {
		all = append(all, KeyCount{key, n})
	}
	slices.SortFunc(all, func(a, b KeyCount) int { return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Key, b.Key)) })
	return all[:min(len(all), most)]
}

// HashKey returns the hash of a key for a Distinct: FNV-1a, mixed so that its last bits are as good as the
// others. The same log always gives the same result.
func HashKey(values []string) uint64 {
	h := uint64(14695981039346656037)
	for _, v := range values {
		for i := range len(v) {
			h = (h ^ uint64(v[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// keyText formats a key for people: ip=198.51.100.7 path=/login.
func keyText(r *rules.Rule, values []string) string {
	if len(values) == 0 {
		return "all"
	}
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = r.Key[i].Name + "=" + v
	}
	return strings.Join(parts, " ")
}

// maxBuckets bounds a series. Beyond it, pairs of buckets are merged.
const maxBuckets = 240

// A Series counts requests over time, in buckets whose length grows with the time they span.
type Series struct {
	Start   time.Time     `json:"start"`
	Step    time.Duration `json:"-"`
	Seconds float64       `json:"step_seconds"`
	Counts  []Bucket      `json:"counts"`
}

// A Bucket is the requests of one period.
type Bucket struct {
	Requests int64    `json:"requests"`
	Denied   [2]int64 `json:"denied"` // by each of the documents
}

// at returns the bucket of an instant.
func (s *Series) at(now time.Time) *Bucket {
	if s.Step == 0 {
		s.Start, s.Step = now.Truncate(time.Second), time.Second
	}
	for int(now.Sub(s.Start)/s.Step) >= maxBuckets {
		half := make([]Bucket, 0, maxBuckets)
		for i, b := range s.Counts {
			if i%2 == 0 {
				half = append(half, b)
				continue
			}
			last := &half[i/2]
			last.Requests += b.Requests
			last.Denied[0] += b.Denied[0]
			last.Denied[1] += b.Denied[1]
		}
		s.Counts, s.Step = half, 2*s.Step
	}
	i := max(0, int(now.Sub(s.Start)/s.Step))
	for len(s.Counts) <= i {
		s.Counts = append(s.Counts, Bucket{})
	}
	s.Seconds = s.Step.Seconds()
	return &s.Counts[i]
}
