//go:build linux

package memstore

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// resident returns how many bytes of the store's mapping are resident.
func (m *memory) resident(t testing.TB) (bytes int64) {
	t.Helper()
	memory, size := m.mapped.memory, os.Getpagesize()
	pages := make([]byte, (len(memory)+size-1)/size)
	_, _, errno := syscall.Syscall(syscall.SYS_MINCORE, uintptr(unsafe.Pointer(&memory[0])), uintptr(len(memory)), uintptr(unsafe.Pointer(&pages[0])))
	if errno != 0 {
		t.Fatal(errno)
	}
	for _, p := range pages {
		bytes += int64(p&1) * int64(size)
	}
	return bytes
}

// flood asks for more than any store of these tests holds: fixed-size states, logs of different lengths,
// permits, records of requests and reservations, all of which live for about a second.
type flood struct {
	store  *Store
	plain  *algorithm.Meter
	lists  []*algorithm.Meter
	dedup  *algorithm.Dedup
	ticket storage.Ticket
	out    storage.Outcome
	n      uint64
}

func newFlood(t testing.TB, s *Store) *flood {
	f := &flood{store: s, plain: limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 100, Window: time.Second})}
	for _, count := range []int64{3, 30, 1000} {
		f.lists = append(f.lists,
			limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: count, Window: time.Second}),
			limit(t, algorithm.Limit{Algorithm: algorithm.Concurrency, Count: count, Window: time.Second}))
	}
	f.dedup = dedupOf(t, time.Second)
	return f
}

func (f *flood) run(keys int) {
	for range keys {
		f.n++
		g := storage.Group{Subject: subject(f.n), Charges: []algorithm.Charge{{Meter: f.plain, Cost: 1}}}
		again := 1
		switch f.n % 16 {
		case 0:
			g.Charges[0].Meter = f.lists[f.n/16%6]
			again = []int{1, 1, 8, 8, 60, 60}[f.n/16%6]
		case 1:
			g.Dedup, g.Call = f.dedup, call(f.n)
		case 2:
			g.Reserve = time.Second
		}
		for range again {
			f.ticket.Nonce++
			f.ticket.Groups = append(f.ticket.Groups[:0], g)
			_ = f.store.Take(context.Background(), &f.ticket, &f.out) // there may be no room
		}
	}
}

func TestResidentBytesStayWithinMaxBytes(t *testing.T) {
	t.Parallel()
	for size, rounds := range map[int64]int{MinBytes: 4, 8 << 20: 4, 128 << 20: 2} { // the last has huge pages
		t.Run(strconv.FormatInt(size, 10), func(t *testing.T) {
			t.Parallel()
			if os.Getenv("PENSTOCK_TEST_LONG") == "1" {
				rounds = 4
			}
			if testing.Short() && size > MinBytes {
				t.Skip("fills much memory")
			}
			synctest.Test(t, func(t *testing.T) {
				s := open(t, Options{MaxBytes: size})
				f := newFlood(t, s)
				keys := int(size / slotSize / 3)
				most := int64(0)
				for range rounds {
					f.run(keys)
					now := s.memory.resident(t)
					if counted := s.Stats().Bytes; now > counted || counted > size {
						t.Fatalf("%d bytes resident, %d counted, at most %d allowed", now, counted, size)
					}
					most = max(most, now)
					time.Sleep(200 * time.Millisecond)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				// The bookkeeping of frames stays.
				left := s.memory.resident(t) - alignUp(int64(len(s.memory.frames.pages))*16, int64(os.Getpagesize()))
				t.Logf("%d bytes resident at most, %d a minute later, %+v", most, max(left, 0), s.Stats())
				if most < size/2 || left > 0 || s.Stats().Keys != 0 {
					t.Errorf("%d bytes resident at most, %d a minute after all has expired, %+v", most, left, s.Stats())
				}
				for i := range s.shards {
					s.shards[i].checkLists(t)
				}
				f.run(keys / 4)
				if s.memory.resident(t) < most/8 {
					t.Error("the store is not used any more")
				}
			})
		})
	}
}

// In a separate process everything counts, including what the store has on the heap.
func TestProcessStaysWithinMaxBytes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("fills 32 MiB in a process of its own, which waits until they are returned")
	}
	const maxBytes, runtimeMargin = 32 << 20, 24 << 20
	if os.Getenv(childVariable) == "" {
		out := runChild(t)
		var before, most, after int64
		if _, err := fmt.Sscanf(out, "resident %d %d %d", &before, &most, &after); err != nil {
			t.Fatalf("%v in %q", err, out)
		}
		t.Logf("resident: %d MiB before, %d MiB at most, %d MiB afterwards", before>>20, most>>20, after>>20)
		if most-before > maxBytes+runtimeMargin || most-before < maxBytes/2 || after-before > runtimeMargin {
			t.Errorf("resident: %d bytes before, %d at most, %d afterwards; MaxBytes is %d", before, most, after, maxBytes)
		}
		return
	}
	debug.SetGCPercent(50)
	before, most := processBytes(t), int64(0)
	s := open(t, Options{MaxBytes: maxBytes})
	f := newFlood(t, s)
	for range 4 {
		f.run(maxBytes / slotSize / 3)
		most = max(most, processBytes(t))
	}
	deadline := time.Now().Add(time.Minute)
	for s.Stats().Keys > 0 && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(2 * passEvery) // pages of lists are returned at the end of a pass
	debug.FreeOSMemory()
	fmt.Printf("resident %d %d %d\n", before, most, processBytes(t))
	runtime.KeepAlive(s)
}

func TestLargeMaxBytes(t *testing.T) {
	// More than the machine may have: memory is taken only where it is used.
	s := open(t, Options{MaxBytes: 20 << 30})
	newFlood(t, s).run(1000)
	if resident := s.memory.resident(t); resident > 256<<20 {
		t.Errorf("%d bytes resident with 1000 keys", resident)
	}
	for _, huge := range []int64{1 << 48, 1 << 55, 1<<63 - 1} {
		if s, err := New(Options{MaxBytes: huge}); err == nil || !strings.Contains(err.Error(), strconv.FormatInt(huge, 10)) {
			t.Errorf("MaxBytes %d: %v, %v", huge, s, err)
		}
	}
}

// If the system refuses the address space, New returns an error and the process lives on.
func TestNoAddressSpace(t *testing.T) {
	if os.Getenv(childVariable) == "" {
		if out := runChild(t); !strings.HasPrefix(out, "open memory store: MaxBytes 1073741824: reserve ") || !strings.Contains(out, "cannot allocate memory") {
			t.Errorf("got %q", out)
		}
		return
	}
	fields := strings.Fields(readFile(t, "/proc/self/statm"))
	pages, _ := strconv.ParseUint(fields[0], 10, 64)
	limit := pages*uint64(os.Getpagesize()) + 512<<20
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	_, err := New(Options{MaxBytes: 1 << 30})
	fmt.Println(err)
	if _, err := New(Options{MaxBytes: 16 << 20}); err != nil {
		fmt.Println("a small store:", err)
	}
}

const childVariable = "MEMSTORE_TEST_CHILD"

// runChild runs the test in a separate process and returns the first line that it prints.
func runChild(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), childVariable+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, stderr.Bytes())
	}
	return string(out)
}

func processBytes(t *testing.T) int64 {
	pages, err := strconv.ParseInt(strings.Fields(readFile(t, "/proc/self/statm"))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

func readFile(t *testing.T, name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
