package memstore

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A reservation is a list: its subject, then its end, whether it is closed and its nonce, then two entries
// for each receipt. The list of a record has one entry, so the two can be told apart. A reservation is
// dated by when it was made or renewed.
const (
	reservationHeader = 2
	receiptEntries    = 2

	// Flags below the end.
	reservationClosed = 1
	reservationRefund = 2 // it is kept for a refund only
	reservationFlags  = 2 // bits
)

func reservationEntries(receipts int) int { return reservationHeader + receiptEntries*receipts }

func (sh *shard) isReservation(s *slot, subject *storage.Subject) bool {
	if !s.isApart() || !s.isSpilled() {
		return false
	}
	list := sh.list(s)
	return len(list) >= reservationHeader && list[0] == subjectEntry(subject)
}

func subjectEntry(s *storage.Subject) algorithm.Entry {
	return algorithm.Entry{At: algorithm.Instant(binary.LittleEndian.Uint64(s[:8])), Value: int64(binary.LittleEndian.Uint64(s[8:]))}
}

// reservation returns the reservation in a slot, with its receipts in the given slice.
func (sh *shard) reservation(s *slot, receipts []algorithm.Receipt) storage.Reservation {
	list := sh.list(s)
	ends := list[1]
	for rest := list[reservationHeader:]; len(rest) > 0; rest = rest[receiptEntries:] {
		receipts = append(receipts, algorithm.Receipt{Fingerprint: uint64(rest[1].Value), Cost: rest[0].Value, At: rest[0].At})
	}
	return storage.Reservation{Nonce: uint64(ends.Value), Until: ends.At >> reservationFlags, Closed: ends.At&reservationClosed != 0, Receipts: receipts}
}

// setReservation writes a reservation. A block for it must be held.
func (p *slotRef) setReservation(subject *storage.Subject, r *storage.Reservation, refund bool, now algorithm.Instant, isGiven bool) {
	s := p.slotApart()
	list := p.entries(s, reservationEntries(len(r.Receipts)))
	ends := r.Until << reservationFlags
	if r.Closed {
		ends |= reservationClosed
	}
	if refund {
		ends |= reservationRefund
	}
	list[0], list[1] = subjectEntry(subject), algorithm.Entry{At: ends, Value: int64(r.Nonce)}
	for i, receipt := range r.Receipts {
		at := reservationEntries(i)
		list[at] = algorithm.Entry{At: receipt.At, Value: receipt.Cost}
		list[at+1] = algorithm.Entry{Value: int64(receipt.Fingerprint)}
	}
	s.head = head(now, r.Until, apart|spilled|givenFlag(isGiven))
}

// reservations returns the live reservations of a subject, ordered by nonce. It scans those of all subjects, and needs
// the lock of the subject's shard.
func (s *Store) reservations(subject *storage.Subject, now algorithm.Instant) (live []storage.Reservation) {
	s.visitReservations(subject, func(sh *shard, at *slot) bool {
		if r := sh.reservation(at, nil); r.Live(now) {
			live = append(live, r)
		}
		return false
	})
	slices.SortFunc(live, func(a, b storage.Reservation) int { return cmp.Compare(a.Nonce, b.Nonce) })
	return live
}

// visitReservations calls visit for each reservation of a subject and removes those for which it returns true.
func (s *Store) visitReservations(subject *storage.Subject, visit func(*shard, *slot) (drop bool)) {
	for i := range s.apartShards() {
		sh := &s.apartShards()[i]
		sh.lock()
		for i := uint32(0); i < sh.size(); {
			if at := sh.at(i); sh.isReservation(at, subject) && visit(sh, at) {
				sh.drop(i) // and visit the slot that moves here
			} else {
				i++
			}
		}
		sh.unlock()
	}
}
