package redisstore_test

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// Guards of rules, for tests.
func penaltyOf(after int64, ban, forgive time.Duration) *algorithm.Penalty {
	return must(algorithm.PenaltyTerms{After: after, Within: time.Hour, Bans: []time.Duration{ban, 2 * ban}, ForgiveAfter: forgive}.Compile())
}

func dedupOf(ttl time.Duration) *algorithm.Dedup {
	return must(algorithm.DedupTerms{TTL: ttl, MaxReplays: 2, Budget: 3, Beside: algorithm.Limit{Algorithm: algorithm.FixedWindow, Window: time.Hour}}.Compile())
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// newCallID returns a unique request id.
func newCallID() storage.CallID {
	return storage.CallID(stranger())
}

// returnable returns the meters whose charges can be refunded.
func returnable(meters []*algorithm.Meter) []*algorithm.Meter {
	return slices.DeleteFunc(meters, func(m *algorithm.Meter) bool { return m.Returns() != nil })
}

// guarded returns a ticket of a group with every kind of guard.
func guarded(now algorithm.Instant, who storage.Subject, charges ...algorithm.Charge) *storage.Ticket {
	t := one(now, who, charges...)
	g := &t.Groups[0]
	g.Penalty, g.Dedup, g.Call, g.Reserve = penaltyOf(3, time.Minute, time.Hour), dedupOf(time.Hour), newCallID(), time.Minute
	return t
}

// settlement returns a settlement of what the ticket's only group took.
func settlement(t *storage.Ticket, verb storage.Verb) *storage.Settlement {
	g := &t.Groups[0]
	return &storage.Settlement{
		Now: t.Now, Subject: g.Subject, Nonce: t.Nonce, Verb: verb, Charges: slices.Clone(g.Charges), TTL: 2 * time.Minute,
	}
}

// settle settles what must be settleable.
func settle(t testing.TB, s storage.Settler, what *storage.Settlement) storage.SettleOutcome {
	t.Helper()
	var out storage.SettleOutcome
	if err := s.Settle(t.Context(), what, &out); err != nil {
		t.Fatalf("%v: %v", what.Verb, err)
	}
	return out
}

func recordKey(g *storage.Group) string { return redisstore.RecordKey(prefix, g.Subject, g.Call) }

func reservationsKey(who storage.Subject) string { return redisstore.ReservationsKey(prefix, who) }

// field returns the name of a reservation in the hash of its subject.
func field(nonce uint64) string { return string(binary.BigEndian.AppendUint64(nil, nonce)) }

// instant encodes an instant in seven bytes, as everywhere in Redis.
func instant(at algorithm.Instant) string { return element(at, 0)[:7] }
