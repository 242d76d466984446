package redisstore

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// Bounds of a run, because others wait behind it. A single ticket may exceed the second.
const (
	maxRunTickets = 128
	maxRunItems   = 1024
)

const headSize = 9 // subjects, tickets, extras, where the tickets start

// A request is a run being packed for take.lua. It is reused from run to run.
type request struct {
	subjects map[storage.Subject]int    // index among the subjects' keys, from 1
	lists    map[listID]int             // index among the other keys, from 1
	limits   map[*algorithm.Meter]int   // where in the request they start, from 1 as in Lua
	terms    map[*algorithm.Penalty]int // likewise

	batch                 []*pendingTicket
	subjectKeys, listKeys keyText
	limitBuf, ticketBuf   []byte
	extras                byte // whether the script needs its less common parts
}

type listID struct {
	subject     storage.Subject
	fingerprint uint64
}

// keyText holds keys back to back, so that all of them become strings with one allocation.
type keyText struct {
	text []byte
	ends []int
}

func newRequest() *request {
	return &request{
		subjects: make(map[storage.Subject]int),
		lists:    make(map[listID]int),
		limits:   make(map[*algorithm.Meter]int),
		terms:    make(map[*algorithm.Penalty]int),
	}
}

// pack packs the tickets of a run. now is this node's clock: for tickets without their own instant,
// calendar periods are looked up around it.
func (r *request) pack(calls []*pendingTicket, prefix string, now algorithm.Instant) (keys []string, arg string) {
	clear(r.subjects)
	clear(r.lists)
	clear(r.limits)
	clear(r.terms)
	r.subjectKeys.reset()
	r.listKeys.reset()
	r.limitBuf, r.ticketBuf, r.extras = r.limitBuf[:0], r.ticketBuf[:0], 0
	for _, c := range calls {
		r.packTicket(&c.ticket, c.hold, prefix, now)
	}
	keys = make([]string, 0, len(r.subjectKeys.ends)+len(r.listKeys.ends))
	keys = r.listKeys.appendTo(r.subjectKeys.appendTo(keys))

	head := make([]byte, 0, headSize+len(r.limitBuf)+len(r.ticketBuf))
	head = binary.BigEndian.AppendUint16(head, uint16(len(r.subjectKeys.ends)))
	head = binary.BigEndian.AppendUint16(head, uint16(len(calls)))
	head = append(head, r.extras)
	head = binary.BigEndian.AppendUint32(head, uint32(headSize+len(r.limitBuf)+1))
	head = append(append(head, r.limitBuf...), r.ticketBuf...)
	return keys, unsafe.String(unsafe.SliceData(head), len(head)) // head is not used again
}

func (r *request) packTicket(t *storage.Ticket, hold uint64, prefix string, now algorithm.Instant) {
	b := r.ticketBuf
	b = appendUint56(b, int64(t.Now))
	b = appendUint56(b, min(t.MaxDelay.Microseconds(), int64(algorithm.MaxInstant)))
	groups := byte(len(t.Groups))
	if t.Denied {
		groups |= 128
	}
	b = append(b, groups)
	for i := range t.Groups {
		g := &t.Groups[i]
		subject, bits, items := 0, guardBits(g), itemsOf(g)
		if hold != 0 && g.Spends() {
			bits |= guardHolds
		}
		if keepsSlots(g) {
			subject = r.subject(g.Subject, prefix)
		}
		b = binary.BigEndian.AppendUint16(b, uint16(subject))
		b = append(b, bits, byte(items))
		if bits > guardAlone {
			r.extras = 1
			if g.Penalty != nil {
				b = appendItem(b, r.penalty(g.Penalty), 0, formPenal)
			}
			if bits&guardRemembers != 0 {
				b = appendItem(b, r.limit(g.Dedup.Budget, t.Now, now), g.ReplayCost(), formBudget+formOf(g.Dedup.Budget.Kind))
				b = r.appendList(b, g.Dedup.Budget, g.Subject, t.Nonce, prefix)
			}
		}
		for _, c := range g.Charges {
			form := formOf(c.Meter.Kind)
			if c.Overdraw {
				r.extras = 1
				form += formOverdrawn
			}
			b = appendItem(b, r.limit(c.Meter, t.Now, now), c.Cost, form)
			b = r.appendList(b, c.Meter, g.Subject, t.Nonce, prefix)
		}
		if bits > guardAlone {
			b = r.appendGuard(b, g, bits, t.Nonce, prefix)
			if bits&guardHolds != 0 {
				b = r.appendHold(b, g.Subject, newHoldID(hold, i), prefix)
			}
		}
	}
	r.ticketBuf = b
}

// appendItem writes one state that decides a group: its limit, its cost and its form.
func appendItem(b []byte, limit int, cost int64, form byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(limit))
	b = binary.BigEndian.AppendUint16(b, uint16(cost>>32))
	b = binary.BigEndian.AppendUint32(b, uint32(cost))
	return append(b, form)
}

// appendList writes where the item's log or permits are, if it has a list.
func (r *request) appendList(b []byte, m *algorithm.Meter, s storage.Subject, nonce uint64, prefix string) []byte {
	if m.Kind.Fixed() {
		return b
	}
	b = binary.BigEndian.AppendUint16(b, uint16(r.list(s, m, prefix)))
	return binary.BigEndian.AppendUint64(b, nonce)
}

// keepsSlots reports whether the group has a state that is kept in its subject's value.
func keepsSlots(g *storage.Group) bool {
	if g.Penalty != nil || g.Remembers() {
		return true
	}
	for i := range g.Charges {
		if g.Charges[i].Meter.Kind.Fixed() {
			return true
		}
	}
	return false
}

func (r *request) subject(s storage.Subject, prefix string) int {
	if i, ok := r.subjects[s]; ok {
		return i
	}
	r.subjectKeys.text = appendSubjectKey(r.subjectKeys.text, prefix, s)
	i := r.subjectKeys.end()
	r.subjects[s] = i
	return i
}

func (r *request) list(s storage.Subject, m *algorithm.Meter, prefix string) int {
	id := listID{s, m.Fingerprint}
	if i, ok := r.lists[id]; ok {
		return i
	}
	r.listKeys.text = appendListKey(r.listKeys.text, prefix, s, m)
	i := r.listKeys.end()
	r.lists[id] = i
	return i
}

// otherKey returns the number of a key that is neither a subject's value nor a list.
func (r *request) otherKey(appendKey func([]byte) []byte) int {
	r.listKeys.text = appendKey(r.listKeys.text)
	return r.listKeys.end()
}

// limit packs each limit once, but a calendar again for every instant that a ticket brings.
func (r *request) limit(m *algorithm.Meter, given, now algorithm.Instant) int {
	once := given == 0 || m.Kind != algorithm.KindCalendar
	if once {
		if i, ok := r.limits[m]; ok {
			return i
		}
	}
	start := headSize + len(r.limitBuf) + 1
	r.limitBuf = appendLimit(r.limitBuf, m, cmp.Or(given, now))
	if once {
		r.limits[m] = start
	}
	return start
}

func appendLimit(b []byte, m *algorithm.Meter, now algorithm.Instant) []byte {
	b = appendNumbers(b, &m.Constants)
	if m.Kind == algorithm.KindCalendar {
		for _, start := range m.PeriodStarts(now) {
			b = appendUint56(b, max(0, int64(start)))
		}
	}
	return b
}

func appendNumbers(b []byte, m *algorithm.Constants) []byte {
	flags, full := byte(0), m.Full
	if m.CountDenied {
		flags = 1
	}
	if full == 0 {
		full = m.Capacity // levels are not multiplied by time
	}
	b = append(b, byte(m.Kind), flags)
	b = appendUint56(b, int64(m.Fingerprint))
	b = appendUint56(b, m.Count)
	b = appendUint56(b, m.Capacity)
	b = appendUint56(b, m.Window)
	b = binary.BigEndian.AppendUint32(b, uint32(m.Tick))
	b = appendUint56(b, m.Ticks)
	b = appendUint56(b, full)
	b = appendUint56(b, m.Most)
	b = appendUint56(b, m.Drain)
	code := algorithm.LifeCode(m.Life)
	b = appendUint56(b, keptFor(m, code))
	return append(b, code)
}

// keptFor returns how many µs after its date a state is kept. If a change of the limit may change that, it
// is the duration that the life code encodes: a state that was kept with the same code then lives long
// enough, and one with a smaller code does not.
func keptFor(m *algorithm.Constants, code uint8) int64 {
	switch m.Kind {
	case algorithm.KindBucket, algorithm.KindLeaky, algorithm.KindInterval, algorithm.KindPenalty:
		return algorithm.CodeLife(code)
	}
	return m.Life
}

// formOf returns the form in which take.lua reads a charge of the kind.
func formOf(k algorithm.Kind) byte {
	switch k {
	case algorithm.KindCalendar:
		return 1
	case algorithm.KindLog:
		return 2
	case algorithm.KindLeases:
		return 3
	}
	return 0
}

func appendUint56(b []byte, v int64) []byte {
	return append(b, byte(v>>48), byte(v>>40), byte(v>>32), byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

func uint56(b string) int64 {
	return int64(b[0])<<48 | int64(b[1])<<40 | int64(b[2])<<32 | int64(b[3])<<24 | int64(b[4])<<16 | int64(b[5])<<8 | int64(b[6])
}

func uint40(b string) int64 {
	return int64(b[0])<<32 | int64(b[1])<<24 | int64(b[2])<<16 | int64(b[3])<<8 | int64(b[4])
}

func (k *keyText) reset() { k.text, k.ends = k.text[:0], k.ends[:0] }

// end completes the key that was appended to text and returns its number, from 1.
func (k *keyText) end() int {
	k.ends = append(k.ends, len(k.text))
	return len(k.ends)
}

func (k *keyText) appendTo(keys []string) []string {
	text, start := string(k.text), 0
	for _, end := range k.ends {
		keys = append(keys, text[start:end])
		start = end
	}
	return keys
}

// appendSubjectKey writes the key of a subject's fixed-size states. Everything a subject owns shares the
// hash tag, and therefore the slot.
func appendSubjectKey(b []byte, prefix string, s storage.Subject) []byte {
	b = append(append(b, prefix...), '{')
	return append(base64.RawURLEncoding.AppendEncode(b, s[:]), '}')
}

// appendListKey writes the key of a log or a set of permits. Its letter also identifies the format.
func appendListKey(b []byte, prefix string, s storage.Subject, m *algorithm.Meter) []byte {
	b = appendSubjectKey(b, prefix, s)
	if m.Kind == algorithm.KindLog {
		b = append(b, 'l')
	} else {
		b = append(b, 'c')
	}
	var print [8]byte
	binary.BigEndian.PutUint64(print[:], m.Fingerprint)
	return base64.RawURLEncoding.AppendEncode(b, print[1:])
}

// The statuses a ticket can have in a reply.
const (
	statusDecided = 0
	statusCorrupt = 1
	statusClock   = 2
	statusPassed  = 5 // of a ticket with one limit, whose slot follows
	statusRefused = 6 // likewise
)

const (
	itemSize   = 1 + 3*7           // passes, at, a, b
	slotSize   = 7 + 7 + 1 + 7 + 5 // fingerprint, at, life code, a, b
	amountSize = 6                 // after it, for a charge that overdraws
)

// split divides a reply into the parts of its tickets.
func split(reply string, calls []*pendingTicket) error {
	if len(reply) < 7 {
		return errReply(reply)
	}
	now := algorithm.Instant(uint56(reply))
	reply = reply[7:]
	for _, c := range calls {
		if len(reply) == 0 {
			return errReply(reply)
		}
		size := 1
		switch reply[0] {
		case statusDecided:
			size += c.replySize
		case statusPassed, statusRefused:
			size += 1 + slotSize // a byte for the format
		}
		if len(reply) < size {
			return errReply(reply)
		}
		c.now, c.reply = cmp.Or(c.ticket.Now, now), reply[:size]
		reply = reply[size:]
	}
	if len(reply) != 0 {
		return errReply(reply)
	}
	return nil
}

func errReply(reply string) error {
	return fmt.Errorf("the script's reply has the wrong length (at %.32q)", reply)
}

func errStatus(reply string) error {
	switch reply[0] {
	case statusCorrupt:
		return fmt.Errorf("a key of its subjects: %w", storage.ErrCorrupt)
	case statusClosed:
		return storage.ErrClosed
	case statusClock:
		return errors.New("this node's clock is more than a calendar period away from Redis'")
	}
	return errReply(reply)
}

// unpack decodes a ticket's part of the reply.
func (c *pendingTicket) unpack() error {
	c.found, c.sights = c.found[:0], c.sights[:0]
	switch c.reply[0] {
	case statusPassed, statusRefused:
		return c.unpackSingle()
	case statusDecided:
	default:
		return errStatus(c.reply)
	}
	b := c.reply[1:]
	for i := range c.ticket.Groups {
		g := &c.ticket.Groups[i]
		if c.guarded {
			var sight storage.GuardResult
			sight, b = unpackSight(b, g)
			c.sights = append(c.sights, sight)
		}
		for j := range g.Charges {
			charged := unpackItem(b)
			f := storage.ChargeResult{State: charged.state(g.Charges[j].Meter), Passes: charged.passes}
			b = b[itemSize:]
			if g.Charges[j].Overdraw {
				f.Amount = unpackAmount(b)
				b = b[amountSize:]
			}
			c.found = append(c.found, f)
		}
	}
	return nil
}

// unpackSingle decodes the reply for a ticket of one limit: the slot as it is stored, or would be.
func (c *pendingTicket) unpackSingle() error {
	if c.replySize != itemSize || len(c.ticket.Groups[0].Charges) != 1 {
		return errReply(c.reply)
	}
	if c.guarded {
		c.sights = append(c.sights, storage.GuardResult{}) // the group has guards that this request does not need
	}
	b, m := c.reply[2+7:], c.ticket.Groups[0].Charges[0].Meter
	state := m.Kind.StateOf(algorithm.Instant(uint56(b)), uint56(b[8:]), uint40(b[15:]))
	c.found = append(c.found, storage.ChargeResult{State: state, Passes: c.reply[0] == statusPassed})
	return nil
}

func unpackAmount(b string) int64 {
	return int64(b[0])<<40 | int64(b[1])<<32 | int64(b[2])<<24 | int64(b[3])<<16 | int64(b[4])<<8 | int64(b[5])
}

// An item is one state as the scripts encode it: whether its cost passes, and three integers.
type item struct {
	passes bool
	at     algorithm.Instant
	x, y   int64
}

func unpackItem(b string) item {
	return item{b[0] == 1, algorithm.Instant(uint56(b[1:])), uint56(b[8:]), uint56(b[15:])}
}

// state decodes the item for a meter.
func (i item) state(m *algorithm.Meter) algorithm.State { return m.Kind.StateOf(i.at, i.x, i.y) }
