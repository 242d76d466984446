package algorithm

import (
	"fmt"
	"testing"
	"time"
	_ "time/tzdata" // zones must not depend on what the machine has installed
)

func zoneNamed(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

var periods = []Period{Hour, Day, Week, Month, Year}

// labelOf is the local name of the period of t. Two hours that have the same name because clocks go back
// differ in their offset.
func labelOf(p Period, t time.Time) string {
	switch p {
	case Hour:
		return t.Format("2006-01-02 15 -0700")
	case Day:
		return t.Format("2006-01-02")
	case Week:
		year, week := t.ISOWeek() // begins on Monday
		return fmt.Sprint(year, " week ", week)
	case Month:
		return t.Format("2006-01")
	}
	return t.Format("2006")
}

// TestCalendarScan compares with a naive algorithm: step through the years by quarters of an hour and find
// where the name of the period changes. No clock of these zones changes in between.
func TestCalendarScan(t *testing.T) {
	for _, test := range []struct {
		zone       string
		from, till int
		why        string
	}{
		{"UTC", 2023, 2025, "a leap year"},
		{"Europe/Berlin", 2024, 2025, "an hour skipped, an hour twice"},
		{"America/Sao_Paulo", 2018, 2019, "midnight skipped on 2018-11-04"},
		{"Asia/Beirut", 2022, 2023, "midnight skipped, and clocks that go back at midnight"},
		{"Africa/Cairo", 2014, 2014, "four changes in a year, at midnight"},
		{"Africa/Cairo", 2023, 2024, "clocks that go back at midnight"},
		{"Australia/Lord_Howe", 2024, 2025, "changes by half an hour"},
		{"Pacific/Apia", 2011, 2012, "2011-12-30 did not happen"},
		{"Asia/Amman", 2021, 2022, "midnight skipped, midnight twice"},
		{"America/Havana", 2023, 2024, "midnight skipped, midnight twice, west of Greenwich"},
		{"Asia/Gaza", 2004, 2004, "a month whose first midnight comes twice"},
		{"Asia/Pyongyang", 2015, 2018, "half an hour back, and later forth"},
		{"Asia/Kathmandu", 1985, 1986, "a quarter of an hour on the first of January"},
		{"Atlantic/Azores", 2024, 2025, "midnight twice at an offset of 0"},
	} {
		t.Run(test.zone+": "+test.why, func(t *testing.T) {
			loc := zoneNamed(t, test.zone)
			for _, p := range periods {
				m := compile(t, Limit{Algorithm: FixedWindow, Count: 1, Period: p, Location: loc})
				scanCalendar(t, m, loc, test.from, test.till)
			}
		})
	}
}

func scanCalendar(t *testing.T, m *Meter, loc *time.Location, from, till int) {
	const step = 15 * time.Minute
	p := m.Limit().Period
	begin := time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC)
	var starts []Instant // where the name changes; the start of the first period is not found
	label := labelOf(p, begin.In(loc))
	for at := begin; at.Year() <= till; at = at.Add(step) {
		if l := labelOf(p, at.In(loc)); l != label {
			label = l
			starts = append(starts, InstantOf(at))
		}
	}
	if len(starts) < till-from {
		t.Fatalf("%v: only %d periods seen", m, len(starts))
	}
	for i := 1; i < len(starts); i++ {
		start, end := starts[i-1], starts[i]
		for _, now := range []Instant{start, start + 1, (start + end) / 2, end - 1, start + (end-start)/3} {
			if gotStart, gotEnd := m.calendar.around(now); gotStart != start || gotEnd != end {
				t.Fatalf("%v: %v is in %v – %v, want %v – %v", m, now.Time().In(loc), gotStart.Time().In(loc), gotEnd.Time().In(loc), start.Time().In(loc), end.Time().In(loc))
			}
		}
		if length := (end - start).Sub(0); length > longest(p) {
			t.Errorf("%v: one lasts %v, longer than %v", m, length, longest(p))
		}
		if i >= 2 && i+1 < len(starts) {
			want := [4]Instant(starts[i-2 : i+2])
			if got := m.PeriodStarts(start); got != want {
				t.Errorf("%v: PeriodStarts(%d) = %v, want %v", m, start, got, want)
			}
			if got := m.PeriodStarts(end - 1); got != want {
				t.Errorf("%v: PeriodStarts(%d) = %v, want %v", m, end-1, got, want)
			}
		}
		if p == Week && start.Time().In(loc).Weekday() != time.Monday {
			t.Errorf("%v: a week starts on %v", m, start.Time().In(loc))
		}
	}
}

// TestCalendarContract checks the calendar around every change of clocks since 1971, in zones where names of
// days or hours run backwards: every instant is in exactly one period, and one ends where the next starts.
func TestCalendarContract(t *testing.T) {
	for _, zone := range []string{
		"America/St_Johns",   // changed at 00:01, back into the day before
		"Antarctica/Casey",   // three hours back over midnight
		"Antarctica/Vostok",  // two hours back at the start of a week
		"Africa/Monrovia",    // by 44 minutes and 30 seconds
		"America/Caracas",    // by half an hour
		"Asia/Colombo",       // half an hour back at half past midnight
		"Asia/Jerusalem",     // midnight twice on a Monday
		"Europe/Rome",        // midnight twice on the first of a month
		"Pacific/Kwajalein",  // skipped a day
		"Pacific/Kiritimati", // skipped a day at the turn of a year
		"Australia/Lord_Howe",
	} {
		loc := zoneNamed(t, zone)
		for _, p := range periods {
			c := newCalendar(p, loc)
			for _, change := range zoneChanges(loc) {
				checkContract(t, c, change)
			}
		}
	}
}

func zoneChanges(loc *time.Location) (changes []time.Time) {
	at := time.Date(1971, 1, 1, 0, 0, 0, 0, loc)
	for {
		_, at = at.ZoneBounds()
		if at.IsZero() || at.Year() > 2036 {
			return changes
		}
		changes = append(changes, at)
	}
}

func checkContract(t *testing.T, c *calendar, change time.Time) {
	t.Helper()
	end := Instant(0) // of the period before
	for off := -25 * time.Hour; off <= 25*time.Hour; off += 10 * time.Minute {
		for _, now := range []Instant{InstantOf(change.Add(off)) - 1, InstantOf(change.Add(off))} {
			start, next := c.start(now), c.after(c.start(now))
			if start > now || next <= now {
				t.Fatalf("%v in %v: %d is said to be in [%d, %d), around the change at %v", c.period, c.loc, now, start, next, change)
			}
			for end != 0 && end < start { // a period shorter than our steps
				end = c.after(end)
			}
			if end != 0 && end != start && end != next {
				t.Fatalf("%v in %v: one ends at %d, the next is [%d, %d), around the change at %v", c.period, c.loc, end, start, next, change)
			}
			if c.start(next) != next || c.start(next-1) != start {
				t.Fatalf("%v in %v: %d does not divide two, around the change at %v", c.period, c.loc, next, change)
			}
			end = next
		}
	}
}

// The cached period must not answer for its neighbours.
func TestCalendarAroundBoundaries(t *testing.T) {
	c := newCalendar(Day, nil)
	day := Instant(24 * time.Hour / time.Microsecond)
	for _, now := range []Instant{epoch, epoch - 1, epoch, epoch + day - 1, epoch + day, epoch + 5*day, epoch} {
		want := now - now%day
		if start, end := c.around(now); start != want || end != want+day {
			t.Errorf("around(%d) = [%d, %d), want [%d, %d)", now, start, end, want, want+day)
		}
	}
}

// The window that clients see is the length of the current period, not an upper bound.
func TestWindowAt(t *testing.T) {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	for _, c := range []struct {
		limit Limit
		at    time.Time
		want  time.Duration
	}{
		{Limit{Period: Hour}, time.Date(2026, 7, 1, 10, 30, 0, 0, time.UTC), time.Hour},
		{Limit{Period: Day}, time.Date(2026, 7, 1, 10, 30, 0, 0, time.UTC), day},
		{Limit{Period: Day, Location: newYork}, time.Date(2026, 3, 8, 10, 0, 0, 0, newYork), 23 * time.Hour},
		{Limit{Period: Day, Location: newYork}, time.Date(2026, 11, 1, 10, 0, 0, 0, newYork), 25 * time.Hour},
		{Limit{Period: Week}, time.Date(2026, 7, 1, 10, 30, 0, 0, time.UTC), 7 * day},
		{Limit{Period: Week, Location: newYork}, time.Date(2026, 3, 6, 0, 0, 0, 0, newYork), 7*day - time.Hour},
		{Limit{Period: Month}, time.Date(2026, 2, 28, 23, 59, 0, 0, time.UTC), 28 * day},
		{Limit{Period: Month}, time.Date(2028, 2, 1, 0, 0, 0, 0, time.UTC), 29 * day},
		{Limit{Period: Month}, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), 31 * day},
		{Limit{Period: Year}, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), 365 * day},
		{Limit{Period: Year}, time.Date(2028, 3, 1, 0, 0, 0, 0, time.UTC), 366 * day},
		{Limit{Window: time.Minute}, time.Date(2028, 3, 1, 0, 0, 0, 0, time.UTC), time.Minute},
	} {
		c.limit.Algorithm, c.limit.Count = FixedWindow, 2
		if got := c.limit.MustCompile().WindowAt(InstantOf(c.at)); got != c.want {
			t.Errorf("%v at %v: %v, want %v", c.limit, c.at, got, c.want)
		}
	}
}
