package redisstore

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strings"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// ScriptText returns the script that decides, as it is sent.
func ScriptText() string { return takeScript.text }

// SinglePathText returns the part of the script that decides tickets of a single limit, with its condition.
func SinglePathText() string {
	path := assemble("single")
	before, _, _ := strings.Cut(takeScript.text, path)
	return before[strings.LastIndexByte(strings.TrimSuffix(before, "\n"), '\n')+1:] + path
}

// WithoutSinglePath returns a version of the script that decides every ticket by the general path. A version that
// differs in the path for single limits is returned as it is.
func WithoutSinglePath(script string) string {
	return strings.Replace(script, SinglePathText(), "if false then\n", 1)
}

// AmendScriptText returns the script that settles and bans, as it is sent.
func AmendScriptText() string { return amendScript.text }

// BeatScriptText returns the script for heartbeats, as it is sent.
func BeatScriptText() string { return beatText }

// ClearScriptText returns the script that announces resets, as it is sent.
func ClearScriptText() string { return clearText }

// TagSlot returns the slot of keys with a hash tag.
func TagSlot(tag string) int { return slotOfTag([]byte(tag)) }

// UseScript makes the store decide by another script: a deliberately broken one.
func (s *Store) UseScript(text string) { s.script = newScript(text) }

// UseAmendScript makes the store settle by another script.
func (s *Store) UseAmendScript(text string) { s.amend = newScript(text) }

// Across is a store that decides as if any two slots were on different servers.
type Across struct{ *Store }

func (a Across) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	if err := t.Validate(); err != nil {
		return err
	}
	return a.takeAcross(ctx, t, out)
}

// SubjectKey returns the key of a subject's fixed-size states.
func SubjectKey(prefix string, s storage.Subject) string {
	return string(appendSubjectKey(nil, prefix, s))
}

// ListKey returns the key of a subject's log or set of permits.
func ListKey(prefix string, s storage.Subject, m *algorithm.Meter) string {
	return string(appendListKey(nil, prefix, s, m))
}

// RecordKey returns the key of the record of a request.
func RecordKey(prefix string, s storage.Subject, call storage.CallID) string {
	return string(appendRecordKey(nil, prefix, s, call))
}

// ReservationsKey returns the key of a subject's reservations.
func ReservationsKey(prefix string, s storage.Subject) string {
	return string(appendReservationsKey(nil, prefix, s))
}

// LateKey returns the key that a late charge leaves behind.
func LateKey(prefix string, s storage.Subject, nonce uint64) string {
	return string(appendLateKey(nil, prefix, s, nonce))
}

// SlotOf returns the slot that holds everything of the subject.
func SlotOf(s storage.Subject) int { return slotOf(s) }

// Waiting returns how many tickets are queued and not sent yet.
func (s *Store) Waiting() int {
	n := 0
	for i := range s.lanes {
		l := &s.lanes[i]
		l.mu.Lock()
		n += len(l.waiting)
		l.mu.Unlock()
	}
	return n
}

// TakeDated decides a ticket of one calendar charge as if the node's calendar had other period starts, as
// on a node whose clock differs from that of Redis.
func (s *Store) TakeDated(t *storage.Ticket, starts [4]algorithm.Instant) (storage.ChargeResult, error) {
	c := newCall(t)
	keys, arg := newRequest().pack([]*pendingTicket{c}, s.prefix, t.Now)
	var dates []byte
	for _, start := range starts {
		dates = appendUint56(dates, int64(start))
	}
	limit := appendLimit(nil, t.Groups[0].Charges[0].Meter, t.Now)
	from := headSize + len(limit) - len(dates)
	reply, err := s.eval(context.Background(), s.conns.Load().pipelined, &s.script, keys, arg[:from]+string(dates)+arg[headSize+len(limit):])
	if err == nil {
		err = split(reply, []*pendingTicket{c})
	}
	if err != nil {
		return storage.ChargeResult{}, err
	}
	if err := c.unpack(); err != nil {
		return storage.ChargeResult{}, err
	}
	return c.found[0], nil
}

// SettleDated is TakeDated for a settlement.
func (s *Store) SettleDated(t *storage.Settlement, starts [4]algorithm.Instant) error {
	a := amendment{now: t.Now, verb: byte(t.Verb), nonce: t.Nonce}
	a.keys.add(appendSubjectKey(nil, s.prefix, t.Subject))
	a.keys.add(appendReservationsKey(nil, s.prefix, t.Subject))
	for i, c := range t.Charges {
		a.meter(s.prefix, t.Subject, c.Meter, t.Cost(i))
	}
	a.body = a.body[:len(a.body)-4*7]
	for _, start := range starts {
		a.body = appendUint56(a.body, int64(start))
	}
	_, err := s.run(context.Background(), &a, len(t.Charges))
	return err
}

// Hold takes a ticket as if it were part of a larger one, and returns a function that undoes it.
func (s *Store) Hold(t *storage.Ticket, out *storage.Outcome) (undo func(now algorithm.Instant) error, err error) {
	p := part{slot: slotOf(t.Groups[0].Subject), ticket: *t}
	hold := rand.Uint64() | 1
	if err := s.takePart(context.Background(), &p, hold); err != nil {
		return nil, err
	}
	*out = p.outcome
	return func(now algorithm.Instant) error {
		p.ticket.Now = now
		for i := range p.ticket.Groups {
			if !p.ticket.Groups[i].Spends() {
				continue
			}
			if _, err := s.undoGroup(context.Background(), &p.ticket, i, hold); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// SlowPace makes the store assume a short round trip, so that it has at most LeastRuns in flight, until
// single requests measure otherwise. It waits for the runs in flight.
func (s *Store) SlowPace() {
	for i := range s.lanes {
		l := &s.lanes[i]
		for busy := true; busy; runtime.Gosched() {
			l.mu.Lock()
			busy = l.running > 0
			l.mu.Unlock()
		}
	}
	s.pace.roundTrip.Store(0)
}

// LeastRuns is how many runs a lane may always have in flight.
const LeastRuns = leastRun

// Bounds of a run.
const (
	MaxRunTickets = maxRunTickets
	MaxRunItems   = maxRunItems
)

// FastPace makes the store assume a long round trip, so that it has many runs in flight, until single
// requests measure otherwise.
func (s *Store) FastPace() { s.pace.roundTrip.Store(int64(mostRuns * paceStep)) }

// Idle returns how many connections for runs are not in use.
func (s *Store) Idle() int { return int(s.conns.Load().idle.Load()) }
