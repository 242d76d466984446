package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// FuzzGuards puts arbitrary bytes where a guarded request keeps its record, its reservation and its states.
// Every request is answered or refused as corrupt, and what was refused is unchanged.
func FuzzGuards(f *testing.F) {
	server, store := serve(f)
	charges := func(which uint8) (charges []algorithm.Charge) {
		for i, m := range returnable(eachKind(time.Hour)) {
			if int(which)>>i&1 == 1 {
				charges = append(charges, charge(m, 1))
			}
		}
		return charges
	}
	model := guarded(monday, stranger(), charges(127)...)
	take(f, store, model)
	take(f, store, model)
	get := func(command ...string) []byte { return []byte(ask(f, server.Addr, command...)) }
	f.Add(get("GET", theRecord(model)), get("HGET", theReservations(model), field(model.Nonce)), get("GET", theValue(model)), uint8(127), uint8(0))
	settle(f, store, settlement(model, storage.Settle))
	f.Add(get("GET", theRecord(model)), get("HGET", theReservations(model), field(model.Nonce)), get("GET", theValue(model)), uint8(1), uint8(1))
	for length := range 30 {
		ones := []byte(strings.Repeat("\xff", length))
		f.Add(ones, append([]byte{0}, ones...), append([]byte{1}, ones...), uint8(length), uint8(length))
	}
	f.Fuzz(func(t *testing.T, record, reservation, value []byte, which, overage uint8) {
		ticket := guarded(monday, stranger(), charges(which)...)
		if len(ticket.Groups[0].Charges) == 0 {
			return
		}
		who := ticket.Groups[0].Subject
		put := func() {
			ask(t, server.Addr, "SET", theRecord(ticket), string(record), "PX", "60000")
			ask(t, server.Addr, "HSET", theReservations(ticket), field(ticket.Nonce), string(reservation))
			ask(t, server.Addr, "SET", theValue(ticket), string(value), "PX", "60000")
		}
		put()
		check := func(what string, do func() error) {
			t.Helper()
			before := must(dump(server.Addr, who))
			err := do()
			if errors.Is(err, storage.ErrUnavailable) && !errors.Is(err, storage.ErrCorrupt) {
				t.Errorf("%s: %v", what, err)
			}
			if err != nil && must(dump(server.Addr, who)) != before {
				t.Errorf("%s was refused (%v) and changed what there was", what, err)
			}
		}
		for _, verb := range []storage.Verb{storage.Renew, storage.Settle, storage.Release} {
			s := settlement(ticket, verb)
			s.Overage = algorithm.Overage(overage % 3)
			check(verb.String(), func() error { return store.Settle(t.Context(), s, new(storage.SettleOutcome)) })
		}
		put()
		check("a call", func() error { return store.Take(t.Context(), ticket, new(storage.Outcome)) })
		check("a ban", func() error {
			_, err := store.Ban(t.Context(), &storage.Ban{Now: monday, Subject: who, Penalty: ticket.Groups[0].Penalty, Length: time.Minute})
			return err
		})
		put()
		check("a call that is held", func() error {
			undo, err := store.Hold(ticket, new(storage.Outcome))
			if err == nil {
				err = undo(monday)
			}
			if errors.Is(err, storage.ErrNoReservation) { // it was denied
				return nil
			}
			return err
		})
		check("a reset", func() error { return store.Reset(t.Context(), &ticket.Groups[0]) })
	})
}
