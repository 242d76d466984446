package memstore

import (
	"slices"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A guard locates what a group needs besides its charges: its subject's ban, its record, the budget for
// duplicates and its reservation. The record and the reservation are in shards of their own, see apart.go.
type guard struct {
	penalty, record, reservation slotRef

	mended   bool                 // the penalty's state was written by a wrong clock
	unstruck bool                 // there is no room for a strike
	budget   item                 // duplicates are charged to it
	repeats  storage.ChargeResult // the state of the budget
}

// guardSlots is the largest number of slots that a guard can add.
const guardSlots = 4

func (v *guard) slotRefs() [guardSlots]*slotRef {
	return [...]*slotRef{&v.penalty, &v.record, &v.budget.slotRef, &v.reservation}
}

// newSlots counts the slots that the shard may have to add for the guard.
func (v *guard) newSlots(sh *shard) (n uint32) {
	for _, p := range v.slotRefs() {
		if p.sh == sh && p.wanted && p.missing {
			n++
		}
	}
	return n
}

func (v *guard) letGo() {
	for _, p := range v.slotRefs() {
		p.letGo()
	}
}

func (w *workspace) listGuards() {
	w.guards = slices.Grow(w.guards, len(w.ticket.Groups))[:len(w.ticket.Groups)]
	w.sights = slices.Grow(w.sights, len(w.ticket.Groups))[:len(w.ticket.Groups)]
	clear(w.guards)
	clear(w.sights)
	first := 0
	for i := range w.ticket.Groups {
		g, v := &w.ticket.Groups[i], &w.guards[i]
		sh, seed := w.items[first].sh, w.store.seed
		first += len(g.Charges)
		if g.Penalty != nil {
			k, _ := keyOf(&g.Subject, algorithm.PenaltyFingerprint, seed)
			v.penalty = slotRef{key: k, sh: sh}
		}
		if g.Remembers() {
			k, _ := keyOf(&g.Subject, g.Dedup.Budget.Fingerprint, seed)
			v.budget = item{slotRef: slotRef{key: k, sh: sh}, Charge: algorithm.Charge{Meter: g.Dedup.Budget, Cost: g.ReplayCost()}, tag: tagOf(&g.Subject)}
			v.record = w.refApart(callKey(&g.Subject, &g.Call, seed))
		}
		if g.Reserve != 0 {
			v.reservation = w.refApart(reservationKey(&g.Subject, w.ticket.Nonce, seed))
		}
	}
}

// refApart returns where a record or a reservation is expected, and adds its shard to those to lock.
func (w *workspace) refApart(k key) slotRef {
	sh, index := w.store.apartShard(k)
	w.shards = append(w.shards, index)
	return slotRef{key: k, sh: sh}
}

// sightsOrNil returns nil if no group is guarded.
func (w *workspace) sightsOrNil() []storage.GuardResult {
	if len(w.sights) == 0 {
		return nil
	}
	return w.sights
}

// weighGuards checks for bans and duplicates and marks the charges accordingly: under a ban they leave no
// trace, and those of a duplicate are only read, except for permits. No two groups share a guard, so it
// does not matter that independent groups are decided later.
func (w *workspace) weighGuards() {
	first := 0
	for i := range w.guards {
		g, sight := &w.ticket.Groups[i], &w.sights[i]
		w.weighGuard(g, &w.guards[i], sight)
		items := w.items[first:][:len(g.Charges)]
		first += len(g.Charges)
		for j := range items {
			items[j].barred = sight.Banned
			if sight.Replay && !items[j].TakesPermit() {
				items[j].Cost = 0
			}
		}
	}
}

func (w *workspace) weighGuard(g *storage.Group, v *guard, sight *storage.GuardResult) {
	if g.Penalty != nil {
		s := v.penalty.findSlot()
		sight.Penalty, sight.Banned, v.mended = g.Penalty.Weigh(s.penalty(), w.now)
		s.extend(sight.Penalty.At+algorithm.Instant(g.Penalty.Forgive), w.isGiven())
	}
	if g.Remembers() && !sight.Banned {
		sight.First = v.record.sh.record(v.record.findSlot())
		if g.Dedup.Recalls(sight.First, w.now) {
			w.weigh(&v.budget, &v.repeats)
			sight.Replay = v.repeats.Passes
			if v.budget.missing && v.budget.sh.makeRoom(1, w.room()) != nil {
				sight.Replay = false // a duplicate that cannot be counted is charged
			}
		}
	}
	if g.Reserve != 0 {
		v.reservation.findSlot()
	}
}

// planGuards marks what the guards may write. For independent groups, which are not decided yet, it marks
// everything they could write. For the others it counts the strikes.
func (w *workspace) planGuards(taken bool) {
	first := 0
	for i := range w.guards {
		g, v, sight := &w.ticket.Groups[i], &w.guards[i], &w.sights[i]
		found := w.found[first:][:len(g.Charges)]
		first += len(g.Charges)
		mayTake := taken || g.Alone
		isNew := !sight.Banned && !sight.Replay
		v.record.wanted = g.Remembers() && mayTake && !sight.Banned
		v.budget.wanted = sight.Replay && mayTake
		v.reservation.wanted = g.Reserve != 0 && g.Spends() && mayTake && isNew
		if g.Alone {
			v.penalty.wanted = g.Penalty != nil && g.Spends() && !sight.Replay
		} else {
			w.strike(i, found)
		}
	}
}

// strike counts a strike if the group's own charges deny it, and marks the penalty's state if it must be
// written.
func (w *workspace) strike(i int, found []storage.ChargeResult) {
	if len(w.guards) == 0 {
		return
	}
	g, v, sight := &w.ticket.Groups[i], &w.guards[i], &w.sights[i]
	switch {
	case v.unstruck:
	case sight.Replay:
		v.penalty.wanted = false
	case !sight.Banned && g.IsStrike(found):
		sight.Penalty = g.Penalty.Strike(sight.Penalty, w.now)
		v.penalty.wanted = true
	default:
		v.penalty.wanted = v.mended && g.Spends()
	}
}

// holdGuards makes room for the lists of guards.
func (w *workspace) holdGuards(r *roomRequest) error {
	for i := range w.guards {
		g, v := &w.ticket.Groups[i], &w.guards[i]
		if v.record.wanted && g.Names() && !w.sights[i].Replay {
			if v.record.holdBlock(1, r, forRecords) != nil {
				v.record.wanted = false
			}
		}
		if v.budget.wanted && v.budget.isList() {
			if err := v.budget.makeBlock(1, r); err != nil {
				return err
			}
		}
		if v.reservation.wanted {
			if v.reservation.holdBlock(reservationEntries(len(g.Charges)), r, w.claimFor(i)) != nil {
				return v.reservation.sh.refuse()
			}
		}
	}
	return nil
}

// writeGuards writes the guards according to the outcome.
func (w *workspace) writeGuards(out *storage.Outcome) {
	first := 0
	for i := range w.guards {
		g, v := &w.ticket.Groups[i], &w.guards[i]
		decisions := out.Decisions[first:][:len(g.Charges)]
		first += len(g.Charges)
		if v.penalty.wanted {
			v.penalty.setPenalty(w.sights[i].Penalty, g.Penalty.Forgive, out.Groups[i].BannedUntil != 0, w.isGiven())
		}
		switch {
		case !out.Groups[i].Taken:
		case w.sights[i].Replay:
			v.record.sh.countReplay(v.record.slot())
			w.chargeBudget(v)
		default:
			w.remember(g, v, out.Groups[i].Nonce, decisions)
		}
	}
}

func (w *workspace) chargeBudget(v *guard) {
	w.apply(&v.budget, &v.repeats, true)
	d := v.budget.Meter.Report(w.now, algorithm.Result{State: v.repeats.State, Cost: v.budget.Cost, Passes: true, Taken: true})
	w.date(&v.budget, &d)
}

// remember writes the record and the reservation of an admitted request.
func (w *workspace) remember(g *storage.Group, v *guard, nonce uint64, decisions []algorithm.Decision) {
	record := algorithm.Record{First: w.now, Nonce: nonce}
	w.receipts = w.receipts[:0]
	for j := range decisions {
		if g.Charges[j].Cost == 0 {
			continue
		}
		if g.Charges[j].Meter.Kind == algorithm.KindLeaky {
			record.Departs = max(record.Departs, w.now.Add(decisions[j].Delay))
		}
		w.receipts = append(w.receipts, decisions[j].Receipt)
	}
	if v.record.wanted {
		v.record.setRecord(record, g.Dedup.TTL, w.isGiven())
	}
	if v.reservation.wanted {
		r := storage.Reservation{Nonce: nonce, Until: w.now.Add(g.Reserve), Receipts: w.receipts}
		v.reservation.setReservation(&g.Subject, &r, g.RefundOnly, w.now, w.isGiven())
	}
}
