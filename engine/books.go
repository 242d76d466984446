package engine

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
)

// Requests that this node admitted by itself, and that the shared store has certainly not charged, are
// entered in the node's books: for each key and limit a counter that holds only them. The shared store
// is charged with what still counts of it before it decides the next request of the key, and the rest
// in the background.

const (
	bookShards = 16

	// maxRecords bounds the counters and log entries in the books, at about 100 bytes each.
	maxRecords = 1 << 17

	// resendWithin is how long a charge may be sent again. The store forgets it after
	// penstock.LateChargeTTL, and would then charge it twice.
	resendWithin = penstock.LateChargeTTL - time.Hour
)

// books are what this node has to charge. They may be used by any number of goroutines.
type books struct {
	charger penstock.LateCharger    // nil: nothing can be charged afterwards, and nothing is entered
	now     func() penstock.Instant // nil: the store's clock

	pages            atomic.Int64 // nearly always 0
	records          atomic.Int64
	charged, dropped atomic.Int64
	shards           [bookShards]bookShard

	background
}

type bookShard struct {
	mu    sync.Mutex
	pages map[penstock.Subject]*page
}

// A page is what was admitted for one key.
type page struct {
	open []penstock.LateAmount // grows with every admission
	last penstock.Instant      // when it last did

	sealed *penstock.LateCharge // being sent; it does not change until it is confirmed
	sent   time.Time            // when the store may first have seen it; zero: never
}

func (b *books) shard(s *penstock.Subject) *bookShard {
	return &b.shards[binary.LittleEndian.Uint64(s[8:])%bookShards]
}

// enter books an admission, at an instant of the store's clock.
func (b *books) enter(s penstock.Subject, m *penstock.Meter, cost int64, now penstock.Instant) {
	if b.charger == nil || cost == 0 || !m.CanChargeLate() {
		return
	}
	if b.records.Load() >= maxRecords && !b.makeRoom(now) {
		b.dropped.Add(1)
		return
	}
	sh := b.shard(&s)
	sh.mu.Lock()
	p := sh.pages[s]
	if p == nil {
		p = new(page)
		if sh.pages == nil {
			sh.pages = map[penstock.Subject]*page{}
		}
		sh.pages[s] = p
		b.pages.Add(1)
	}
	before := p.records()
	booked := p.add(m, cost, now)
	b.records.Add(p.records() - before)
	sh.mu.Unlock()
	if !booked {
		b.dropped.Add(1)
	}
	b.wake()
}

// add reports whether the admission was booked. A log has only so many entries.
func (p *page) add(m *penstock.Meter, cost int64, now penstock.Instant) bool {
	p.last = max(p.last, now)
	i := slices.IndexFunc(p.open, func(a penstock.LateAmount) bool { return a.Meter.Fingerprint == m.Fingerprint })
	if i < 0 {
		i = len(p.open)
		p.open = append(p.open, penstock.LateAmount{Meter: m})
	}
	a := &p.open[i]
	if m.Kind != penstock.KindLog {
		a.State, _, _ = m.Weigh(a.State, now, 0, 0)
		a.State = m.Charge(a.State, cost)
		return true
	}
	w := m.WeighLog(a.Log, now, 0)
	if w.First > 1 && len(a.Log) > 0 { // what has left the window is not charged
		a.Log = slices.Delete(a.Log, 0, w.First-1)
		w.First = 1
	}
	if len(a.Log)+2 > penstock.MaxLateEntries {
		return false
	}
	a.Log = m.RecordLog(a.Log, w, cost)
	return true
}

func (p *page) amounts() []penstock.LateAmount {
	if p.sealed == nil {
		return p.open
	}
	return slices.Concat(p.open, p.sealed.Amounts)
}

func (p *page) records() (n int64) {
	for _, a := range p.amounts() {
		n += 1 + int64(len(a.Log))
	}
	return n
}

// ended reports whether nothing on the page counts any more.
func (p *page) ended(now penstock.Instant) bool {
	return !slices.ContainsFunc(p.amounts(), func(a penstock.LateAmount) bool {
		at := a.State.At
		if n := len(a.Log); n > 0 {
			at = a.Log[n-1].At
		}
		return at+penstock.Instant(a.Meter.Life) > now
	})
}

// remove tears out a page. The shard must be locked.
func (b *books) remove(sh *bookShard, s penstock.Subject, p *page) {
	delete(sh.pages, s)
	b.pages.Add(-1)
	b.records.Add(-p.records())
}

// makeRoom looks at some pages and removes those that say nothing any more.
func (b *books) makeRoom(now penstock.Instant) (made bool) {
	const looks = 8
	sh := &b.shards[rand.IntN(bookShards)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	looked := 0
	for s, p := range sh.pages {
		if p.ended(now) {
			b.remove(sh, s, p)
			made = true
		}
		if looked++; looked == looks {
			break
		}
	}
	return made
}

// forget drops what was booked for a key before an instant.
func (b *books) forget(s penstock.Subject, before penstock.Instant) {
	if b.pages.Load() == 0 {
		return
	}
	sh := b.shard(&s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if p := sh.pages[s]; p != nil && p.last < before {
		b.remove(sh, s, p)
	}
}

// owed returns how much of a limit is booked for a key: it is missing in the shared counter.
func (b *books) owed(s *penstock.Subject, m *penstock.Meter, now penstock.Instant) (used int64) {
	if b.pages.Load() == 0 {
		return 0
	}
	sh := b.shard(s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	p := sh.pages[*s]
	if p == nil {
		return 0
	}
	for _, a := range p.amounts() {
		if a.Meter.Fingerprint == m.Fingerprint {
			st, _, _ := m.Weigh(a.State, now, 0, 0)
			used += m.Peek(st, now).Used
		}
	}
	return used
}
