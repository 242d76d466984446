package memstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// Options of a Store. The zero value is ready for use.
type Options struct {
	// MaxBytes bounds the resident memory of all state; 0 is DefaultMaxBytes. A key with a fixed-size
	// limit takes about 36 bytes, and a seventh more if the store is full. About three times as much address
	// space is reserved.
	MaxBytes int64
}

const (
	DefaultMaxBytes = 1 << 30
	MinBytes        = 64 << 10
)

// A Store keeps state in memory. It is safe for concurrent use.
type Store struct {
	shards  []shard // of subjects, and as many of records and reservations
	shift   int     // applied to the subject's number to select the shard
	seed    uint64  // see keyOf
	memory  *memory
	clock   clock
	janitor janitor
}

var (
	_ storage.FullStore   = (*Store)(nil)
	_ storage.BatchStore  = (*Store)(nil)
	_ storage.SingleStore = (*Store)(nil)
	_ storage.Follower    = (*Store)(nil)
)

// New returns an empty store. Close it to end the goroutine it may start. It fails if the system does not
// grant the address space.
func New(o Options) (*Store, error) {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxBytes < MinBytes {
		return nil, fmt.Errorf("open memory store: %w: MaxBytes %d: must be at least %d", algorithm.ErrInvalid, o.MaxBytes, MinBytes)
	}
	n := shardCount(o.MaxBytes)
	s := &Store{
		shards: make([]shard, 2*n),
		shift:  64 - bits.TrailingZeros(uint(n)),
		seed:   rand.Uint64() | 1,
	}
	var err error
	if s.memory, err = newMemory(o.MaxBytes, n); err != nil {
		return nil, fmt.Errorf("open memory store: MaxBytes %d: %w", o.MaxBytes, err)
	}
	s.memory.store = s
	for i := range s.shards {
		s.shards[i].memory = s.memory
		s.shards[i].table = s.memory.table(i)
	}
	// Slots are used only under the lock of their shard, and shards point to the memory, so the mapping
	// lives as long as a slot is in use, even if nothing else refers to the store.
	runtime.AddCleanup(s.memory, (*mapping).unmap, s.memory.mapped)
	s.clock.init()
	s.janitor.closed = make(chan struct{})
	return s, nil
}

// shardCount returns a power of two: one shard per MiB, so that rebuilding a table takes some hundred
// microseconds. There are enough shards to avoid contention, and few enough that their first chunks take at
// most a sixteenth of the budget.
func shardCount(maxBytes int64) int {
	n := min(max(maxBytes>>20, 16), 4096)
	n = min(n, maxBytes/(16*chunkSlots*slotSize))
	return 1 << (bits.Len64(uint64(n)) - 1)
}

// Close ends the store's goroutine. A closed store still decides.
func (s *Store) Close() error {
	s.janitor.close()
	return nil
}

// InProcess reports that no other process shares the counters, so a [penstock.Limiter] on them needs no
// name.
func (s *Store) InProcess() bool { return true }

// Take decides a ticket. A ticket with a permit or a reservation for which there is no room fails with
// [storage.ErrFull], and one whose context has ended fails with the error of the context. In both cases
// nothing has been charged.
func (s *Store) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	s.fetchAhead(t)
	return s.take(ctx, t, out)
}

// TakeEach decides each turn by itself, in order. While one is decided, the states of those that follow are
// fetched: with many subjects, a decision spends most of its time waiting for memory. The clock and the context are
// read once for several turns. The instant still lies between the call and the return.
func (s *Store) TakeEach(ctx context.Context, turns []storage.BatchItem) {
	const ahead = 8
	var fetched [ahead]singlePlace
	for i := range min(ahead, len(turns)) {
		fetched[i] = s.fetchSingle(&turns[i].Ticket)
	}
	var now algorithm.Instant
	var failed error
	for i := range turns {
		if i%ahead == 0 {
			if now = s.clock.now(); ctx.Err() != nil {
				failed = ended("take", ctx.Err())
			}
		}
		turn, place := &turns[i], &fetched[i%ahead]
		if place.sh == nil {
			turn.Err = s.take(ctx, &turn.Ticket, &turn.Outcome)
		} else if turn.Err = failed; failed == nil {
			turn.Err = place.take(&turn.Ticket, &turn.Outcome, now)
		}
		if i+ahead < len(turns) {
			*place = s.fetchSingle(&turns[i+ahead].Ticket)
		}
	}
}

// take decides a ticket.
func (s *Store) take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	if isSingle(t) {
		if err := ctx.Err(); err != nil {
			return ended("take", err)
		}
		place := s.placeOf(t)
		return place.take(t, out, s.instant(t))
	}
	if err := t.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return ended("take", err)
	}
	if s.takePlain(t, out) {
		return nil
	}
	return s.takeMany(t, out)
}

// ended returns the error of an operation that did not start because its context had ended.
func ended(what string, err error) error {
	return fmt.Errorf("%s in memory: %w: %w", what, storage.ErrUnavailable, err)
}

// fetchAhead starts to fetch the slots of a ticket's subjects without waiting for them. They arrive while
// the ticket is checked and the lock is taken.
func (s *Store) fetchAhead(ticket *storage.Ticket) {
	if !canPrefetch {
		return
	}
	for i := range ticket.Groups {
		k, number := keyOf(&ticket.Groups[i].Subject, 0, s.seed)
		s.shards[number>>s.shift].fetch(k.place)
	}
}

// tagOf returns the part that all subjects of a rule have in common.
func tagOf(s *storage.Subject) uint32 { return binary.LittleEndian.Uint32(s[:4]) }

// locate returns a state's key and the index of its shard.
func (s *Store) locate(subject *storage.Subject, m *algorithm.Meter) (_ key, index uint64) {
	k, number := keyOf(subject, m.Fingerprint, s.seed)
	return k, number >> s.shift
}

// instant returns the instant to decide at.
func (s *Store) instant(t *storage.Ticket) algorithm.Instant {
	if t.Now != 0 {
		return t.Now
	}
	return s.clock.now()
}
