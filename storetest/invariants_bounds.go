package storetest

import (
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

var bounds = []bound{
	{"fixed window", algorithm.KindWindow, windowBound},
	{"calendar", algorithm.KindCalendar, windowBound},
	{"sliding window log", algorithm.KindLog, logBound},
	{"sliding window counter", algorithm.KindCounter, counterBound},
	{"token bucket", algorithm.KindBucket, bucketBound},
	{"interval bucket", algorithm.KindInterval, intervalBound},
	{"leaky bucket", algorithm.KindLeaky, leakyBound},
	{"concurrency", algorithm.KindLeases, leaseBound},
}

// windowBound: in each window at most L pass, and a denied request would have exceeded that.
func windowBound(m *algorithm.Meter, calls []call) error {
	passed := map[string]int64{}
	for i, c := range calls {
		w := windowName(m, c.at)
		if err := exact(i, c, passed[w], m.Count); err != nil {
			return fmt.Errorf("%w in window %s", err, w)
		}
		if c.Allowed {
			passed[w] += c.cost
		}
	}
	return nil
}

func windowName(m *algorithm.Meter, at algorithm.Instant) string {
	l := m.Limit()
	if l.Period == algorithm.NoPeriod {
		return fmt.Sprint(int64(at) / l.Window.Microseconds())
	}
	local := at.Time().In(l.Location)
	switch l.Period {
	case algorithm.Day:
		return local.Format(time.DateOnly)
	case algorithm.Week:
		year, week := local.ISOWeek()
		return fmt.Sprintf("%d-W%d", year, week)
	case algorithm.Month:
		return local.Format("2006-01")
	}
	return local.Format("2006")
}

// exact checks a request against what had passed and still counted.
func exact(i int, c call, counted, limit int64) error {
	if fits := counted+c.cost <= limit; fits != c.Allowed {
		return fmt.Errorf("call %d costs %d on top of %d of %d: pass is %v, want %v", i, c.cost, counted, limit, c.Allowed, fits)
	}
	return nil
}

// logBound: in any trailing window at most L pass, and a denied request would have exceeded that.
func logBound(m *algorithm.Meter, calls []call) error {
	for i, c := range calls {
		if err := exact(i, c, trailing(m, calls[:i], c.at), m.Count); err != nil {
			return err
		}
	}
	return nil
}

// trailing sums up what passed in (at−W, at].
func trailing(m *algorithm.Meter, calls []call, at algorithm.Instant) (sum int64) {
	for _, c := range calls {
		if c.Allowed && c.at > at-algorithm.Instant(m.Window) {
			sum += c.cost
		}
	}
	return sum
}

// counterBound: with P passed in the previous window and a fraction f of this one elapsed, a trailing
// window holds at most L + P·f, and so less than 2·L.
func counterBound(m *algorithm.Meter, calls []call) error {
	for i, c := range calls {
		held := trailing(m, calls[:i+1], c.at)
		if held >= 2*m.Count {
			return fmt.Errorf("after call %d the trailing window holds %d, twice the limit", i, held)
		}
		var previous int64
		window := int64(c.at) / m.Window
		for _, p := range calls[:i] {
			if p.Allowed && int64(p.at)/m.Window == window-1 {
				previous += p.cost
			}
		}
		gone := int64(c.at) % m.Window / m.Tick
		if held*m.Ticks > m.Count*m.Ticks+previous*gone {
			return fmt.Errorf("after call %d the trailing window holds %d, with %d in the previous window and %d of %d ticks of this one gone",
				i, held, previous, gone, m.Ticks)
		}
	}
	return nil
}

// bucketBound: between any two requests at most B + r·T pass.
func bucketBound(m *algorithm.Meter, calls []call) error {
	return burstBound(calls, func(from, to call) (most, unit int64) {
		ticks := int64(to.at)/m.Tick - int64(from.at)/m.Tick
		return m.Capacity*m.Ticks + m.Count*ticks, m.Ticks
	})
}

// intervalBound: between any two requests at most B pass, plus L for each refill between them.
func intervalBound(m *algorithm.Meter, calls []call) error {
	return burstBound(calls, func(from, to call) (most, unit int64) {
		refills := int64(to.at)/m.Window - int64(from.at)/m.Window
		return m.Capacity + m.Count*refills, 1
	})
}

// burstBound checks every section of a trace: what passes, in units, is at most most. A request is denied
// only if it would have broken the bound of some section that ends with it.
func burstBound(calls []call, bound func(from, to call) (most, unit int64)) error {
	for j, to := range calls {
		sum, fits := int64(0), true
		for i := j; i >= 0; i-- {
			if i == j || calls[i].Allowed {
				sum += calls[i].cost
			}
			most, unit := bound(calls[i], to)
			fits = fits && sum*unit <= most
		}
		if fits != to.Allowed {
			return fmt.Errorf("call %d costs %d: pass is %v, want %v by what passed before", j, to.cost, to.Allowed, fits)
		}
	}
	return nil
}

// leakyBound: starts follow the order of arrival, W/L apart for each unit of cost, and no request waits
// longer than the queue is long.
func leakyBound(m *algorithm.Meter, calls []call) error {
	longest := (m.Capacity*m.Ticks + m.Count - 1) / m.Count * m.Tick
	var before []call
	for i, c := range calls {
		if !c.Allowed {
			continue
		}
		if c.Delay < 0 || c.Delay.Microseconds() > longest {
			return fmt.Errorf("call %d waits %v with a queue of %d", i, c.Delay, m.Capacity-1)
		}
		start := c.at.Add(c.Delay)
		var ahead int64
		for k := len(before) - 1; k >= 0; k-- {
			ahead += before[k].cost
			earlier := before[k].at.Add(before[k].Delay)
			if start < earlier {
				return fmt.Errorf("call %d starts at %d, before one that came earlier and starts at %d", i, start, earlier)
			}
			if ticks := int64(start)/m.Tick - int64(earlier)/m.Tick; ticks < ahead*m.Ticks/m.Count {
				return fmt.Errorf("call %d starts %d ticks after one that came earlier, with %d between them", i, ticks, ahead)
			}
		}
		before = append(before, c)
	}
	return nil
}

// leaseBound: never more than N are live, and no request is denied while there are fewer.
func leaseBound(m *algorithm.Meter, calls []call) error {
	for i, c := range calls {
		var live int64
		for _, p := range calls[:i] {
			if p.Allowed && p.at+algorithm.Instant(m.Window) > c.at {
				live++
			}
		}
		if (live < m.Count) != c.Allowed {
			return fmt.Errorf("call %d: pass is %v with %d of %d live", i, c.Allowed, live, m.Count)
		}
	}
	return nil
}
