package memstore

import (
	"math/rand/v2"
	"testing"

	"github.com/penstock-io/penstock"
)

func TestArenaKeepsListsApart(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	budget := &budget{max: 64 << 20}
	a := &arena{budget: budget}
	type list struct {
		block block
		n     int
		mark  int64
	}
	var lists []list
	for step := range 20_000 {
		if len(lists) == 0 || r.IntN(2) == 0 {
			n := 1 + r.IntN(1<<r.IntN(9))
			b := a.alloc(n)
			if b == 0 {
				t.Fatalf("step %d: no block of %d with %d bytes used", step, n, budget.used())
			}
			entries := a.entries(b, n)
			if cap(entries) < n || cap(entries) >= 2*max(n, 4) {
				t.Fatalf("a block of %d for %d entries", cap(entries), n)
			}
			for i := range entries {
				entries[i] = penstock.Entry{At: penstock.Instant(i), N: int64(step)}
			}
			lists = append(lists, list{b, n, int64(step)})
			continue
		}
		i := r.IntN(len(lists))
		l := lists[i]
		for j, e := range a.entries(l.block, l.n) {
			if e.At != penstock.Instant(j) || e.N != l.mark {
				t.Fatalf("step %d: entry %d of list %d is %+v", step, j, l.mark, e)
			}
		}
		a.free(l.block)
		lists[i] = lists[len(lists)-1]
		lists = lists[:len(lists)-1]
	}
	for _, l := range lists {
		a.free(l.block)
	}
	// One small page of a class may stay.
	if most := int64(classFor(pageEntries)+1) * pageBytes(pageEntries); budget.used() > most {
		t.Errorf("%d bytes used by nothing, want at most %d", budget.used(), most)
	}
}

func TestArenaHasClassesForEveryLog(t *testing.T) {
	for _, n := range []int{0, 1, 4, 5, 8, 9, 64, 65, 2*penstock.MaxLog + penstock.MaxGroups*penstock.MaxCharges + 8} {
		class := classFor(n)
		if class >= classes || classSize(class) < n || class > 0 && classSize(class-1) >= n {
			t.Errorf("%d entries: class %d of %d entries", n, class, classSize(class))
		}
	}
	a := &arena{budget: &budget{max: 1 << 40}}
	if b := a.alloc(classSize(classes)); b != 0 {
		t.Errorf("a block beyond all classes: %d", b)
	}
}

func TestArenaStaysWithinItsBudget(t *testing.T) {
	budget := &budget{max: 100_000}
	a := &arena{budget: budget}
	var blocks []block
	for {
		b := a.alloc(10)
		if b == 0 {
			break
		}
		blocks = append(blocks, b)
	}
	if used := budget.used(); used > 100_000-100_000/reserved || used < 80_000 {
		t.Errorf("%d bytes used of 100,000", used)
	}
	a.free(blocks[0])
	if a.alloc(10) == 0 {
		t.Error("what was freed cannot be had again")
	}
}
