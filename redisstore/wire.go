package redisstore

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/penstock-io/penstock"
)

// Bounds of a run: how long others wait behind it. A single ticket may exceed the second.
const (
	maxRunTickets = 128
	maxRunCharges = 1024
)

const headSize = 8 // subjects, tickets, where the tickets start

// A request is a run being packed for take.lua. It is reused from run to run.
type request struct {
	subjects map[penstock.Subject]int // index among the subjects' keys, from 1
	lists    map[listID]int           // index among the lists' keys, from 1
	limits   map[*penstock.Meter]int  // where in the request they start, from 1 as Lua counts

	batch                 []*call
	subjectKeys, listKeys keyText
	limitBuf, ticketBuf   []byte
}

type listID struct {
	subject     penstock.Subject
	fingerprint uint64
}

// keyText holds keys one after the other, so that all of them become strings at once.
type keyText struct {
	text []byte
	ends []int
}

func newRequest() *request {
	return &request{
		subjects: make(map[penstock.Subject]int),
		lists:    make(map[listID]int),
		limits:   make(map[*penstock.Meter]int),
	}
}

// pack packs the tickets of a run. now is this node's clock: calendar periods are looked up
// around it for tickets that name no instant of their own.
func (r *request) pack(calls []*call, prefix string, now penstock.Instant) (keys []string, arg string) {
	clear(r.subjects)
	clear(r.lists)
	clear(r.limits)
	r.subjectKeys.reset()
	r.listKeys.reset()
	r.limitBuf, r.ticketBuf = r.limitBuf[:0], r.ticketBuf[:0]
	for _, c := range calls {
		r.packTicket(&c.ticket, prefix, now)
	}
	keys = make([]string, 0, len(r.subjectKeys.ends)+len(r.listKeys.ends))
	keys = r.listKeys.appendTo(r.subjectKeys.appendTo(keys))

	head := make([]byte, 0, headSize+len(r.limitBuf)+len(r.ticketBuf))
	head = binary.BigEndian.AppendUint16(head, uint16(len(r.subjectKeys.ends)))
	head = binary.BigEndian.AppendUint16(head, uint16(len(calls)))
	head = binary.BigEndian.AppendUint32(head, uint32(headSize+len(r.limitBuf)+1))
	head = append(append(head, r.limitBuf...), r.ticketBuf...)
	return keys, unsafe.String(unsafe.SliceData(head), len(head)) // head is not used again
}

func (r *request) packTicket(t *penstock.Ticket, prefix string, now penstock.Instant) {
	b := r.ticketBuf
	b = appendUint56(b, int64(t.Now))
	b = appendUint56(b, min(t.MaxDelay.Microseconds(), int64(penstock.MaxInstant)))
	b = append(b, byte(len(t.Groups)))
	for i := range t.Groups {
		g := &t.Groups[i]
		subject, flags := 0, byte(0)
		for _, c := range g.Charges {
			if c.Meter.Kind.Fixed() {
				subject = r.subject(g.Subject, prefix)
				break
			}
		}
		if g.Alone {
			flags = 1
		}
		b = binary.BigEndian.AppendUint16(b, uint16(subject))
		b = append(b, flags, byte(len(g.Charges)))
		for _, c := range g.Charges {
			b = binary.BigEndian.AppendUint32(b, uint32(r.limit(c.Meter, t.Now, now)))
			b = binary.BigEndian.AppendUint16(b, uint16(c.Cost>>32))
			b = binary.BigEndian.AppendUint32(b, uint32(c.Cost))
			b = append(b, formOf(c.Meter.Kind))
			if !c.Meter.Kind.Fixed() {
				b = binary.BigEndian.AppendUint16(b, uint16(r.list(g.Subject, c.Meter, prefix)))
				b = binary.BigEndian.AppendUint64(b, t.Nonce)
			}
		}
	}
	r.ticketBuf = b
}

func (r *request) subject(s penstock.Subject, prefix string) int {
	if i, ok := r.subjects[s]; ok {
		return i
	}
	r.subjectKeys.text = appendSubjectKey(r.subjectKeys.text, prefix, s)
	i := r.subjectKeys.end()
	r.subjects[s] = i
	return i
}

func (r *request) list(s penstock.Subject, m *penstock.Meter, prefix string) int {
	id := listID{s, m.Fingerprint}
	if i, ok := r.lists[id]; ok {
		return i
	}
	r.listKeys.text = appendListKey(r.listKeys.text, prefix, s, m)
	i := r.listKeys.end()
	r.lists[id] = i
	return i
}

// limit packs each limit once, but a calendar anew for every instant that a ticket names.
func (r *request) limit(m *penstock.Meter, given, now penstock.Instant) int {
	once := given == 0 || m.Kind != penstock.KindCalendar
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

func appendLimit(b []byte, m *penstock.Meter, now penstock.Instant) []byte {
	flags, full := byte(0), m.Full
	if m.CountDenied {
		flags = 1
	}
	if full == 0 {
		full = m.Capacity // levels are not multiplied with time
	}
	b = append(b, byte(m.Kind), flags)
	b = appendUint56(b, int64(m.Fingerprint))
	b = appendUint56(b, m.Count)
	b = appendUint56(b, m.Capacity)
	b = appendUint56(b, m.Window)
	b = binary.BigEndian.AppendUint32(b, uint32(m.Tick))
	b = appendUint56(b, m.Ticks)
	b = appendUint56(b, full)
	b = appendUint56(b, m.Drain)
	b = appendUint56(b, m.Life)
	b = append(b, penstock.LifeCode(m.Life))
	if m.Kind == penstock.KindCalendar {
		for _, start := range m.PeriodStarts(now) {
			b = appendUint56(b, max(0, int64(start)))
		}
	}
	return b
}

// formOf says how take.lua has to read a charge of the kind.
func formOf(k penstock.Kind) byte {
	switch k {
	case penstock.KindCalendar:
		return 1
	case penstock.KindLog:
		return 2
	case penstock.KindLeases:
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

func (k *keyText) reset() { k.text, k.ends = k.text[:0], k.ends[:0] }

// end closes the key that was appended to text and returns its number, from 1.
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

// appendSubjectKey writes the key of a subject's fixed-size states. Everything a subject owns
// shares the hash tag, and so the slot.
func appendSubjectKey(b []byte, prefix string, s penstock.Subject) []byte {
	b = append(append(b, prefix...), '{')
	return append(base64.RawURLEncoding.AppendEncode(b, s[:]), '}')
}

// appendListKey writes the key of a log or a set of leases. Its letter also stands for the format.
func appendListKey(b []byte, prefix string, s penstock.Subject, m *penstock.Meter) []byte {
	b = appendSubjectKey(b, prefix, s)
	if m.Kind == penstock.KindLog {
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
)

const chargeSize = 1 + 3*7 // passes, at, a, b

// split cuts a reply into its tickets' parts.
func split(reply string, calls []*call) error {
	if len(reply) < 7 {
		return errReply(reply)
	}
	now := penstock.Instant(uint56(reply))
	reply = reply[7:]
	for _, c := range calls {
		if len(reply) == 0 {
			return errReply(reply)
		}
		size := 1
		if reply[0] == statusDecided {
			size += chargeSize * c.charges
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

// unpack turns a ticket's part of the reply into what the script found.
func unpack(reply string, found []penstock.Found) ([]penstock.Found, error) {
	switch reply[0] {
	case statusDecided:
	case statusCorrupt:
		return nil, fmt.Errorf("a key of its subjects: %w", penstock.ErrCorrupt)
	case statusClock:
		return nil, errors.New("this node's clock is more than a calendar period away from Redis'")
	default:
		return nil, errReply(reply)
	}
	for b := reply[1:]; len(b) > 0; b = b[chargeSize:] {
		found = append(found, penstock.Found{
			Passes: b[0] == 1,
			State:  penstock.State{At: penstock.Instant(uint56(b[1:])), A: uint56(b[8:]), B: uint56(b[15:])},
		})
	}
	return found, nil
}
