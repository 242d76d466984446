package memstore

import "sync/atomic"

// A budget counts the bytes of all shards. It is touched only when a table or an arena changes its
// size, so shards do not wait for each other here.
type budget struct {
	store  *Store
	max    int64 // without what overflowing ends of tables may need beyond it
	tables atomic.Int64
	lists  atomic.Int64

	maxChunks int // of a shard: no table may be longer

	evicted atomic.Int64
	refused atomic.Int64
}

// reserved is the part of the budget, as a divisor, that neither tables nor lists can take from the
// other: a flood of one sort of limit leaves room to remember a few of the other sort.
const reserved = 16

// take claims bytes for tables or lists and reports whether there were any left.
func (b *budget) take(part *atomic.Int64, bytes int64) bool {
	part.Add(bytes)
	if b.has(part, 0) {
		return true
	}
	part.Add(-bytes)
	return false
}

// has reports whether so many bytes could be taken.
func (b *budget) has(part *atomic.Int64, bytes int64) bool {
	return part.Load()+bytes <= b.max-b.max/reserved && b.used()+bytes <= b.max
}

func (b *budget) used() int64 { return b.tables.Load() + b.lists.Load() }
