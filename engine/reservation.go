package engine

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// The name of a reservation holds what any node needs to conclude it: for each rule that took something, its
// number, the subject, the nonce and the limits, and what it was charged if the response may change that. A keyed
// checksum prevents forgery.
//
//	version(1) flags(1) { rule(8) subject(16) nonce(8) override(2) limits(4) [cost(8)] [numbers] }... checksum(8), in base64url
//
// Where numbers of limits come from data, they follow, so that the reservation is concluded by the counters and with
// the numbers that it was made with. The version is then 2.
//
//	numbers: how many(1) { count(8) scope(8) }...

const (
	reservationVersion = 1
	reservationNumbers = 2 // version of a reservation with numbers

	reservationLocal  = 1 << 0 // in flags: taken from the local store
	reservationBooked = 1 << 1 // and to be charged to the shared one when it is settled
	reservationCosts  = 1 << 2 // with the cost of each rule

	onlyLeases  = 1 << 15 // in override: the other bits are its index, counted from 1; 0: the rule's own limits
	withNumbers = 1 << 14 // in override

	headBytes     = 2
	takenBytes    = 8 + 16 + 8 + 2 + 4
	costBytes     = 8
	numberBytes   = 8 + 8
	checksumBytes = 8
)

// MaxReservationID is the maximum length of the name of a reservation.
const MaxReservationID = (4*(headBytes+storage.MaxGroups*(takenBytes+costBytes+1+rules.MaxDataLimits*numberBytes)+checksumBytes) + 2) / 3

// A ruleCharge is what one rule took.
type ruleCharge struct {
	snapshot *rules.Snapshot
	rule     *rules.Rule
	limits   []*algorithm.Meter // all of them, or only those of permits
	policies []string           // of the limits
	match    uint16             // of an override that shares the rule's counters; 0: another override, or the rule itself
	subject  storage.Subject
	nonce    uint64
	numbers  []rules.LimitNumber // that data gave to limits, in their order
	cost     int64               // that was reserved; 0: it is not known, or only permits were
	booked   bool                // when it is settled: the local store took it, and the shared one has not charged it
}

// reservation names what the request took that can be given back, or what the original of a duplicate took;
// "" if there is nothing. A duplicate takes only permits.
func (w *workspace) reservation(local, original bool) string {
	var id []byte
	for i := range w.turn.Outcome.Groups {
		out := &w.turn.Outcome.Groups[i]
		nonce, permits := out.Nonce, out.Replay || w.turn.Ticket.Groups[i].Reserve == 0
		if original {
			nonce, permits = out.Original, w.turn.Ticket.Groups[i].Reserve == 0
		}
		if nonce == 0 {
			continue
		}
		if id == nil {
			id = append(make([]byte, 0, headBytes+len(w.asked)*(takenBytes+costBytes)+checksumBytes), reservationVersion, 0)
			if local {
				id[1] |= reservationLocal
			}
			if local && w.uncharged {
				id[1] |= reservationBooked
			}
			if w.isCorrected() {
				id[1] |= reservationCosts
			}
		}
		id = w.appendTaken(id, i, nonce, permits)
	}
	if id == nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append(id, checksum(w.snapshot, id)...))
}

// reservedFor returns how long everything that the request took stays reserved.
func (w *workspace) reservedFor() (ttl time.Duration) {
	for i := range w.turn.Outcome.Groups {
		g, out := &w.turn.Ticket.Groups[i], &w.turn.Outcome.Groups[i]
		if out.Nonce == 0 {
			continue
		}
		if !out.Replay {
			ttl = shorter(ttl, g.Reserve)
		}
		for j := range g.Charges {
			if g.Charges[j].TakesPermit() {
				ttl = shorter(ttl, permitTTL(g.Charges[j].Meter))
			}
		}
	}
	return ttl
}

// settlesEarly reports whether the header of the response decides everything that the request took: no permit is held
// until the end of the response, and no cost comes with its body.
func (w *workspace) settlesEarly() bool {
	for i := range w.turn.Outcome.Groups {
		r := w.asked[i].rule
		if w.turn.Outcome.Groups[i].Nonce == 0 {
			continue
		}
		if r.Outcome == nil || r.Cost.Afterwards() {
			return false
		}
		for j := range w.turn.Ticket.Groups[i].Charges {
			if w.turn.Ticket.Groups[i].Charges[j].TakesPermit() {
				return false
			}
		}
	}
	return true
}

func permitTTL(m *algorithm.Meter) time.Duration {
	return time.Duration(m.Window) * time.Microsecond
}

// shorter is min for durations, where 0 means unknown.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (w *workspace) appendTaken(id []byte, i int, nonce uint64, permits bool) []byte {
	g, a := &w.turn.Ticket.Groups[i], &w.asked[i]
	override := uint16(a.override + 1)
	t := ruleCharge{numbers: numbersOf(&a.limits)}
	if permits {
		override |= onlyLeases
	} else if len(t.numbers) > 0 {
		override |= withNumbers
		id[0] = reservationNumbers
	}
	t.pick(a.rule, override)
	id = binary.BigEndian.AppendUint64(id, a.rule.Subjects.Number())
	id = append(id, g.Subject[:]...)
	id = binary.BigEndian.AppendUint64(id, nonce)
	id = binary.BigEndian.AppendUint16(id, override)
	id = binary.BigEndian.AppendUint32(id, t.digest())
	if id[1]&reservationCosts != 0 {
		cost := uint64(0)
		if !permits {
			cost = uint64(g.Charges[0].Cost) // all have the same
		}
		id = binary.BigEndian.AppendUint64(id, cost)
	}
	if override&withNumbers != 0 {
		id = append(id, byte(len(t.numbers)))
		for _, n := range t.numbers {
			id = binary.BigEndian.AppendUint64(id, uint64(n.Count))
			id = binary.BigEndian.AppendUint64(id, n.Scope)
		}
	}
	return id
}

// numbersOf returns the numbers that come from data.
func numbersOf(l *rules.Limits) (all []rules.LimitNumber) {
	for _, n := range l.Data {
		if n.IsData {
			all = append(all, n)
		}
	}
	return all
}

// isCorrected reports whether a condition about the response may change what a rule has charged.
func (w *workspace) isCorrected() bool {
	for i := range w.asked {
		if w.asked[i].rule.Outcome != nil {
			return true
		}
	}
	return false
}

// pick selects the limits of a rule, or of an override, that a reservation covers.
func (t *ruleCharge) pick(r *rules.Rule, override uint16) {
	t.rule, t.limits, t.policies, t.match = r, nil, nil, 0
	n := int(override &^ (onlyLeases | withNumbers))
	if n > len(r.Overrides) {
		return
	}
	if n > 0 && !r.Overrides[n-1].OwnCounters {
		t.match = uint16(r.Overrides[n-1].MatchID) | 1
	}
	limits, _ := r.LimitsWith(n-1, t.numbers) // the defaults if the rule has other numbers now
	for i, m := range limits.Meters {
		if override&onlyLeases == 0 || m.Kind == algorithm.KindLeases {
			t.limits, t.policies = append(t.limits, m), append(t.policies, limits.Policies[i])
		}
	}
}

// find selects the limits that a reservation covers by the names of their counters: they may have moved to
// another override and have other counts now. Of the overrides that share the rule's counters, the one with
// the same match comes first, so that a counter is refilled by the limit it belongs to. If there is none, the
// document has put another limit on the counter. find reports whether there are any limits.
func (t *ruleCharge) find(r *rules.Rule, override uint16, limits uint32) bool {
	t.pick(r, override)
	if t.digest() == limits || digest(t.limits) == limits { // the latter was written by an earlier release
		return true
	}
	for n := range uint16(len(r.Overrides) + 1) {
		if t.pick(r, n|override&onlyLeases); t.digest() == limits {
			return true
		}
	}
	for n := range uint16(len(r.Overrides) + 1) {
		if t.pick(r, n|override&onlyLeases); (n == 0 || t.match != 0) && len(t.limits) > 0 && digest(t.limits)>>16 == limits>>16 {
			return true
		}
	}
	return false
}

// digest covers the limits' counters in its upper half, and also the override in its lower half.
func (t *ruleCharge) digest() uint32 { return digest(t.limits) ^ uint32(t.match) }

// digest treats the limits as a set, because their order means nothing.
func digest(limits []*algorithm.Meter) (sum uint32) {
	for _, m := range limits {
		high, low := bits.Mul64(m.Fingerprint, 0x9e3779b97f4a7c15)
		sum ^= uint32((high ^ low) >> 32)
	}
	return sum
}

func checksum(s *rules.Snapshot, id []byte) []byte {
	sum := s.Hasher.Call("reservation\x00" + string(id))
	return sum[:checksumBytes]
}

// parseReservation returns what was taken under rules that still exist: what a deleted rule has counted no
// longer counts.
func parseReservation(s *rules.Snapshot, text string) (all []ruleCharge, flags byte, err error) {
	flags, rest, err := openReservation(s, text)
	for err == nil && len(rest) > 0 {
		t := ruleCharge{snapshot: s}
		var exists bool
		if exists, rest, err = t.read(rest, flags); exists && err == nil {
			all = append(all, t)
		}
	}
	if err == nil && len(all) == 0 {
		err = errors.New("its rule was removed or has other limits now")
	}
	if err != nil {
		return nil, 0, fmt.Errorf("reservation %.32q: %w: %w", text, penstock.ErrNoReservation, err)
	}
	return all, flags, nil
}

var errNoReservation = errors.New("it does not look like one")

// openReservation decodes a name and checks that a node with the same secret gave it out. It returns its flags, and
// what the rules took.
func openReservation(s *rules.Snapshot, text string) (flags byte, taken []byte, err error) {
	if len(text) > MaxReservationID {
		return 0, nil, errors.New("it is too long to be one")
	}
	id, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(id) < headBytes+takenBytes+checksumBytes || len(text) != base64.RawURLEncoding.EncodedLen(len(id)) { // the decoder skips line ends
		return 0, nil, errNoReservation
	}
	body, sum := id[:len(id)-checksumBytes], id[len(id)-checksumBytes:]
	if id[0] != reservationVersion && id[0] != reservationNumbers || subtle.ConstantTimeCompare(checksum(s, body), sum) == 0 {
		return 0, nil, errors.New("it was created elsewhere or with another key_secret")
	}
	return body[1], body[headBytes:], nil
}

// read reads what one rule took, reports whether the rule still exists with the same limits, and returns what follows.
func (t *ruleCharge) read(part []byte, flags byte) (exists bool, rest []byte, err error) {
	size := takenBytes
	if flags&reservationCosts != 0 {
		size += costBytes
	}
	if len(part) < size {
		return false, nil, errNoReservation
	}
	t.subject, t.nonce = storage.Subject(part[8:24]), binary.BigEndian.Uint64(part[24:])
	if flags&reservationCosts != 0 {
		t.cost = int64(binary.BigEndian.Uint64(part[takenBytes:]))
	}
	override, rest := binary.BigEndian.Uint16(part[32:]), part[size:]
	if override&withNumbers != 0 {
		if rest, err = t.readNumbers(rest); err != nil {
			return false, nil, err
		}
	}
	r := t.snapshot.Numbered(binary.BigEndian.Uint64(part))
	return r != nil && t.find(r, override, binary.BigEndian.Uint32(part[34:])), rest, nil
}

// readNumbers reads the numbers of limits, and returns what follows.
func (t *ruleCharge) readNumbers(part []byte) ([]byte, error) {
	if len(part) == 0 || len(part) < 1+int(part[0])*numberBytes {
		return nil, errors.New("it ends within its numbers")
	}
	n := int(part[0])
	for part = part[1:]; n > 0; n-- {
		t.numbers = append(t.numbers, rules.LimitNumber{
			IsData: true, Count: int64(binary.BigEndian.Uint64(part)), Scope: binary.BigEndian.Uint64(part[8:]),
		})
		part = part[numberBytes:]
	}
	return part, nil
}
