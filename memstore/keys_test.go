package memstore

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// keysOf lists a rule from beginning to end and calls between after every page.
func keysOf(t *testing.T, s *Store, tag storage.RuleTag, about int, between func()) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for cursor, pages := "", 0; ; pages++ {
		page, next, err := s.Keys(t.Context(), tag, cursor, about)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range page {
			seen[k]++
		}
		if next == "" {
			return seen
		}
		if cursor = next; pages > 1_000_000 {
			t.Fatal("no end")
		}
		between()
	}
}

func listed(s storage.Subject) string { return s.String()[:10] + "…" }

func TestKeysAreThoseOfTheRule(t *testing.T) {
	s := open(t, Options{MaxBytes: 4 << 20})
	h := storage.NewHasher("")
	mine, other := h.Rule("shop", "search", "user"), h.Rule("shop", "buy", "user")
	m := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 10, Window: time.Hour})
	log := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 10, Window: time.Hour})
	penalty := penaltyOf(t, algorithm.PenaltyTerms{After: 1, Within: time.Hour, Bans: []time.Duration{time.Hour}, ForgiveAfter: time.Hour})
	want := map[string]int{}
	slots := int64(0)
	for i := range 3000 {
		name := string(rune('a'+i%26)) + strings.Repeat("x", i/26)
		g := storage.Group{
			Subject: mine.Subject(name), Charges: []algorithm.Charge{{Meter: m, Cost: 1}, {Meter: log, Cost: 1}},
			Dedup: dedupOf(t, time.Hour), Call: call(uint64(i)), Reserve: time.Hour,
		}
		clear(g.Call[:4]) // so that its place looks like that of a subject of the rule
		if i%3 == 0 {
			g.Subject = other.Subject(name)
		} else {
			want[listed(g.Subject)] = 1
		}
		take(t, s, &storage.Ticket{Nonce: (uint64(i) + 1) << 32, Groups: []storage.Group{g}}) // likewise
		slots += 4
	}
	banned := mine.Subject("never seen")
	if _, err := s.Ban(t.Context(), &storage.Ban{Subject: banned, Penalty: penalty, Length: time.Hour}); err != nil {
		t.Fatal(err)
	}
	want[banned.String()] = 1
	for _, about := range []int{-1, 0, 1, 300, 1_000_000} {
		got := keysOf(t, s, mine.Tag(), about, func() {})
		if len(got) != len(want) {
			t.Errorf("pages of %d: %d keys, want %d", about, len(got), len(want))
		}
		for k, n := range got {
			if want[k] == 0 || n != 1 {
				t.Fatalf("pages of %d: %q was listed %d times, want %d", about, k, n, want[k])
			}
		}
	}
	if size, err := s.Size(t.Context()); size != slots+1 || size != s.Stats().Keys || err != nil {
		t.Errorf("size %d, %v, want %d", size, err, slots+1)
	}
	if nobody := h.Rule("shop", "nobody"); len(keysOf(t, s, nobody.Tag(), 100, func() {})) != 0 {
		t.Error("a rule without subjects has keys")
	}
}

// A key that lives throughout the listing is listed, whatever else comes and goes.
func TestKeysWhileSlotsMove(t *testing.T) {
	s := open(t, Options{MaxBytes: MinBytes})
	// Not a window of one day, which might end during the test.
	m := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: algorithm.MaxWindow})
	brief := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 10, Window: 24 * time.Hour, Ordinal: 1})
	tag := storage.RuleTag{1, 2, 3, 4}
	tagged := func(n uint64) storage.Subject {
		who := subject(n)
		copy(who[:], tag[:])
		return who
	}
	for n := range uint64(600) {
		ticket := single(n, m, 1)
		ticket.Groups[0].Subject = tagged(n)
		take(t, s, ticket)
	}
	r, next, pages := rand.New(rand.NewPCG(1, 2)), uint64(10_000), 1
	seen := keysOf(t, s, tag, 1, func() {
		pages++
		for range 100 {
			next++
			take(t, s, single(next, brief, 1))
			g := single(next-r.Uint64N(200), brief, 0).Groups[0]
			if err := s.Reset(t.Context(), &g); err != nil {
				t.Fatal(err)
			}
		}
	})
	for n := range uint64(600) {
		if seen[listed(tagged(n))] == 0 {
			t.Fatalf("subject %d is not among %d", n, len(seen))
		}
	}
	if pages < 5 {
		t.Errorf("600 keys on %d pages, each a chunk", pages)
	}
}

func TestDeadKeysAreNotListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{})
		short := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 10, Window: time.Second})
		long := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 10, Window: time.Hour})
		take(t, s, single(1, short, 1))
		take(t, s, single(2, long, 1))
		given := single(3, short, 1)
		given.Now = 1_000_000
		take(t, s, given)
		time.Sleep(2 * time.Second)
		for n, want := range []int{1: 0, 2: 1, 3: 1} {
			who := subject(uint64(n))
			if got := keysOf(t, s, who.Tag(), 1, func() {})[listed(who)]; got != want {
				t.Errorf("subject %d is listed %d times, want %d", n, got, want)
			}
		}
	})
}

func TestKeysNameABadCursor(t *testing.T) {
	s := open(t, Options{MaxBytes: MinBytes})
	for _, bad := range []string{"x", ":", "0", "0:", "0:xyz", "1:0", "-1:0", "0:1:2", "99999999999999999999:0", "0:11111111111111111"} {
		_, _, err := s.Keys(t.Context(), storage.RuleTag{}, bad, 10)
		if !errors.Is(err, algorithm.ErrInvalid) || !strings.Contains(err.Error(), `"`+bad+`"`) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A banned subject is listed in full, with any counters beside it, so that its ban can be lifted by what is listed.
func TestBannedKeysAreListedInFull(t *testing.T) {
	s := open(t, Options{MaxBytes: 4 << 20})
	rule := storage.NewHasher("").Rule("shop", "search", "user")
	m := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: time.Hour})
	log := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 1, Window: time.Hour})
	penalty := penaltyOf(t, algorithm.PenaltyTerms{After: 1, Within: time.Hour, Bans: []time.Duration{time.Hour}, ForgiveAfter: time.Hour})
	want := map[string]int{}
	for i := range 600 {
		g := storage.Group{Subject: rule.Subject(strconv.Itoa(i)), Charges: []algorithm.Charge{{Meter: m, Cost: 1}, {Meter: log, Cost: 1}}, Penalty: penalty}
		take(t, s, &storage.Ticket{Groups: []storage.Group{g}})
		if text := listed(g.Subject); i%2 == 0 {
			want[text]++
		} else if out := take(t, s, &storage.Ticket{Groups: []storage.Group{g}}); out.Groups[0].BannedUntil == 0 {
			t.Fatalf("not banned: %+v", out)
		} else {
			want[g.Subject.String()]++
		}
	}
	if diff := cmp.Diff(want, keysOf(t, s, rule.Tag(), 50, func() {})); diff != "" {
		t.Error(diff)
	}
}
