package algorithm

import (
	"sync/atomic"
	"time"
)

// A calendar finds the periods of one kind in one time zone. Periods have their real length: months differ,
// and a day has 23 or 25 hours when clocks change.
type calendar struct {
	period Period
	loc    *time.Location
	last   atomic.Pointer[span] // nearly every request falls into the same period as the one before
}

type span struct{ start, end Instant }

func newCalendar(p Period, loc *time.Location) *calendar {
	return &calendar{period: p, loc: zone(loc)}
}

// longest returns a length that no period of the kind exceeds, clock changes included.
func longest(p Period) time.Duration {
	const day = 24 * time.Hour
	return [...]time.Duration{Hour: 2 * time.Hour, Day: 2 * day, Week: 8 * day, Month: 32 * day, Year: 367 * day}[p]
}

// around returns the period that holds now: start ≤ now < end.
func (c *calendar) around(now Instant) (start, end Instant) {
	if s := c.last.Load(); s != nil && s.start <= now && now < s.end {
		return s.start, s.end
	}
	s := &span{start: c.start(now)}
	s.end = c.after(s.start)
	c.last.Store(s)
	return s.start, s.end
}

// WindowAt returns the length of the window that holds an instant, to report it to clients. A calendar period
// has its real length: a day has 23 hours when clocks go forward, February 28 days.
func (m *Meter) WindowAt(now Instant) time.Duration {
	if m.Kind != KindCalendar {
		return time.Duration(m.Window) * time.Microsecond
	}
	start, end := m.calendar.around(now)
	return end.Sub(start)
}

// PeriodStarts returns the starts of four consecutive calendar periods: the one before the period that holds
// now, that period, and the two after it. Redis does not know time zones, so the caller sends these and the
// script picks the period that holds the server's instant.
func (m *Meter) PeriodStarts(now Instant) [4]Instant {
	start, next := m.calendar.around(now)
	return [4]Instant{m.calendar.start(start - 1), start, next, m.calendar.after(next)}
}

func (c *calendar) start(now Instant) Instant {
	t := now.Time().In(c.loc)
	if c.period == Hour {
		// The label does not identify the hour: when clocks go back, two hours have the same one. Where
		// clocks change by half an hour, an hour begins at the change.
		start := t.Add(-pastHour(t))
		if pastHour(start) != 0 {
			start, _ = t.ZoneBounds()
		}
		return InstantOf(start)
	}
	year, month, day := t.Date()
	switch c.period {
	case Week:
		day -= (int(t.Weekday()) + 6) % 7
	case Month:
		day = 1
	case Year:
		month, day = time.January, 1
	}
	start := InstantOf(c.midnight(year, month, day))
	if next := c.after(start); next <= now {
		return next // clocks went back over midnight: the new period continues under the old date
	}
	return start
}

// after returns the start of the period that follows the one that begins at start.
func (c *calendar) after(start Instant) Instant {
	if c.period == Hour {
		t := start.Time().In(c.loc)
		next := t.Add(time.Hour - pastHour(t))
		if pastHour(next) != 0 {
			_, next = t.ZoneBounds()
		}
		return InstantOf(next)
	}
	// Noon of the first day is always inside it, wherever midnight fell.
	t := start.Time().In(c.loc).Add(12 * time.Hour)
	year, month, day := t.Date()
	switch c.period {
	case Day:
		day++
	case Week:
		day += 7
	case Month:
		month++
	case Year:
		year++
	}
	return InstantOf(c.midnight(year, month, day))
}

func pastHour(t time.Time) time.Duration {
	return time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second + time.Duration(t.Nanosecond())
}

// midnight returns the first instant of a day. Where clocks skip midnight, that is the moment of the change;
// where they go back over midnight, it is the first of the two.
func (c *calendar) midnight(year int, month time.Month, day int) time.Time {
	t := time.Date(year, month, day, 0, 0, 0, 0, c.loc)
	want := time.Date(year, month, day, 12, 0, 0, 0, c.loc) // normalises day and month
	begin, end := t.ZoneBounds()
	if t.Day() != want.Day() && !end.IsZero() {
		return end
	}
	if !begin.IsZero() {
		_, offset := t.Zone()
		_, before := begin.Add(-1).Zone()
		if first := t.Add(time.Duration(offset-before) * time.Second); first.Before(begin) {
			return first
		}
	}
	return t
}
