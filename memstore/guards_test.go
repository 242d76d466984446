package memstore

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
)

func penaltyOf(t testing.TB, p algorithm.PenaltyTerms) *algorithm.Penalty {
	t.Helper()
	penalty, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return penalty
}

func dedupOf(t testing.TB, ttl time.Duration) *algorithm.Dedup {
	t.Helper()
	dedup, err := algorithm.DedupTerms{TTL: ttl, MaxReplays: 2, Budget: 1000, Beside: algorithm.Limit{Algorithm: algorithm.FixedWindow, Window: time.Hour}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return dedup
}

// call returns the n-th id of a series, as a keyed hash would make them.
func call(n uint64) (id storage.CallID) {
	r := rand.NewPCG(n, 0xca11)
	binary.LittleEndian.PutUint64(id[:8], r.Uint64())
	binary.LittleEndian.PutUint64(id[8:], r.Uint64())
	return id
}

func TestGuardsDoNotAllocate(t *testing.T) {
	if racetest.Enabled {
		t.Skip("the pool forgets at random under the race detector")
	}
	s := open(t, Options{})
	bucket := limit(t, algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 1000, Window: time.Second, Burst: 1_000_000, Overdraft: 10})
	log := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 100, Window: 50 * time.Millisecond})
	leases := limit(t, algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 10, Window: 50 * time.Millisecond})
	never := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: 366 * 24 * time.Hour})
	penalty := penaltyOf(t, algorithm.PenaltyTerms{After: 10_000, Within: time.Hour, Bans: []time.Duration{time.Hour}, ForgiveAfter: time.Hour})
	strict := penaltyOf(t, algorithm.PenaltyTerms{After: 1, Within: time.Hour, Bans: []time.Duration{time.Hour}, ForgiveAfter: time.Hour})
	dedup := dedupOf(t, time.Hour)
	three := []algorithm.Charge{{Meter: bucket, Cost: 1}, {Meter: log, Cost: 1}, {Meter: leases, Cost: 1}}
	for name, g := range map[string]storage.Group{
		"passes":    {Penalty: penalty, Dedup: dedup, Reserve: time.Hour, Charges: three},
		"new id":    {Dedup: dedup, Charges: three[:1]},
		"repeat":    {Dedup: dedup, Call: call(1), Charges: three[:1]},
		"strikes":   {Penalty: penalty, Charges: []algorithm.Charge{{Meter: never, Cost: 1}}},
		"banned":    {Penalty: strict, Charges: []algorithm.Charge{{Meter: never, Cost: 1}}},
		"overdraws": {Charges: []algorithm.Charge{{Meter: bucket, Cost: 1, Overdraw: true}}},
	} {
		g.Subject = subject(uint64(len(name)))
		ticket := &storage.Ticket{Nonce: 1, Groups: []storage.Group{g}}
		settlement := &storage.Settlement{Subject: g.Subject, Charges: g.Charges, Verb: storage.Release}
		var out storage.Outcome
		var settled storage.SettleOutcome
		n := uint64(0)
		run := func() {
			n++
			ticket.Nonce = n
			if name == "new id" {
				ticket.Groups[0].Call = call(n % 1000)
			}
			if err := s.Take(t.Context(), ticket, &out); err != nil {
				t.Fatal(err)
			}
			if name != "passes" || !out.Allowed {
				return
			}
			settlement.Nonce = n
			if err := s.Settle(t.Context(), settlement, &settled); err != nil {
				t.Fatal(err)
			}
			ticket.Nonce = 0
		}
		for range 2000 {
			run()
		}
		// A table or an arena that grows allocates once in a while.
		if n := testing.AllocsPerRun(1000, run); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// A ban outlives every flood; once it is forgiven, its slot can be reused.
func TestBansAreNotEvicted(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	const victims, budget = 500, 1 << 20
	s := open(t, Options{MaxBytes: budget})
	m := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 100, Window: 24 * time.Hour})
	penalty := penaltyOf(t, algorithm.PenaltyTerms{After: 1, Within: time.Hour, Bans: []time.Duration{time.Hour}, ForgiveAfter: time.Minute})
	now := algorithm.Instant(1_700_000_000_000_000)
	for n := range uint64(victims) {
		until, err := s.Ban(t.Context(), &storage.Ban{Now: now, Subject: subject(n), Penalty: penalty, Length: time.Hour})
		if err != nil || until != now.Add(time.Hour) {
			t.Fatal(until, err)
		}
	}
	banned := func() (n int) {
		for v := range uint64(victims) {
			ticket := single(v, m, 0)
			ticket.Now = now
			ticket.Groups[0].Penalty = penalty
			if out := take(t, s, ticket); out.Groups[0].BannedUntil != 0 {
				n++
			}
		}
		return n
	}
	flood := func(from uint64) {
		for n := range uint64(60_000) {
			ticket := single(from+n, m, 1)
			ticket.Now = now
			take(t, s, ticket)
		}
	}
	now = now.Add(time.Hour - time.Microsecond)
	flood(victims)
	if got := banned(); got != victims {
		t.Errorf("%d of %d are still banned", got, victims)
	}
	now = now.Add(time.Microsecond)
	if got := banned(); got != 0 {
		t.Errorf("%d are still banned", got)
	}
	now = now.Add(10 * time.Minute) // the life of a slot is rounded up
	m = limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 100, Window: 24 * time.Hour, Ordinal: 1})
	flood(1_000_000)
	left := 0
	for n := range uint64(victims) {
		k, _ := keyOf(new(subject(n)), algorithm.PenaltyFingerprint, s.seed)
		if s.shardOf(new(subject(n))).find(k) != nil {
			left++
		}
	}
	if stats := s.Stats(); left > 0 || stats.Evicted != 0 || stats.Bytes > budget {
		t.Errorf("%d slots of bans that are over, %+v", left, stats)
	}
}

// A client that invents ids, reservations and permits takes no more memory than there is, refunds no
// client's tokens, and blocks no other client.
func TestFloodOfIDs(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	const victims, budget = 500, 2 << 20
	flood := uint64(300_000)
	if testing.Short() {
		flood = 60_000
	}
	s := open(t, Options{MaxBytes: budget})
	// Not a window of one day, which might end during the test.
	once := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: algorithm.MaxWindow})
	large := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1e12, Window: 24 * time.Hour})
	other := limit(t, algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 1e6, Window: time.Hour})
	dedup := dedupOf(t, 24*time.Hour)
	for n := range uint64(victims) {
		take(t, s, single(n, once, 1))
	}
	refused := 0
	var out storage.Outcome
	for n := range flood {
		ticket := single(victims+n%3, large, 1)
		g := &ticket.Groups[0]
		g.Dedup, g.Call = dedup, call(n)
		if n%2 == 0 {
			ticket.Nonce, g.Reserve = n+1, 24*time.Hour
			g.Charges = append(g.Charges, algorithm.Charge{Meter: other, Cost: int64(n / 2 % 2)})
		}
		if err := s.Take(t.Context(), ticket, &out); errors.Is(err, storage.ErrFull) && g.Reserve != 0 {
			refused++ // what can be settled must be remembered
		} else if err != nil || !out.Allowed {
			t.Fatal(err, out)
		}
		if n%10_000 == 0 {
			if bytes := s.Stats().Bytes; bytes > budget {
				t.Fatalf("%d bytes used of %d", bytes, budget)
			}
		}
	}
	for n := range uint64(victims) {
		if take(t, s, single(n, once, 1)).Allowed {
			t.Fatalf("victim %d got a token back", n)
		}
	}
	stats := s.Stats()
	t.Logf("%+v", stats)
	if stats.Bytes > budget || stats.Evicted == 0 || stats.Refused != int64(refused) || refused > int(flood/2) {
		t.Errorf("%d refused of %d: %+v", refused, flood, stats)
	}
	for i := range s.shards {
		s.shards[i].checkLists(t)
	}
}

// The state of guards expires by itself, and not too early.
func TestGuardsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{MaxBytes: 16 << 20})
		m := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 2, Window: time.Second})
		busy := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1 << 30, Window: time.Second})
		penalty := penaltyOf(t, algorithm.PenaltyTerms{After: 1, Within: time.Minute, Bans: []time.Duration{time.Minute}, ForgiveAfter: time.Minute})
		dedup := dedupOf(t, 90*time.Second)
		empty := s.Stats().Bytes
		guarded := func(n, id uint64) *storage.Ticket {
			ticket := single(n, m, 1)
			g := &ticket.Groups[0]
			g.Penalty, g.Dedup, g.Call, g.Reserve = penalty, dedup, call(id), 80*time.Second
			return ticket
		}
		for n := range uint64(2000) {
			take(t, s, guarded(n, 1))
			take(t, s, guarded(n, 2))
			if out := take(t, s, guarded(n, 3)); out.Allowed || out.Groups[0].Bans != 1 {
				t.Fatalf("%+v", out)
			}
		}
		given := guarded(9999, 1) // state written at a given instant stays
		given.Now = 5_000_000
		take(t, s, given)
		traffic := func() {
			for range 30_000 {
				take(t, s, single(0, busy, 1))
				time.Sleep(200 * time.Microsecond)
			}
		}
		time.Sleep(59 * time.Second)
		if out := take(t, s, guarded(7, 1)); out.Allowed || out.Groups[0].BannedUntil == 0 {
			t.Errorf("shortly before its end the ban is gone: %+v", out.Groups[0])
		}
		time.Sleep(14 * time.Second) // bans are over, their level and the rest are not
		traffic()
		if all, total, err := s.Reservations(t.Context(), 0, subject(8), 10); total != 1 || err != nil || len(all[0].Receipts) != 1 {
			t.Errorf("%v, %d, %v", all, total, err)
		}
		if out := take(t, s, guarded(8, 1)); !out.Allowed || !out.Groups[0].Replay || out.Groups[0].Bans != 1 || out.Groups[0].Original == 0 {
			t.Errorf("shortly before its end a call is not recognised: %+v", out)
		}
		time.Sleep(80 * time.Second)
		traffic()
		if stats := s.Stats(); stats.Keys > 100 || stats.Bytes > 2*empty || stats.Evicted != 0 {
			t.Errorf("%+v, empty %d", stats, empty)
		}
		if out := take(t, s, given); !out.Groups[0].Replay {
			t.Errorf("a call at a given instant is forgotten: %+v", out)
		}
		if _, total, err := s.Reservations(t.Context(), given.Now, given.Groups[0].Subject, 1); total != 1 || err != nil {
			t.Errorf("%d reservations at a given instant, %v", total, err)
		}
	})
}

// A ban that ends after the last instant still ends on time.
func TestBanBeyondTheLastInstant(t *testing.T) {
	s := open(t, Options{})
	m := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 2, Window: time.Second})
	penalty := penaltyOf(t, algorithm.PenaltyTerms{After: 1, Within: time.Hour, Bans: []time.Duration{time.Hour}, ForgiveAfter: algorithm.MaxWindow})
	now := algorithm.MaxInstant - 5
	until, err := s.Ban(t.Context(), &storage.Ban{Now: now, Subject: subject(1), Penalty: penalty, Length: algorithm.MaxWindow})
	if err != nil || until != now.Add(algorithm.MaxWindow) {
		t.Fatal(until, err)
	}
	ticket := single(1, m, 1)
	ticket.Now = algorithm.MaxInstant
	ticket.Groups[0].Penalty = penalty
	if out := take(t, s, ticket); out.Allowed || out.Groups[0].BannedUntil != until {
		t.Errorf("%+v, want a ban until %d", out.Groups[0], until)
	}
}

// Subjects, ids and nonces that are small numbers must not be confused.
func TestSmallNumbersAreKeptApart(t *testing.T) {
	seen := map[key]bool{}
	most := 0
	add := func(k key) {
		most++
		seen[k] = true
	}
	for i := range byte(4) {
		for j := range byte(4) {
			s := storage.Subject{i, 8: j}
			k, _ := keyOf(&s, algorithm.PenaltyFingerprint, 1)
			add(k)
			for n := range byte(16) {
				add(callKey(&s, &storage.CallID{n % 4, 8: n / 4}, 1))
				add(reservationKey(&s, uint64(n), 1))
			}
		}
	}
	if len(seen) != most {
		t.Errorf("%d keys for %d things", len(seen), most)
	}
}

// Records and reservations may change their size.
func TestRecordsAndReservationsChangeTheirSize(t *testing.T) {
	const now = algorithm.Instant(1_700_000_000_000_000)
	s := open(t, Options{})
	me := subject(1)
	var charges []algorithm.Charge
	for ordinal := range uint8(16) {
		m := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 10, Window: time.Hour, Ordinal: ordinal})
		charges = append(charges, algorithm.Charge{Meter: m, Cost: 1})
	}
	dedup := dedupOf(t, time.Second)
	at := func(second int, reserve time.Duration) *storage.Ticket {
		return &storage.Ticket{Now: now.Add(time.Duration(second) * time.Second), Nonce: 7, Groups: []storage.Group{
			{Subject: me, Charges: charges[:1], Dedup: dedup, Call: call(1), Reserve: reserve},
		}}
	}
	for second := range 4 { // with and without a nonce
		reserve := time.Duration(second%2) * time.Hour
		for repeat := range 2 {
			out := take(t, s, at(second, reserve)).Groups[0]
			if !out.Taken || out.Replay != (repeat == 1) || (out.Nonce|out.Original != 0) != (reserve != 0) {
				t.Errorf("second %d: %+v", second, out)
			}
		}
	}
	settlement := &storage.Settlement{Now: now, Subject: me, Nonce: 7, Charges: charges}
	for again := range 2 { // the actual cost is higher than the reserved cost
		var out storage.SettleOutcome
		if err := s.Settle(t.Context(), settlement, &out); err != nil || !out.Allowed || out.Again != (again == 1) {
			t.Errorf("%+v, %v", out, err)
		}
	}
	all, _, err := s.Reservations(t.Context(), now, me, 10)
	if err != nil || len(all) != 1 || !all[0].Closed || len(all[0].Receipts) != 16 {
		t.Errorf("%+v, %v", all, err)
	}
	for i := range s.shards {
		s.shards[i].checkLists(t)
	}
}
