package redisstore_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// arrangements runs a test on a server and on a cluster, with the minimum permissions.
func arrangements(t *testing.T, test func(t *testing.T, addrs []string, o redisstore.Options)) {
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		grant(t, server.Addr, aclCommands)
		test(t, []string{server.Addr}, redisstore.Options{Addresses: []string{server.Addr}})
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.StartCluster(t, 3)
		for _, addr := range cluster.Addrs {
			grant(t, addr, aclCommands+" "+aclCluster)
		}
		test(t, cluster.Addrs, redisstore.Options{Addresses: cluster.Addrs, Mode: redisstore.Cluster})
	})
}

// on returns the address of the server that holds the subject.
func on(addrs []string, who storage.Subject) string {
	return addrs[redisstore.SlotOf(who)*len(addrs)/16384]
}

// list reads all pages of a rule. It calls between, if not nil, after each page.
func list(t *testing.T, store *redisstore.Store, tag storage.RuleTag, about int, between func()) map[string]bool {
	t.Helper()
	listed := map[string]bool{}
	cursor := ""
	for pages := 0; ; pages++ {
		page, next, err := store.Keys(t.Context(), tag, cursor, about)
		if err != nil {
			t.Fatal(err)
		}
		for _, who := range page {
			listed[who] = true
		}
		if cursor = next; cursor == "" {
			return listed
		}
		if pages > 100_000 {
			t.Fatal("the pages do not end")
		}
		if between != nil {
			between()
		}
	}
}

// A listing contains every subject of the rule, whatever state it has, and no other.
func TestKeys(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	arrangements(t, func(t *testing.T, addrs []string, o redisstore.Options) {
		for i, prefix := range []string{"pen:", `pen:*?[a-z]^\-]:`, "pen:[", "pen:x*"} {
			o.KeyPrefix = prefix
			store := open(t, o)
			rule := hasher.Rule("test", fmt.Sprint("listed ", i), "user")
			m, log := eachKind(time.Hour)[0], slidingLog(3, time.Hour)
			lease := algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 3, Window: time.Hour}.MustCompile()
			want := map[string]bool{}
			for n := range 60 {
				who := rule.Subject(strconv.Itoa(n))
				ticket := guarded(monday, who, charge([]*algorithm.Meter{m, log, lease}[n%3], 1))
				only := ""
				switch g := &ticket.Groups[0]; n % 5 {
				case 0:
					only = redisstore.RecordKey(prefix, who, g.Call)
				case 1:
					only = redisstore.ReservationsKey(prefix, who)
				case 2:
					*g = storage.Group{Subject: who, Charges: g.Charges}
				}
				take(t, store, ticket)
				if only != "" { // everything else is gone
					for _, key := range []string{redisstore.SubjectKey(prefix, who), redisstore.ListKey(prefix, who, log), redisstore.ListKey(prefix, who, lease),
						redisstore.RecordKey(prefix, who, ticket.Groups[0].Call), redisstore.ReservationsKey(prefix, who)} {
						if key != only {
							ask(t, on(addrs, who), "DEL", key)
						}
					}
				}
				want[who.String()] = true
				// Of other rules: one with a tag that differs in the last bit.
				similar := who
				similar[3] ^= 1
				take(t, store, guarded(monday, similar, charge(m, 1)))
				take(t, store, guarded(monday, stranger(), charge(m, 1)))
			}
			who := rule.Subject("not of ours")
			key := redisstore.SubjectKey(prefix, who)
			for _, foreign := range []string{key[:len(key)-2] + "}", key[:len(key)-1], prefix + "{" + key[len(prefix)+1:len(prefix)+6] + "}", prefix + "{}"} {
				for _, addr := range addrs { // the cluster determines where it belongs
					redistest.Command(addr, "SET", foreign, "value", "PX", "3600000")
				}
			}
			for _, about := range []int{1, 7, 1000} {
				if got := list(t, store, rule.Tag(), about, nil); !maps.Equal(got, want) {
					t.Errorf("prefix %q, about %d: %d listed, want %d", prefix, about, len(got), len(want))
				}
			}
			if got := list(t, store, storage.RuleTag{1, 2, 3, 4}, 100, nil); len(got) > 0 {
				t.Errorf("prefix %q: a rule without subjects lists %v", prefix, got)
			}
		}
	})
}

// A subject that lives throughout the listing is listed, although others come and go.
func TestKeysWhileOthersComeAndGo(t *testing.T) {
	t.Parallel()
	arrangements(t, func(t *testing.T, addrs []string, o redisstore.Options) {
		store := open(t, o)
		rule := hasher.Rule("test", "busy", "user")
		m := spacious()
		want := map[string]bool{}
		for n := range 300 {
			who := rule.Subject(strconv.Itoa(n))
			hit(t, store, 0, who, m)
			want[who.String()] = true
		}
		guests := 0
		var present []storage.Subject
		got := list(t, store, rule.Tag(), 10, func() {
			if guests > 4000 { // then let it end
				return
			}
			if len(present) < 1500 {
				come := make([]storage.Subject, 100)
				atOnce(len(come), func(i int) {
					come[i] = rule.Subject("guest", strconv.Itoa(guests+i))
					hit(t, store, 0, come[i], m)
				})
				present, guests = append(present, come...), guests+len(come)
				return
			}
			atOnce(len(present), func(i int) {
				if err := store.Reset(t.Context(), &storage.Group{Subject: present[i], Charges: []algorithm.Charge{charge(m, 0)}}); err != nil {
					t.Error(err)
				}
			})
			present = nil
		})
		for who := range want {
			if !got[who] {
				t.Errorf("%s was there all the while and is not listed", who)
			}
		}
		if guests == 0 {
			t.Error("nobody came")
		}
	})
}

func TestKeysOfWrongRequests(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	arrangements(t, func(t *testing.T, addrs []string, o redisstore.Options) {
		store := open(t, o)
		for _, cursor := range []string{"garbage", "1", "/", "/-1", "/x", "host:1/", "host:1/1.5", "/18446744073709551616"} {
			if _, _, err := store.Keys(t.Context(), storage.RuleTag{}, cursor, 10); !errors.Is(err, algorithm.ErrInvalid) || errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("cursor %q: error %v, want ErrInvalid", cursor, err)
			}
		}
		if _, _, err := store.Keys(t.Context(), storage.RuleTag{}, "", 0); !errors.Is(err, algorithm.ErrInvalid) {
			t.Errorf("a page of nothing: error %v, want ErrInvalid", err)
		}
		// A master that has disappeared is skipped.
		if _, next, err := store.Keys(t.Context(), storage.RuleTag{}, "zzz:1/99", 10); err != nil || next != "" {
			t.Errorf("a master behind the last: next %q, error %v", next, err)
		}
		if _, _, err := store.Keys(t.Context(), storage.RuleTag{}, "0.0.0.0:1/99", 10); err != nil {
			t.Errorf("a master before the first: error %v", err)
		}
	})
}

func TestSize(t *testing.T) {
	t.Parallel()
	arrangements(t, func(t *testing.T, addrs []string, o redisstore.Options) {
		store := open(t, o)
		for n := range 50 {
			if size, err := store.Size(t.Context()); err != nil || size != int64(n) {
				t.Fatalf("%d keys (%v), want %d", size, err, n)
			}
			hit(t, store, 0, stranger(), spacious())
		}
	})
}

func TestReservations(t *testing.T) {
	t.Parallel()
	arrangements(t, func(t *testing.T, addrs []string, o redisstore.Options) {
		store := open(t, o)
		const many = 2500 // more than a page
		who, m := stranger(), spacious()
		reserve := func(nonce uint64) *storage.Ticket {
			ticket := one(monday, who, charge(m, 2))
			ticket.Nonce, ticket.Groups[0].Reserve = nonce, time.Hour
			return ticket
		}
		atOnce(50, func(i int) {
			for n := i; n < many; n += 50 {
				take(t, store, reserve(uint64(n)*7919+1))
			}
		})
		const holds = 20
		for range holds {
			if _, err := store.Hold(one(monday, who, charge(m, 1)), new(storage.Outcome)); err != nil {
				t.Fatal(err)
			}
		}
		settle(t, store, settlement(reserve(1), storage.Settle))
		for _, now := range []algorithm.Instant{0, monday + 1} {
			for _, most := range []int{0, 1, 10, many - 1, many, 2 * many} {
				got, total, err := store.Reservations(t.Context(), now, who, most)
				exact := total == many || most < many && total == many+holds
				if err != nil || len(got) != min(most, many) || !exact {
					t.Fatalf("at %d, at most %d: %d of %d, error %v", now, most, len(got), total, err)
				}
				if !slices.IsSortedFunc(got, func(a, b storage.Reservation) int {
					if a.Nonce < b.Nonce {
						return -1
					}
					return 1
				}) {
					t.Errorf("at most %d: not in order, or one of them twice", most)
				}
				for _, r := range got {
					receipt, until := r.Receipt(m), monday+seconds(3600)
					if r.Nonce == 1 {
						until = monday.Add(storage.ClosedFor)
					}
					if r.Closed != (r.Nonce == 1) || r.Until != until || receipt.Cost != 2 || len(r.Receipts) != 1 {
						t.Fatalf("%+v is not what was reserved", r)
					}
				}
			}
		}
		if got, _, err := store.Reservations(t.Context(), monday+seconds(3600), who, many); err != nil || len(got) != 0 {
			t.Errorf("%d reservations when all are over (%v)", len(got), err)
		}
		if _, _, err := store.Reservations(t.Context(), 0, who, -1); !errors.Is(err, algorithm.ErrInvalid) {
			t.Errorf("less than none: error %v, want ErrInvalid", err)
		}
		if got, total, err := store.Reservations(t.Context(), 0, stranger(), 10); err != nil || len(got) != 0 || total != 0 {
			t.Errorf("a stranger has %d of %d reservations (%v)", len(got), total, err)
		}
		ask(t, on(addrs, who), "HSET", reservationsKey(who), "foreign", "field")
		if _, _, err := store.Reservations(t.Context(), 0, who, 2*many); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("a foreign field: error %v, want ErrCorrupt", err)
		}
		for _, value := range damagedFields() {
			who := stranger()
			ask(t, on(addrs, who), "HSET", reservationsKey(who), field(7), value)
			if _, _, err := store.Reservations(t.Context(), 0, who, 1); !errors.Is(err, storage.ErrCorrupt) {
				t.Errorf("reservation %q: error %v, want ErrCorrupt", value, err)
			}
		}
		who = stranger()
		ask(t, on(addrs, who), "SET", reservationsKey(who), "text")
		if _, _, err := store.Reservations(t.Context(), 0, who, 10); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("text for reservations: error %v, want ErrCorrupt", err)
		}
	})
}

// A reset forgets what it names and nothing else.
func TestReset(t *testing.T) {
	t.Parallel()
	arrangements(t, func(t *testing.T, addrs []string, o redisstore.Options) {
		store := open(t, o)
		named := returnable(eachKind(time.Hour))
		var others []*algorithm.Meter
		for _, m := range named {
			l := m.Limit()
			l.Ordinal = 1
			others = append(others, l.MustCompile())
		}
		everything := func(who storage.Subject) *storage.Ticket {
			ticket := guarded(monday, who)
			for _, m := range slices.Concat(named, others) {
				ticket.Groups[0].Charges = append(ticket.Groups[0].Charges, charge(m, 1))
			}
			if !take(t, store, ticket).Allowed {
				t.Fatal("denied below the limit")
			}
			take(t, store, ticket) // a duplicate, charged to its budget
			if _, err := store.Ban(t.Context(), &storage.Ban{Now: monday, Subject: who, Penalty: ticket.Groups[0].Penalty, Length: time.Hour}); err != nil {
				t.Fatal(err)
			}
			return ticket
		}
		who, bystander := stranger(), stranger()
		ticket := everything(who)
		everything(bystander)
		before := snapshot(t, on(addrs, bystander), bystander)
		record := ask(t, on(addrs, who), "GET", recordKey(&ticket.Groups[0]))

		g := ticket.Groups[0]
		g.Charges = nil
		for _, m := range named {
			g.Charges = append(g.Charges, charge(m, 0))
		}
		for range 2 { // the second time there is nothing left to forget
			if err := store.Reset(t.Context(), &g); err != nil {
				t.Fatal(err)
			}
			for _, m := range named {
				expect(t, m.String()+", reset: used", int(used(t, store, monday, who, m)), 0)
			}
			for _, m := range others {
				expect(t, m.String()+", not named: used", int(used(t, store, monday, who, m)), 1)
			}
		}
		peek := one(monday, who, charge(named[0], 0))
		peek.Groups[0].Penalty = g.Penalty
		if out := take(t, store, peek); out.Groups[0].BannedUntil != 0 || out.Groups[0].Bans != 0 {
			t.Errorf("still banned: %+v", out.Groups[0])
		}
		if err := store.Settle(t.Context(), settlement(ticket, storage.Release), new(storage.SettleOutcome)); !errors.Is(err, storage.ErrNoReservation) {
			t.Errorf("settled what was reset: error %v", err)
		}
		if got := ask(t, on(addrs, who), "GET", recordKey(&g)); got != record {
			t.Errorf("the record became %q", got)
		}
		if after := snapshot(t, on(addrs, bystander), bystander); !maps.Equal(before, after) {
			t.Errorf("another subject changed from %q to %q", before, after)
		}
		for _, addr := range addrs {
			if number(t, addr, "DBSIZE") > 0 {
				everyKeyExpires(t, addr)
			}
		}
		// Reset everything: then only the record is left.
		for _, m := range others {
			g.Charges = append(g.Charges, charge(m, 0))
		}
		if err := store.Reset(t.Context(), &g); err != nil {
			t.Fatal(err)
		}
		if keys := keysOf(t, on(addrs, who), who); len(keys) != 1 || keys[0] != recordKey(&g) {
			t.Errorf("a reset of everything left %q", keys)
		}
		// Resetting state that does not exist, or that a penalty alone does not identify, does no harm.
		stranger := storage.Group{Subject: stranger(), Penalty: g.Penalty}
		if err := store.Reset(t.Context(), &stranger); err != nil {
			t.Error(err)
		}
	})
}
