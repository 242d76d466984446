package memstore

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
)

// The words of a key are those of its hash, whatever keys were remembered before, also if the memory of a key is used
// for the next one.
func TestHotKeysAreHashed(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	rule := storage.NewHasher("secret").Rule("domain", "rule", "key")
	keys := &hotKeys{rule: rule}
	random := rand.New(rand.NewPCG(1, 2))
	buffer := make([]byte, 2*maxHotKey)
	found, missed, never := 0, 0, 0
	for range 200_000 {
		length := [...]int{0, 7, 8, 9, 16, maxHotKey, maxHotKey + 1, random.IntN(2 * maxHotKey)}[random.IntN(8)]
		text := buffer[:length]
		for i := range text {
			text[i] = 'a'
		}
		for range min(length, 3) { // few keys, which differ in few places
			text[random.IntN(length)] = byte('a' + random.IntN(2))
		}
		key := unsafe.String(unsafe.SliceData(text), length)
		low, high, entry := keys.words(key)
		wantLow, wantHigh := rule.Words(key)
		if low != wantLow || high != wantHigh {
			t.Fatalf("the words of %q are %x %x, want %x %x", key, low, high, wantLow, wantHigh)
		}
		switch fits := length >= 8 && length <= maxHotKey; {
		case !fits && entry != nil:
			t.Fatalf("a key of %d bytes has an entry", length)
		case !fits:
			never++
		case entry == nil:
			found++
		default:
			missed++
			keys.remember(entry, key, low, high, algorithm.Instant(random.IntN(2)*rememberOnce))
		}
	}
	if found < 1000 || missed < 1000 || never < 1000 {
		t.Errorf("%d keys were remembered, %d not, and %d cannot be, too few of one", found, missed, never)
	}
}

// A key that is charged again and again is remembered; others are not, and take no memory.
func TestHotKeyIsRemembered(t *testing.T) {
	s := open(t, Options{})
	m := limit(t, algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 1_000_000, Window: time.Hour})
	window := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1_000_000, Window: time.Hour})
	rule := storage.NewHasher("secret").Rule("domain", "rule", "key")
	one := s.Single(s, rule, m).(*singleRule)
	other := storage.NewHasher("secret").Rule("domain", "other", "key")
	several := s.Several(s, other, []*algorithm.Meter{m, window}).(*severalRule)
	take := func(key string) {
		if _, _, err := one.Take(t.Context(), 0, key, 1, 0); err != nil {
			t.Fatal(err)
		}
		several.Take(t.Context(), key, 1)
	}
	for i := range 10_000 {
		take("one-of-many-" + strconv.Itoa(i))
	}
	for i := range one.keys.recent {
		if one.keys.recent[i].Load() != nil || several.keys.recent[i].Load() != nil {
			t.Fatal("a key is remembered that was never charged twice in a row")
		}
	}
	const hot = "198.51.100.77"
	var ticket storage.Ticket
	ticket.Groups = []storage.Group{{Subject: other.Subject(hot), Charges: []algorithm.Charge{{Meter: m, Cost: 1}, {Meter: window, Cost: 1}}}}
	var out storage.Outcome
	if err := s.Take(t.Context(), &ticket, &out); err != nil { // several charges need slots that exist
		t.Fatal(err)
	}
	remembers := func(keys *hotKeys, take func()) bool {
		for range 1_000_000 {
			if _, _, entry := keys.words(hot); entry == nil {
				return true
			}
			take()
		}
		return false
	}
	if !remembers(&one.keys, func() {
		if _, _, err := one.Take(t.Context(), 0, hot, 1, 0); err != nil {
			t.Fatal(err)
		}
	}) {
		t.Error("the hot key of one limit is not remembered")
	}
	if !remembers(&several.keys, func() { several.Take(t.Context(), hot, 1) }) {
		t.Error("the hot key of several limits is not remembered")
	}
}
