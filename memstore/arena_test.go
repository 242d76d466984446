package memstore

import (
	"math/rand/v2"
	"testing"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

func TestArenaKeepsListsApart(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	memory := regionOf(t, 64<<20, 16)
	empty := memory.used()
	a := &arena{memory: memory}
	type list struct {
		block block
		n     int
		mark  int64
	}
	var lists []list
	for step := range 20_000 {
		if len(lists) == 0 || r.IntN(2) == 0 {
			n := 1 + r.IntN(1<<r.IntN(9))
			b := a.alloc(n, forState)
			if b == 0 {
				t.Fatalf("step %d: no block of %d with %d bytes used", step, n, memory.used())
			}
			entries := a.entries(b, n)
			if cap(entries) < n || cap(entries) >= 2*max(n, 4) {
				t.Fatalf("a block of %d for %d entries", cap(entries), n)
			}
			for i := range entries {
				entries[i] = algorithm.Entry{At: algorithm.Instant(i), Value: int64(step)}
			}
			lists = append(lists, list{b, n, int64(step)})
			continue
		}
		i := r.IntN(len(lists))
		l := lists[i]
		for j, e := range a.entries(l.block, l.n) {
			if e.At != algorithm.Instant(j) || e.Value != l.mark {
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
	// One small page of a class may remain.
	memory.purge()
	if used, most := memory.used()-empty, int64(classFor(frameEntries)+1)*frameBytes; used > most {
		t.Errorf("%d bytes used by nothing, want at most %d", used, most)
	}
	a.trim()
	memory.purge()
	if used := memory.used() - empty; used != 0 {
		t.Errorf("%d bytes used by nothing", used)
	}
}

func TestArenaHasClassesForEveryLog(t *testing.T) {
	for _, n := range []int{0, 1, 4, 5, 8, 9, 64, 65, 2*algorithm.MaxLog + storage.MaxGroups*storage.MaxCharges + 8} {
		class := classFor(n)
		if class >= classes || classSize(class) < n || class > 0 && classSize(class-1) >= n {
			t.Errorf("%d entries: class %d of %d entries", n, class, classSize(class))
		}
	}
	a := &arena{memory: regionOf(t, 1<<20, 16)}
	if b := a.alloc(classSize(classes), forState); b != 0 {
		t.Errorf("a block beyond all classes: %d", b)
	}
}

func TestArenaStaysWithinItsBudget(t *testing.T) {
	memory := regionOf(t, 1<<20, 16)
	a := &arena{memory: memory}
	var blocks []block
	for {
		b := a.alloc(10, forState)
		if b == 0 {
			break
		}
		blocks = append(blocks, b)
	}
	if lists := memory.frames.bytes; lists > memory.max*13/16 || lists < 10<<16 || memory.used() > 1<<20 {
		t.Errorf("%d bytes of lists, %d bytes in all", lists, memory.used())
	}
	a.free(blocks[0])
	if a.alloc(10, forState) == 0 {
		t.Error("what was freed cannot be had again")
	}
	// Freed memory can be used for something else once it was returned to the system.
	for _, b := range blocks[1:] {
		a.free(b)
	}
	if a.alloc(10_000, forState) == 0 {
		t.Error("a large block where small ones were")
	}
}

// Frames are found, whatever the pattern of their use.
func TestFramesAreFound(t *testing.T) {
	m := regionOf(t, 8<<20, 16)
	r := rand.New(rand.NewPCG(9, 9))
	type run struct{ first, n int }
	var runs []run
	owner := map[int]bool{}
	for step := range 20_000 {
		if r.IntN(2) == 0 || len(runs) == 0 {
			n := 1 << max(0, r.IntN(10)-4)
			i := int(m.alloc(n, forState, false))
			if i == 0 {
				continue
			}
			for j := i; j < i+n; j++ {
				if owner[j] {
					t.Fatalf("step %d: frame %d has two owners", step, j)
				}
				owner[j] = true
				m.frames.pages[j].class = 0
				m.frames.entries(uint32(j))[0].Value = int64(j)
			}
			runs = append(runs, run{i, n})
		} else {
			k := r.IntN(len(runs))
			for j := runs[k].first; j < runs[k].first+runs[k].n; j++ {
				if got := m.frames.entries(uint32(j))[0].Value; got != int64(j) {
					t.Fatalf("step %d: frame %d holds %d", step, j, got)
				}
				delete(owner, j)
			}
			m.free(uint32(runs[k].first), runs[k].n, false)
			runs[k] = runs[len(runs)-1]
			runs = runs[:len(runs)-1]
		}
		if r.IntN(100) == 0 {
			m.purge()
			if want := int64(len(owner)) * frameBytes; m.frames.bytes != want {
				t.Fatalf("step %d: %d bytes, want %d", step, m.frames.bytes, want)
			}
		}
	}
}
