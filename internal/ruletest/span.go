package ruletest

import (
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

// A Span is a length of time, which may be 0s.
type Span time.Duration

// UnmarshalText reads 0s, 500ms, 1h30m, 2d.
func (s *Span) UnmarshalText(text []byte) error {
	length, err := rules.ParseDuration(string(text))
	*s = Span(length)
	return err
}

func (s Span) String() string { return showSpan(time.Duration(s)) }

// A Wait is a Span, or never.
type Wait time.Duration

// UnmarshalText reads what a Span does, or never.
func (w *Wait) UnmarshalText(text []byte) error {
	if string(text) == "never" {
		*w = Wait(penstock.Never)
		return nil
	}
	return (*Span)(w).UnmarshalText(text)
}

func (w Wait) String() string { return showSpan(time.Duration(w)) }

// A Moment is an offset from the start, or a date.
type Moment struct {
	Offset time.Duration
	Date   time.Time // zero: Offset
}

// UnmarshalText reads a Span, or a date with time and zone.
func (m *Moment) UnmarshalText(text []byte) error {
	if date, err := time.Parse(time.RFC3339, string(text)); err == nil {
		m.Date = date
		return nil
	}
	if len(text) > 4 && text[4] == '-' {
		return fmt.Errorf("%.40q is not a date with time and zone, for example 2026-01-31T09:00:00Z", text)
	}
	return (*Span)(&m.Offset).UnmarshalText(text)
}

// showSpan formats a duration in the syntax of fixtures: in whole milliseconds, rounded up as the API does.
func showSpan(d time.Duration) string {
	if d == penstock.Never {
		return "never"
	}
	rest := ceilMilliseconds(d)
	if rest == 0 {
		return "0s"
	}
	text := ""
	for _, u := range []struct {
		name   string
		length time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if n := rest / u.length; n > 0 {
			text += fmt.Sprintf("%d%s", n, u.name)
			rest -= n * u.length
		}
	}
	return text
}

func ceilMilliseconds(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}
