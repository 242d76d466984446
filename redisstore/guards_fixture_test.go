package redisstore_test

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/redisstore"
)

// Guards of rules, for tests.
func penaltyOf(after int64, ban, forgive time.Duration) *penstock.Penalty {
	return must(penstock.PenaltyTerms{After: after, Within: time.Hour, Bans: []time.Duration{ban, 2 * ban}, ForgiveAfter: forgive}.Compile())
}

func dedupOf(ttl time.Duration) *penstock.Dedup {
	return must(penstock.DedupTerms{TTL: ttl, MaxReplays: 2, Budget: 3, Beside: penstock.Limit{Algorithm: penstock.FixedWindow, Window: time.Hour}}.Compile())
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// newCallID names a call like no other.
func newCallID() penstock.CallID {
	return penstock.CallID(stranger())
}

// returnable keeps the meters whose charges can be given back.
func returnable(meters []*penstock.Meter) []*penstock.Meter {
	return slices.DeleteFunc(meters, func(m *penstock.Meter) bool { return m.Returns() != nil })
}

// guarded is a ticket of a group with every guard there is.
func guarded(now penstock.Instant, who penstock.Subject, charges ...penstock.Charge) *penstock.Ticket {
	t := one(now, who, charges...)
	g := &t.Groups[0]
	g.Penalty, g.Dedup, g.Call, g.Reserve = penaltyOf(3, time.Minute, time.Hour), dedupOf(time.Hour), newCallID(), time.Minute
	return t
}

// settlement is about what the ticket's only group took.
func settlement(t *penstock.Ticket, verb penstock.Verb) *penstock.Settlement {
	g := &t.Groups[0]
	return &penstock.Settlement{
		Now: t.Now, Subject: g.Subject, Nonce: t.Nonce, Verb: verb, Charges: slices.Clone(g.Charges), TTL: 2 * time.Minute,
	}
}

// settle settles what must be settleable.
func settle(t testing.TB, s penstock.Settler, what *penstock.Settlement) penstock.Settled {
	t.Helper()
	var out penstock.Settled
	if err := s.Settle(t.Context(), what, &out); err != nil {
		t.Fatalf("%v: %v", what.Verb, err)
	}
	return out
}

func recordKey(g *penstock.Group) string { return redisstore.RecordKey(prefix, g.Subject, g.Call) }

func reservationsKey(who penstock.Subject) string { return redisstore.ReservationsKey(prefix, who) }

// field is the name of a reservation in the hash of its subject.
func field(nonce uint64) string { return string(binary.BigEndian.AppendUint64(nil, nonce)) }

// instant is seven bytes, as everywhere in Redis.
func instant(at penstock.Instant) string { return element(at, 0)[:7] }
