package storetest

import (
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// leasesAsHeld tracks who holds a permit and until when: never more than the limit, no denial while there
// are fewer, and only a live permit is released or renewed.
func leasesAsHeld(t *liveTrace) error {
	const ttl = time.Minute
	m := algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 1 + t.r.Int64N(4), Window: ttl}.MustCompile()
	expiry := map[uint64]algorithm.Instant{}
	live := func() (n int64) {
		for _, at := range expiry {
			if at > t.now {
				n++
			}
		}
		return n
	}
	for range 100 {
		t.wait(ttl / 4)
		nonce := 1 + t.r.Uint64N(8)
		heldNow := expiry[nonce] > t.now
		var used int64
		verb := storage.Verb(t.r.IntN(3))
		if often(t.r, 50) {
			a, err := t.play(singleGroup(t.now, nonce, group(m, 1)))
			if err != nil {
				return err
			}
			if want := heldNow || live() < m.Count; a.outcome.Allowed != want {
				return fmt.Errorf("acquire %d: pass is %v with %d of %d live", nonce, a.outcome.Allowed, live(), m.Count)
			}
			if a.outcome.Allowed {
				expiry[nonce] = t.now.Add(ttl)
			}
			used = a.outcome.Decisions[0].Used
		} else {
			a, err := t.play(settlementOf(storage.Settlement{Now: t.now, Nonce: nonce, Verb: verb, TTL: ttl, Charges: group(m, 1).Charges}))
			if err != nil {
				return err
			}
			renewed := verb == storage.Renew
			switch {
			case renewed && !heldNow:
				if a.refusal != storage.ErrNoReservation {
					return fmt.Errorf("renewed %d, which is not held: %+v, %v", nonce, a.settled, a.refusal)
				}
				continue
			case a.refusal != nil || !a.settled.Allowed || a.settled.Again != !heldNow:
				return fmt.Errorf("%v %d, held %v: %+v, %v", verb, nonce, heldNow, a.settled, a.refusal)
			case renewed:
				expiry[nonce] = t.now.Add(ttl)
				if a.settled.Until != expiry[nonce] {
					return fmt.Errorf("renewed until %d, want %d", a.settled.Until, expiry[nonce])
				}
			default:
				delete(expiry, nonce)
			}
			used = a.settled.Decisions[0].Used
		}
		if used != live() || used > m.Count {
			return fmt.Errorf("%d live, want %d of %d", used, live(), m.Count)
		}
	}
	return nil
}
