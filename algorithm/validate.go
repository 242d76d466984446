package algorithm

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock-io/penstock/internal/spelling"
)

// ErrInvalid is wrapped by every error caused by invalid input: a limit or ticket that no store could decide,
// now or later.
var ErrInvalid = errors.New("invalid")

// A FieldError says what is wrong with one field of a limit and what is allowed.
type FieldError struct {
	Field   string // as an operator writes it: "window", "burst"
	Value   any
	Problem string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s %v: %s", e.Field, readable(e.Value), e.Problem)
}

// fieldError returns a FieldError whose problem is formatted with durations as people write them.
func fieldError(field string, value any, format string, args ...any) *FieldError {
	for i := range args {
		args[i] = readable(args[i])
	}
	return &FieldError{field, value, fmt.Sprintf(format, args...)}
}

func readable(value any) any {
	if d, ok := value.(time.Duration); ok {
		return spelling.Duration(d)
	}
	return value
}

// Validate reports all errors in the limit at once, as [FieldError]s joined under [ErrInvalid]. If it returns
// nil, Compile succeeds.
func (l Limit) Validate() error {
	c := limitCheck{limit: l}
	c.run()
	if len(c.problems) == 0 {
		return nil
	}
	return fmt.Errorf("%w limit %q: %w", ErrInvalid, l.String(), errors.Join(c.problems...))
}

type limitCheck struct {
	limit    Limit
	problems []error
}

func (c *limitCheck) fail(field string, value any, format string, args ...any) {
	c.problems = append(c.problems, fieldError(field, value, format, args...))
}

func (c *limitCheck) run() {
	l := c.limit
	if l.Algorithm < FixedWindow || l.Algorithm > Concurrency {
		c.fail("algorithm", l.Algorithm, "must be one of %v", algorithmNames[1:])
		return // nothing else can be checked
	}
	before := len(c.problems)
	c.count()
	c.window()
	c.onlyFor()
	if len(c.problems) == before {
		c.fits() // products need valid numbers
	}
}

func (c *limitCheck) count() {
	l := c.limit
	least, most := int64(1), int64(MaxCount)
	switch l.Algorithm {
	case FixedWindow, SlidingWindowCounter:
		least = 0 // blocks everything
	case SlidingWindowLog:
		least, most = 0, MaxLog
	case Concurrency:
		most = MaxLog
	}
	if l.Count < least || l.Count > most {
		c.fail("count", l.Count, "must be from %d to %d for %v", least, most, l.Algorithm)
	}
	if l.Burst < 0 || l.Burst > MaxCount {
		c.fail("burst", l.Burst, "must be from 1 to %d, or 0 for the count", int64(MaxCount))
	}
	if l.Queue < 0 || l.Queue >= MaxCount {
		c.fail("queue", l.Queue, "must be from 0 to %d", int64(MaxCount-1))
	}
	c.overdraft()
	if l.Ordinal > MaxOrdinal {
		c.fail("ordinal", l.Ordinal, "must be at most %d", MaxOrdinal)
	}
}

func (c *limitCheck) overdraft() {
	l := c.limit
	if l.Overdraft < 0 || l.Overdraft > MaxCount {
		c.fail("overdraft", l.Overdraft, "must be from 0 to %d", int64(MaxCount))
	} else if sum := l.capacity() + l.Overdraft; l.Overdraft > 0 && sum > MaxCount && l.capacity() <= MaxCount {
		c.fail("overdraft", l.Overdraft, "must be at most %d beside a capacity of %d", MaxCount-l.capacity(), l.capacity())
	}
}

func (c *limitCheck) window() {
	l := c.limit
	if l.Period > Year {
		c.fail("period", l.Period, "must be one of %v", periodNames[1:])
	}
	if l.Period != NoPeriod {
		if l.Window != 0 {
			c.fail("window", l.Window, "must not be given beside the period %v", l.Period)
		}
		return
	}
	if l.Window < MinWindow || l.Window > MaxWindow {
		c.fail("window", l.Window, "must be from %v to %v", MinWindow, MaxWindow)
		return
	}
	if unit := l.unit(); l.Window%unit != 0 {
		down := l.Window.Truncate(unit)
		c.fail("window", l.Window, "must be a multiple of %v at this length, for example %v", unit, down)
	}
}

func (c *limitCheck) onlyFor() {
	l := c.limit
	if l.Period != NoPeriod && l.Algorithm != FixedWindow {
		c.fail("period", l.Period, "needs fixed_window, not %v", l.Algorithm)
	}
	if l.Location != nil && l.Period == NoPeriod {
		c.fail("timezone", l.Location, "is only for calendar periods")
	}
	if l.Burst != 0 && l.Algorithm != TokenBucket {
		c.fail("burst", l.Burst, "is only for token_bucket, not %v", l.Algorithm)
	}
	if l.Refill > Interval {
		c.fail("refill", l.Refill, "must be one of %v", refillNames)
	} else if l.Refill != Continuous && l.Algorithm != TokenBucket {
		c.fail("refill", l.Refill, "is only for token_bucket, not %v", l.Algorithm)
	}
	if l.Queue != 0 && l.Algorithm != LeakyBucket {
		c.fail("queue", l.Queue, "is only for leaky_bucket, not %v", l.Algorithm)
	}
	if l.Overdraft != 0 && (l.Algorithm == LeakyBucket || l.Algorithm == Concurrency) {
		c.fail("overdraft", l.Overdraft, "has no meaning for %v: its calls are counted one by one as they come", l.Algorithm)
	}
	c.onlyForWindows()
}

// onlyForWindows checks the options that only window algorithms have.
func (c *limitCheck) onlyForWindows() {
	l := c.limit
	if l.CountAll && (l.Algorithm != FixedWindow || l.CountDenied || l.Overdraft != 0) {
		c.fail("count_all", l.CountAll, "needs fixed_window without count_denied and overdraft, not %v", l)
	}
	if l.CountDenied {
		switch l.Algorithm {
		case FixedWindow, SlidingWindowLog, SlidingWindowCounter:
		default:
			c.fail("count_denied", l.CountDenied, "is only for windows, not %v", l.Algorithm)
		}
	}
}

// fits rejects numbers that would not stay exact in a double, and buckets that take years to fill.
func (c *limitCheck) fits() {
	l := c.limit
	switch l.Algorithm {
	case SlidingWindowCounter:
		c.checkProduct("count", l.Count, l.Count, 0)
	case TokenBucket:
		field, value := "burst", l.Burst
		if value == 0 {
			field, value = "count", l.Count
		}
		if l.Refill == Continuous {
			c.checkProduct(field, value, l.capacity(), 0)
		}
		c.drain(field, value, 0)
	case LeakyBucket:
		c.checkProduct("queue", l.Queue, l.capacity(), 1)
		c.drain("queue", l.Queue, 1)
	}
}

// checkProduct checks capacity × window in ticks; extra is how much capacity exceeds the field.
func (c *limitCheck) checkProduct(field string, value, capacity, extra int64) {
	ticks := int64(c.limit.Window / c.limit.unit())
	if most := int64(maxProduct-1) / ticks; capacity > most {
		c.fail(field, value, "is too large to be exact over %v; at most %d", c.limit.Window, most-extra)
	} else if over := c.limit.Overdraft; capacity+over > most {
		c.fail("overdraft", over, "is too large to be exact over %v; at most %d", c.limit.Window, most-capacity)
	}
}

func (c *limitCheck) drain(field string, value, extra int64) {
	l := c.limit
	windows := int64(MaxWindow / l.Window) // whole windows of refill within the longest time kept
	most := int64(MaxCount)
	if windows <= MaxCount/l.Count {
		most = windows * l.Count
	}
	if l.capacity() > most {
		c.fail(field, value, "takes longer than %v to refill at %d per %v; at most %d", MaxWindow, l.Count, l.Window, most-extra)
	} else if l.capacity()+l.Overdraft > most {
		c.fail("overdraft", l.Overdraft, "takes longer than %v to refill at %d per %v; at most %d", MaxWindow, l.Count, l.Window, most-l.capacity())
	}
}

// capacity returns what can pass at once: L, B, Q+1 or N.
func (l Limit) capacity() int64 {
	switch {
	case l.Algorithm == TokenBucket && l.Burst != 0:
		return l.Burst
	case l.Algorithm == LeakyBucket:
		return l.Queue + 1
	}
	return l.Count
}

// unit returns the tick: the resolution in which levels are multiplied with time. It depends only on the
// window, so that changing the count never changes the unit of stored state.
func (l Limit) unit() time.Duration {
	switch l.Algorithm {
	case SlidingWindowCounter, TokenBucket, LeakyBucket:
		if l.Refill == Interval {
			return time.Microsecond
		}
	default:
		return time.Microsecond
	}
	return TickOf(l.Window)
}

// TickOf returns the unit in which buckets and sliding counters of a window measure time. They change at its multiples.
func TickOf(window time.Duration) time.Duration {
	switch {
	case window <= 10*time.Second:
		return time.Microsecond
	case window <= 10*time.Hour:
		return time.Millisecond
	}
	return time.Second
}
