package engine

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// The node's books record requests that this node admitted by itself and that the shared store has certainly
// not charged: for each key and limit a counter that holds only them. The shared store is charged with what
// still counts of them before it decides the next request of the key, and with the rest in the background.

const (
	bookShards = 16

	// maxRecords bounds the counters and log entries in the books, at about 100 bytes each.
	maxRecords = 1 << 17

	// resendWithin is how long a charge may be sent again. The store forgets it after storage.LateChargeTTL,
	// and would then charge it twice.
	resendWithin = storage.LateChargeTTL - time.Hour
)

// lateCharges are what this node still has to charge. They are safe for concurrent use.
type lateCharges struct {
	charger storage.LateCharger     // nil: nothing can be charged later, so nothing is entered
	now     func() penstock.Instant // nil: the store's clock

	pages            atomic.Int64 // nearly always 0
	records          atomic.Int64
	charged, dropped atomic.Int64
	shards           [bookShards]lateChargeShard

	background
}

type lateChargeShard struct {
	mu    sync.Mutex
	pages map[storage.Subject]*page
}

// A page records what was admitted for one key.
type page struct {
	open []storage.LateAmount // grows with every admission
	last penstock.Instant     // when it last grew

	sealed *storage.LateCharge // being sent; it does not change until it is confirmed
	sent   time.Time           // when the store may first have seen it; zero: never
}

func (b *lateCharges) shard(s *storage.Subject) *lateChargeShard {
	return &b.shards[binary.LittleEndian.Uint64(s[8:])%bookShards]
}

// add records an admission at an instant of the store's clock.
func (b *lateCharges) add(s storage.Subject, m *algorithm.Meter, cost int64, now penstock.Instant) {
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
			sh.pages = map[storage.Subject]*page{}
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

// add reports whether the admission was recorded. The size of a log is bounded.
func (p *page) add(m *algorithm.Meter, cost int64, now penstock.Instant) bool {
	p.last = max(p.last, now)
	i := slices.IndexFunc(p.open, func(a storage.LateAmount) bool { return a.Meter.Fingerprint == m.Fingerprint })
	if i < 0 {
		i = len(p.open)
		p.open = append(p.open, storage.LateAmount{Meter: m})
	}
	a := &p.open[i]
	if m.Kind != algorithm.KindLog {
		a.State, _, _ = m.Weigh(a.State, now, 0, 0)
		a.State = m.Charge(a.State, cost)
		return true
	}
	w := m.WeighLog(a.Log, now, 0)
	if w.First > 1 && len(a.Log) > 0 { // what has left the window is not charged
		a.Log = slices.Delete(a.Log, 0, w.First-1)
		w.First = 1
	}
	if len(a.Log)+2 > algorithm.MaxLateEntries {
		return false
	}
	a.Log = m.RecordLog(a.Log, w, cost)
	return true
}

func (p *page) amounts() []storage.LateAmount {
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
	return !slices.ContainsFunc(p.amounts(), func(a storage.LateAmount) bool {
		at := a.State.At
		if n := len(a.Log); n > 0 {
			at = a.Log[n-1].At
		}
		return at+penstock.Instant(a.Meter.Life) > now
	})
}

// remove deletes a page. The shard must be locked.
func (b *lateCharges) remove(sh *lateChargeShard, s storage.Subject, p *page) {
	delete(sh.pages, s)
	b.pages.Add(-1)
	b.records.Add(-p.records())
}

// makeRoom checks some pages and removes those that no longer count.
func (b *lateCharges) makeRoom(now penstock.Instant) (made bool) {
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

// forget drops what was recorded for a key before an instant.
func (b *lateCharges) forget(s storage.Subject, before penstock.Instant) {
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

// amount returns how much of a limit is recorded for a key and so missing in the shared counter.
func (b *lateCharges) amount(s *storage.Subject, m *algorithm.Meter, now penstock.Instant) (used int64) {
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
