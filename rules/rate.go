package rules

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/spelling"
)

// A Rate is an amount per period. The period is a length of time or a calendar period.
type Rate struct {
	Count  int64
	Window time.Duration
	Period penstock.Period

	From string // where the count comes from, such as "claim: quota" or "tenant.requests | plan.requests"; "": it is Count
}

// A Duration is a length of time as people write it: 30s, 1h30m, 2d.
type Duration time.Duration

// Seconds are a Duration that may also be written as a bare number.
type Seconds time.Duration

// A Budget is a number, or a percentage of something.
type Budget struct {
	Count   int64
	Percent int64
}

type unit struct {
	name   string
	length time.Duration
}

// units are the time units, longest first. A duration is written with the first name of each length.
var units = []unit{
	{"w", 7 * day}, {"d", day}, {"h", time.Hour}, {"m", time.Minute}, {"min", time.Minute},
	{"s", time.Second}, {"ms", time.Millisecond},
}

var unitNames = []string{"ms", "s", "m", "min", "h", "d", "w"}

var periods = []string{"hour", "day", "week", "month", "year"}

// otherNames maps other names that people write for units to the units they mean.
var otherNames = map[string]string{
	"sec": "s", "secs": "s", "second": "s", "seconds": "s", "mins": "min", "minute": "min", "minutes": "min", "mn": "min",
	"hr": "h", "hrs": "h", "hours": "h", "days": "d", "weeks": "w", "wk": "w", "mon": "month", "months": "month", "mo": "month",
	"yr": "year", "y": "year", "years": "year", "msec": "ms", "millis": "ms", "millisecond": "ms", "milliseconds": "ms",
}

// unknownUnit returns the complaint about an unknown unit, at an offset into the text.
func unknownUnit(name string, offset int, inRate bool) *valueProblem {
	c := complain("unknown unit %.20s", name).in(offset)
	known := unitNames
	if inRate {
		known = slices.Concat(unitNames, periods)
	}
	meant := otherNames[strings.ToLower(name)]
	if meant == "" {
		meant = spelling.Closest(strings.ToLower(name), known)
	}
	if !slices.Contains(known, meant) {
		return c.suggest("must be one of %s", strings.Join(known, ", "))
	}
	return c.suggest("did you mean %s?", meant)
}

// parseRate reads N/[n]unit.
func parseRate(text string) (Rate, *valueProblem) {
	before, after, ok := strings.Cut(text, "/")
	if !ok {
		return Rate{}, complain("invalid rate %.40q", text).suggest("write how much per how long, as in 100/1m")
	}
	if before == "" {
		return Rate{}, complain("%.40q has no count", text).suggest("write for example 100%.20s", text)
	}
	count, from, c := parseRateCount(before)
	if c != nil {
		return Rate{}, c
	}
	offset := len([]rune(before)) + 1
	digits := leading(after, isDigit)
	name := after[len(digits):]
	if slices.Contains(periods, name) {
		if digits != "" {
			return Rate{}, complain("a calendar %s cannot be multiplied", name).in(offset).
				suggest("write %s/%s for the calendar %s, or a length of time as in %s/%s%s", before, name, name, before, digits, lengthLike(name))
		}
		var period penstock.Period
		if err := period.UnmarshalText([]byte(name)); err != nil {
			return Rate{}, complain("%v", err).in(offset)
		}
		return Rate{Count: count, From: from, Period: period}, nil
	}
	if digits == "" {
		after = "1" + after
		if name == "" {
			return Rate{}, complain("%.40q has no period", text).in(offset).suggest("write for example %s/1m", before)
		}
	}
	window, c := parseDuration(after, true)
	if c != nil {
		if c.offset += offset; digits == "" && c.offset > offset {
			c.offset--
		}
		return Rate{}, c
	}
	return Rate{Count: count, From: from, Window: window}, nil
}

// lengthLike returns a length of time close to a calendar period.
func lengthLike(period string) string {
	return map[string]string{"hour": "h", "day": "d", "week": "w", "month": "d", "year": "d"}[period]
}

// parseCount reads a count, 0 or more, such as 1_000_000.
func parseCount(text string) (int64, *valueProblem) {
	digits := strings.ReplaceAll(text, "_", "")
	if !isDigits(digits) || text[0] == '_' || text[len(text)-1] == '_' {
		return 0, complain("%.40q is not a whole number, 0 or more", text)
	}
	if len(digits) > 1 && digits[0] == '0' {
		return 0, complain("the number %.40s begins with 0", text).suggest("write it without")
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > algorithm.MaxCount {
		return 0, complain("the number %.40s is too large", text).suggest("at most %d", int64(algorithm.MaxCount))
	}
	return n, nil
}

// parseDuration reads a sequence of numbers with units. The offset of a complaint is into text.
func parseDuration(text string, inRate bool) (time.Duration, *valueProblem) {
	if text == "" {
		return 0, complain("the duration is empty").suggest("write for example 30s")
	}
	var sum time.Duration
	for at := 0; at < len(text); {
		digits := leading(text[at:], isDigit)
		if digits == "" {
			return 0, complain("invalid duration %.40q", text).in(runes(text[:at])).suggest("write a number and a unit, as in 30s or 1h30m")
		}
		name := leading(text[at+len(digits):], isLetter)
		end := at + len(digits) + len(name)
		if name == "" {
			return 0, badUnit(text, at, digits)
		}
		offset := runes(text[:at+len(digits)])
		i := slices.IndexFunc(units, func(u unit) bool { return u.name == name })
		if i < 0 && slices.Contains(periods, name) && !inRate {
			return 0, complain("%s is a calendar period, which only a rate can have", name).in(offset).suggest("write a length of time, as in 24h")
		}
		if i < 0 {
			return 0, unknownUnit(name, offset, inRate)
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n > int64((math.MaxInt64-sum)/units[i].length) {
			return 0, complain("the duration %.40s is too long", text).in(runes(text[:at])).suggest("at most %s", Duration(algorithm.MaxWindow))
		}
		sum += time.Duration(n) * units[i].length
		at = end
	}
	return sum, nil
}

// badUnit returns the complaint about text that follows digits and is not a unit.
func badUnit(text string, at int, digits string) *valueProblem {
	rest := text[at+len(digits):]
	switch {
	case rest == "":
		return complain("%.40s has no unit", text).in(runes(text)).suggest("write for example %.20ss", text)
	case rest[0] == '.' || rest[0] == ',':
		return complain("%.40s is not made of whole numbers", text).in(runes(text[:at])).suggest("write it in a smaller unit, as in 1h30m")
	}
	return complain("invalid duration %.40q", text).in(runes(text[:at+len(digits)])).suggest("write a number and a unit, as in 30s or 1h30m")
}

// leading returns the beginning of a text whose bytes are all of one kind.
func leading(s string, isKind func(byte) bool) string {
	i := 0
	for i < len(s) && isKind(s[i]) {
		i++
	}
	return s[:i]
}

func runes(s string) int { return len([]rune(s)) }

// String formats the rate so that parsing returns the same rate.
func (r Rate) String() string {
	if r.Period != penstock.NoPeriod {
		return fmt.Sprintf("%s/%v", r.countText(), r.Period)
	}
	return fmt.Sprintf("%s/%v", r.countText(), Duration(r.Window))
}

// String formats the duration in the longest unit that divides it.
func (d Duration) String() string {
	for _, u := range units {
		if time.Duration(d)%u.length == 0 && d != 0 {
			return strconv.FormatInt(int64(d)/int64(u.length), 10) + u.name
		}
	}
	return strconv.FormatInt(time.Duration(d).Milliseconds(), 10) + "ms"
}

func (s Seconds) String() string { return Duration(s).String() }

func (b Budget) String() string {
	if b.Percent != 0 {
		return strconv.FormatInt(b.Percent, 10) + "%"
	}
	return strconv.FormatInt(b.Count, 10)
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
