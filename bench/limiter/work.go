package limiter

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/memstore"
)

// A Run is one cell: that many goroutines on as many processors, sending requests as fast as they can.
type Run struct {
	Pattern  Pattern
	Procs    int
	Duration time.Duration
}

// RunResult is the result of a Run.
type RunResult struct {
	Calls   int64
	Allowed int64
	Elapsed time.Duration
	CPU     time.Duration // of the whole process, including its garbage collector
}

// PerCall returns the time per request, over all goroutines together, in nanoseconds.
func (r RunResult) PerCall() float64 { return float64(r.Elapsed.Nanoseconds()) / float64(r.Calls) }

// CPUPerCall returns the processor time per request, in nanoseconds. It does not grow while other processes use
// the processor.
func (r RunResult) CPUPerCall() float64 { return float64(r.CPU.Nanoseconds()) / float64(r.Calls) }

// between is the number of requests between two reads of the clock, which would otherwise be part of every
// request's cost.
const between = 1024

func (r Run) do(l lab.Limiter, t traffic) (RunResult, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(r.Procs))
	var calls, allowed atomic.Int64
	start, used := time.Now(), lab.OwnCPU()
	err := lab.Parallel(r.Procs, func(i int) error {
		n, passed, err := send(l.Caller(), t, i*(t.mask+1)/r.Procs, start.Add(r.Duration))
		calls.Add(n)
		allowed.Add(passed)
		return err
	})
	return RunResult{calls.Load(), allowed.Load(), time.Since(start), lab.OwnCPU() - used}, err
}

// send sends requests until the time is up, but at least some: on a busy machine it may start late.
func send(take lab.TakeFunc, t traffic, from int, until time.Time) (calls, allowed int64, err error) {
	ctx := context.Background()
	for i := from; ; {
		for range between {
			ok, err := take(ctx, t.key(i))
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

// A Weight is what a contestant costs besides time.
type Weight struct {
	Heap     int64 // bytes in use on the garbage-collected heap
	Resident int64 // resident memory of the process in bytes, including mapped memory; 0 if unknown
	Process  int64 // resident memory of the whole process
	Own      int64 // bytes as the limiter counts them; 0 if it does not
	Keys     int64 // that have a counter of their own; 0 if it does not say
	GC       []time.Duration
	Pause    time.Duration // the longest of the last 256 pauses of the garbage collector
}

// weigh returns the memory used since the start of the process, and times full collections.
func weigh(l lab.Limiter, empty Weight, collections int) Weight {
	w := footprint()
	w.Heap -= empty.Heap
	w.Process = w.Resident
	w.Resident -= empty.Resident
	if s, ok := l.(interface{ Stats() memstore.Stats }); ok {
		stats := s.Stats()
		w.Own, w.Keys = stats.Bytes, stats.Keys-stats.Shared
	}
	for range collections {
		start := time.Now()
		runtime.GC()
		w.GC = append(w.GC, time.Since(start))
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	w.Pause = time.Duration(slices.Max(m.PauseNs[:]))
	runtime.KeepAlive(l)
	return w
}

func footprint() Weight {
	debug.FreeOSMemory() // also runs a full collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Weight{Heap: int64(m.HeapInuse), Resident: resident()}
}

// resident reads the resident pages, the second field of statm, if it exists.
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
