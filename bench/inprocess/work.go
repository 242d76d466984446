package inprocess

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
)

// A Run is one cell: so many goroutines on as many processors, calling as fast as they can.
type Run struct {
	Pattern  Pattern
	Procs    int
	Duration time.Duration
}

// Ran is what came of a Run.
type Ran struct {
	Calls   int64
	Allowed int64
	Elapsed time.Duration
	CPU     time.Duration // of the whole process, its garbage collector included
}

// PerCall is the time per call, over all goroutines together, in nanoseconds.
func (r Ran) PerCall() float64 { return float64(r.Elapsed.Nanoseconds()) / float64(r.Calls) }

// CPUPerCall is the processor time per call, in nanoseconds. It does not grow while somebody else
// has the processor.
func (r Ran) CPUPerCall() float64 { return float64(r.CPU.Nanoseconds()) / float64(r.Calls) }

// between is how many calls are made between two looks at the clock, which would otherwise be
// part of every call's cost.
const between = 1024

func (r Run) do(l Limiter, t traffic) (Ran, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(r.Procs))
	var ran Ran
	var failed error
	var mu sync.Mutex
	var callers sync.WaitGroup
	start, used := time.Now(), processorTime()
	for i := range r.Procs {
		callers.Go(func() {
			calls, allowed, err := call(l.Caller(), t, i*(t.mask+1)/r.Procs, start.Add(r.Duration))
			mu.Lock()
			defer mu.Unlock()
			ran.Calls += calls
			ran.Allowed += allowed
			failed = errors.Join(failed, err)
		})
	}
	callers.Wait()
	ran.Elapsed, ran.CPU = time.Since(start), processorTime()-used
	return ran, failed
}

// processorTime is what this process has used so far.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // it fails only for a process that is not ours
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// call makes calls until the time is up, and some in any case: on a busy machine it may come to them late.
func call(take Take, t traffic, from int, until time.Time) (calls, allowed int64, err error) {
	for i := from; ; {
		for range between {
			ok, err := take(t.key(i))
			if err != nil {
				return calls, allowed, fmt.Errorf("charge %q: %w", t.key(i), err)
			}
			if ok {
				allowed++
			}
			i++
		}
		if calls += between; !time.Now().Before(until) {
			return calls, allowed, nil
		}
	}
}

// A Weight is what a contestant costs beside time.
type Weight struct {
	Heap     int64 // bytes in use on the garbage-collected heap
	Resident int64 // bytes of memory of the process, mapped ones too; 0 where it cannot be told
	Own      int64 // bytes by the limiter's own account; 0 if it keeps none
	GC       []time.Duration
}

// weigh returns what is in use beyond what was at the start of the process, and times so many
// full collections.
func weigh(l Limiter, empty Weight, collections int) Weight {
	w := footprint()
	w.Heap -= empty.Heap
	w.Resident -= empty.Resident
	if s, ok := l.(sized); ok {
		w.Own = s.Bytes()
	}
	for range collections {
		start := time.Now()
		runtime.GC()
		w.GC = append(w.GC, time.Since(start))
	}
	runtime.KeepAlive(l)
	return w
}

func footprint() Weight {
	debug.FreeOSMemory() // a full collection too
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Weight{Heap: int64(m.HeapInuse), Resident: resident()}
}

// resident reads the second field of statm, pages in memory, where there is one.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
