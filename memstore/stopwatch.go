package memstore

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A stopwatch returns the nanoseconds since its start. Where the system's monotonic clock is the processor's
// counter, the stopwatch soon reads that counter itself, which takes half the time. It runs at the rate that it
// measured at first, so it drifts away from the system's clock, which is adjusted all the time. Its user
// must compare the two regularly, by calling check.
type stopwatch struct {
	start  time.Time
	counts bool                      // the counter may be used: it has agreed with the system's clock so far
	first  tickReading               // where the measurement of its rate began
	scale  atomic.Pointer[tickScale] // nil: the system's clock is read
	lead   atomic.Int64              // ns that the stopwatch is ahead of the system's clock
}

// tickReading is a reading of the counter and of the system's clock at the same moment.
type tickReading struct {
	ticks uint64
	since int64
}

// A tickScale converts ticks of the counter to the time since the start.
type tickScale struct {
	from  tickReading
	scale uint64 // ns per tick × 2^32
}

const (
	measureFor = 100 * time.Millisecond // how long the rate of the counter is measured
	closeTicks = 5000                   // two readings at most this far apart are of the same moment
	maxDrift   = 1024                   // the counter may be off by one part in 1024
)

func (w *stopwatch) init() {
	w.start = time.Now()
	w.counts = countsTicks() && isRealTime(w.start)
}

// since returns the nanoseconds since the start.
func (w *stopwatch) since() int64 {
	if s := w.scale.Load(); s != nil {
		return s.at(readTicks())
	}
	return int64(time.Since(w.start)) + w.lead.Load()
}

func (s *tickScale) at(ticks uint64) int64 {
	high, low := bits.Mul64(ticks-s.from.ticks, s.scale)
	return s.from.since + int64(high<<32|low>>32)
}

// read reads the counter and the system's clock, and reports whether it read both at the same moment.
func (w *stopwatch) read() (_ tickReading, ok bool) {
	before := readTicks()
	since := time.Since(w.start)
	after := readTicks()
	if after-before > closeTicks {
		return tickReading{}, false
	}
	return tickReading{before + (after-before)/2, int64(since)}, true
}

// check compares a reading of the system's clock with the readings of the stopwatch before and after it. passed is
// the time since the last check. It reports false if the stopwatch was wrong: then it uses the system's clock from
// now on. Calls must not overlap.
func (w *stopwatch) check(before int64, at time.Time, after, passed int64) bool {
	system := int64(at.Sub(w.start))
	if w.scale.Load() == nil {
		w.measure(system)
		return true
	}
	lead := min(max(w.lead.Load(), before-system), after-system)
	slack := max(passed, 0)/maxDrift + int64(time.Microsecond)
	if moved := lead - w.lead.Load(); moved < -slack || moved > slack {
		w.counts = false
		w.scale.Store(nil)
		return false
	}
	w.lead.Store(lead)
	return true
}

// measure starts to use the counter once its rate is known.
func (w *stopwatch) measure(system int64) {
	if !w.counts || w.first.ticks != 0 && system-w.first.since < int64(measureFor) {
		return
	}
	r, ok := w.read()
	if !ok || w.first.ticks == 0 || r.ticks <= w.first.ticks {
		w.first = r // begin, or try again
		return
	}
	high, low := bits.Mul64(uint64(r.since-w.first.since), 1<<32)
	if ticks := r.ticks - w.first.ticks; high < ticks {
		scale, _ := bits.Div64(high, low, ticks)
		w.scale.Store(&tickScale{w.first, scale})
	}
}
