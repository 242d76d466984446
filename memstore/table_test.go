package memstore

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
)

// check fails unless the table is sorted, has no slot before its home or after a gap it could have filled,
// and counts correctly.
func (t *table) check(tb testing.TB) {
	tb.Helper()
	count := uint32(0)
	for i := range t.size() {
		s := t.at(i)
		if s.head == 0 {
			if *s != (slot{}) {
				tb.Fatalf("slot %d is empty and holds %+v", i, *s)
			}
			continue
		}
		count++
		home := t.home(s.place)
		if home > i {
			tb.Fatalf("slot %d lies before its home %d", i, home)
		}
		if home < i && t.at(i-1).head == 0 {
			tb.Fatalf("slot %d has its home at %d and an empty slot before it", i, home)
		}
		if i > 0 && t.at(i-1).head != 0 && t.at(i-1).place < s.place {
			tb.Fatalf("slots %d and %d are not in order", i-1, i)
		}
	}
	if count != t.count {
		tb.Fatalf("%d slots in use, counted as %d", count, t.count)
	}
}

// randomKey makes clusters, runs of equal places, and both ends of the table likely.
func randomKey(r *rand.Rand) key {
	k := key{place: r.Uint64(), name: r.Uint64N(3)}
	switch r.IntN(8) {
	case 0:
		k.place &= math.MaxUint64 >> 12
	case 1:
		k.place |= ^uint64(math.MaxUint64 >> 12)
	case 2:
		k.place = k.place >> 60 << 60
	}
	return k
}

func regionOf(t testing.TB, maxBytes int64, shards int) *memory {
	t.Helper()
	m, err := newMemory(maxBytes, shards)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.mapped.unmap)
	return m
}

func TestTableIsAMap(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		table := regionOf(t, 1<<20, 4).table(int(seed) % 4)
		want := map[key]uint64{}
		var keys []key
		keep := func(*slot) bool { return false }
		table.rebuild(1, keep)
		for step := range 6000 {
			growing := step%2000 < 1200
			switch {
			case r.IntN(500) == 0:
				table.rebuild(max(1, chunksFor(table.count)+uint32(r.IntN(4))-1), keep)
			case len(keys) == 0 || growing && r.IntN(3) > 0:
				k := randomKey(r)
				if _, there := want[k]; there {
					break
				}
				if s, _ := table.insert(slot{key: k, head: state, payload: uint64(step)}); s.key != k {
					t.Fatalf("seed %d: inserted %v, got %v", seed, k, s.key)
				}
				want[k] = uint64(step)
				keys = append(keys, k)
				if !table.hasRoom(0) && r.IntN(4) > 0 { // otherwise the end overflows
					table.rebuild(table.chunks+1, keep)
				}
			default:
				i := r.IntN(len(keys))
				k := keys[i]
				keys[i] = keys[len(keys)-1]
				keys = keys[:len(keys)-1]
				for at := range table.size() {
					if s := table.at(at); s.head != 0 && s.key == k {
						table.remove(at)
						break
					}
				}
				delete(want, k)
			}
			if k := randomKey(r); table.find(k) != nil && want[k] == 0 {
				t.Fatalf("seed %d: found %v, which is not there", seed, k)
			}
			if step%500 == 0 {
				table.check(t)
			}
		}
		table.check(t)
		if int(table.count) != len(want) {
			t.Fatalf("seed %d: %d keys, want %d", seed, table.count, len(want))
		}
		for k, payload := range want {
			if s := table.find(k); s == nil || s.payload != payload {
				t.Fatalf("seed %d: %v is %+v, want payload %d", seed, k, s, payload)
			}
		}
	}
}

func TestRebuildDropsTheDead(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	table := regionOf(t, 1<<20, 1).table(0)
	table.rebuild(10, nil)
	for i := range 1000 {
		at := algorithm.Instant(i) * 1_000_000
		table.insert(slot{key: randomKey(r), head: head(at, at, state), payload: uint64(i)})
	}
	now := algorithm.Instant(600)*1_000_000 + grace
	if dead := table.dead(now); dead != 601 {
		t.Fatalf("%d dead, want 601", dead)
	}
	table.rebuild(5, func(s *slot) bool { return s.deadAt(now) })
	table.check(t)
	if table.count != 399 {
		t.Errorf("%d left, want 399", table.count)
	}
}

func TestHeadHoldsItsParts(t *testing.T) {
	for _, at := range []algorithm.Instant{0, 1, 1_700_000_000_000_000, algorithm.MaxInstant} {
		for _, life := range []algorithm.Instant{0, 1, 20_000, 3_600_000_000, 2 * 367 * 86_400_000_000} {
			s := slot{head: head(at, at+life, state|spilled)}
			if s.at() != at || s.head&(sortMask|given) != state|spilled {
				t.Errorf("head of %d, %d: %x", at, life, s.head)
			}
			if s.life() < life || s.life() > life+life/7+1<<14 {
				t.Errorf("life %d is kept as %d", life, s.life())
			}
		}
	}
	if s := (slot{head: head(algorithm.MaxInstant+5, algorithm.MaxInstant+5, 0)}); s.at() != algorithm.MaxInstant {
		t.Errorf("an instant beyond the last is kept as %d", s.at())
	}
}
