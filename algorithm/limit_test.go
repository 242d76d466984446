package algorithm

import (
	"encoding"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/enum/enumtest"
)

func TestLimitString(t *testing.T) {
	for want, l := range map[string]Limit{
		"token_bucket 10/1s burst 20":              {Algorithm: TokenBucket, Count: 10, Window: time.Second, Burst: 20},
		"token_bucket 3/1m refill interval":        {Algorithm: TokenBucket, Count: 3, Window: time.Minute, Refill: Interval},
		"fixed_window 5/1m":                        {Algorithm: FixedWindow, Count: 5, Window: time.Minute},
		"fixed_window 5/month":                     {Algorithm: FixedWindow, Count: 5, Period: Month},
		"fixed_window 5/day Europe/Berlin":         {Algorithm: FixedWindow, Count: 5, Period: Day, Location: zoneNamed(t, "Europe/Berlin")},
		"sliding_window_log 3/10s count_denied":    {Algorithm: SlidingWindowLog, Count: 3, Window: 10 * time.Second, CountDenied: true},
		"fixed_window 5/1m count_all":              {Algorithm: FixedWindow, Count: 5, Window: time.Minute, CountAll: true},
		"sliding_window_counter 6/1h #2":           {Algorithm: SlidingWindowCounter, Count: 6, Window: time.Hour, Ordinal: 2},
		"leaky_bucket 4/1m queue 6":                {Algorithm: LeakyBucket, Count: 4, Window: time.Minute, Queue: 6},
		"leaky_bucket 4/1m queue 0":                {Algorithm: LeakyBucket, Count: 4, Window: time.Minute},
		"concurrency 8/30s":                        {Algorithm: Concurrency, Count: 8, Window: 30 * time.Second},
		"token_bucket 1/1s burst 2 overdraft 3 #4": {Algorithm: TokenBucket, Count: 1, Window: time.Second, Burst: 2, Overdraft: 3, Ordinal: 4},
		" 0/0s": {},
		"Algorithm(9) 1/Period(77) refill Refill(3)": {Algorithm: 9, Count: 1, Period: 77, Refill: 3},
	} {
		if got := l.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if m, err := l.Compile(); err == nil && (m.String() != want || m.Limit() != l || m.Algorithm() != l.Algorithm) {
			t.Errorf("the meter of %q calls itself %q", want, m)
		}
	}
}

func TestNamesReadBack(t *testing.T) {
	for a := FixedWindow; a <= Concurrency; a++ {
		var back Algorithm
		enumtest.ReadBack(t, a, &back)
		if back != a {
			t.Errorf("%v reads back as %v", a, back)
		}
	}
	for r := Continuous; r <= Interval; r++ {
		var back Refill = 99
		enumtest.ReadBack(t, r, &back)
		if back != r {
			t.Errorf("%v reads back as %v", r, back)
		}
	}
	for o := OverageDeny; o <= OverageDebt; o++ {
		var back Overage = 99
		enumtest.ReadBack(t, o, &back)
		if back != o {
			t.Errorf("%v reads back as %v", o, back)
		}
	}
	for p := Hour; p <= Year; p++ {
		var back Period
		enumtest.ReadBack(t, p, &back)
		if back != p {
			t.Errorf("%v reads back as %v", p, back)
		}
	}
}

func TestUnknownNames(t *testing.T) {
	a, r, p, o := TokenBucket, Interval, Week, OverageDebt
	for _, text := range []string{"", "x", "Token_Bucket", "token_bucket ", "fixed-window", "decade", "Continuous", "\xff", strings.Repeat("long", 1000)} {
		for kind, into := range map[string]encoding.TextUnmarshaler{"algorithm": &a, "refill": &r, "period": &p, "overage": &o} {
			err := into.UnmarshalText([]byte(text))
			if err == nil {
				t.Errorf("%s %.20q is accepted", kind, text)
			} else if msg := err.Error(); !strings.HasPrefix(msg, "unknown "+kind+" ") || len(msg) > 400 {
				t.Errorf("%s %.20q: %s", kind, text, msg)
			}
		}
	}
	if a != TokenBucket || r != Interval || p != Week || o != OverageDebt {
		t.Errorf("a name that was refused was stored: %v, %v, %v, %v", a, r, p, o)
	}
	if err := a.UnmarshalText([]byte("x")); !strings.Contains(err.Error(), "fixed_window, sliding_window_log, sliding_window_counter, token_bucket, leaky_bucket, concurrency") {
		t.Errorf("%q does not say what is known", err)
	}
}

// The numbers of kinds are part of what is sent to Redis.
func TestKinds(t *testing.T) {
	for i, l := range []Limit{
		{Algorithm: FixedWindow, Window: time.Minute},
		{Algorithm: FixedWindow, Period: Day},
		{Algorithm: SlidingWindowCounter, Window: time.Minute},
		{Algorithm: TokenBucket, Window: time.Minute},
		{Algorithm: TokenBucket, Window: time.Minute, Refill: Interval},
		{Algorithm: LeakyBucket, Window: time.Minute},
		{Algorithm: SlidingWindowLog, Window: time.Minute},
		{Algorithm: Concurrency, Window: time.Minute},
	} {
		l.Count = 1
		m := compile(t, l)
		fixed := l.Algorithm != SlidingWindowLog && l.Algorithm != Concurrency
		if m.Kind != Kind(i+1) || m.Kind.Fixed() != fixed {
			t.Errorf("%v is of kind %d, fixed size %v; want %d, %v", l, m.Kind, m.Kind.Fixed(), i+1, fixed)
		}
	}
}

// State belongs to its fingerprint: a change of how a state is read changes it, and a change of how much
// passes does not.
func TestFingerprint(t *testing.T) {
	berlin := zoneNamed(t, "Europe/Berlin")
	base := map[string]Limit{}
	for _, l := range []Limit{
		{Algorithm: FixedWindow, Count: 5, Window: time.Minute},
		{Algorithm: FixedWindow, Count: 5, Window: time.Hour},
		{Algorithm: FixedWindow, Count: 5, Window: MaxWindow, Ordinal: MaxOrdinal},
		{Algorithm: FixedWindow, Count: 5, Window: time.Minute, Ordinal: 1},
		{Algorithm: FixedWindow, Count: 5, Window: time.Minute, Ordinal: 2},
		{Algorithm: FixedWindow, Count: 5, Period: Hour},
		{Algorithm: FixedWindow, Count: 5, Period: Day},
		{Algorithm: FixedWindow, Count: 5, Period: Day, Ordinal: 1},
		{Algorithm: FixedWindow, Count: 5, Period: Day, Location: berlin},
		{Algorithm: FixedWindow, Count: 5, Period: Week, Location: berlin},
		{Algorithm: FixedWindow, Count: 5, Period: Year, Location: berlin},
		{Algorithm: SlidingWindowLog, Count: 5, Window: time.Minute},
		{Algorithm: SlidingWindowCounter, Count: 5, Window: time.Minute},
		{Algorithm: TokenBucket, Count: 5, Window: time.Minute},
		{Algorithm: TokenBucket, Count: 5, Window: time.Minute, Refill: Interval},
		{Algorithm: LeakyBucket, Count: 5, Window: time.Minute},
		{Algorithm: Concurrency, Count: 5, Window: time.Minute},
	} {
		base[l.String()] = l
		for _, scope := range []uint64{1, 1 << 44, 1<<45 - 1, 0x5eed_5eed_5eed_5eed} {
			l.Scope = scope
			base[fmt.Sprintf("%v in scope %x", l, scope)] = l
		}
	}
	seen := map[uint64]string{}
	for name, l := range base {
		f := compile(t, l).Fingerprint
		if other, ok := seen[f]; ok {
			t.Errorf("%s and %s share the fingerprint %x", name, other, f)
		}
		seen[f] = name
		if f == 0 || f >= 1<<56 {
			t.Errorf("%s: fingerprint %x is not of 56 bits", name, f)
		}
		changed := l
		changed.Count++
		switch l.Algorithm {
		case TokenBucket:
			changed.Burst = 99
		case LeakyBucket:
			changed.Queue = 99
		case FixedWindow, SlidingWindowCounter, SlidingWindowLog:
			changed.CountDenied = true
		}
		if got := compile(t, changed).Fingerprint; got != f {
			t.Errorf("%s: fingerprint %x, and %x as %v", name, f, got, changed)
		}
	}
	utc := Limit{Algorithm: FixedWindow, Count: 5, Period: Day, Location: time.UTC}
	if got, want := compile(t, utc).Fingerprint, compile(t, base["fixed_window 5/day"]).Fingerprint; got != want {
		t.Errorf("no zone is %x and UTC %x", want, got)
	}
}

// FuzzLimit: no limit panics, an accepted limit stays within every bound, and the maximum that an error
// suggests is accepted if nothing else is wrong.
func FuzzLimit(f *testing.F) {
	f.Add(uint8(1), int64(5), int64(time.Minute), uint8(0), false, int64(0), uint8(0), int64(0), false, uint8(0), int64(0), int64(1), int64(7))
	f.Add(uint8(1), int64(5), int64(0), uint8(4), true, int64(0), uint8(0), int64(0), true, uint8(3), int64(3), int64(2), int64(1<<52-1))
	f.Add(uint8(2), int64(MaxLog), int64(time.Hour), uint8(0), false, int64(0), uint8(0), int64(0), true, uint8(0), int64(5), int64(9), int64(-5))
	f.Add(uint8(3), int64(1e6), int64(24*time.Hour), uint8(0), false, int64(0), uint8(0), int64(0), true, uint8(0), int64(1000), int64(1e6), int64(3))
	f.Add(uint8(4), int64(MaxCount), int64(MinWindow), uint8(0), false, int64(1), uint8(0), int64(0), false, uint8(0), int64(0), int64(1), int64(0))
	f.Add(uint8(4), int64(600_000_000_000), int64(MaxWindow), uint8(0), false, int64(MaxCount), uint8(1), int64(0), false, uint8(0), int64(0), int64(1), int64(0))
	f.Add(uint8(5), int64(4), int64(time.Minute), uint8(0), false, int64(0), uint8(0), int64(6), false, uint8(0), int64(0), int64(3), int64(100))
	f.Add(uint8(6), int64(4), int64(time.Minute), uint8(0), false, int64(0), uint8(0), int64(0), false, uint8(31), int64(0), int64(3), int64(100))
	f.Add(uint8(9), int64(-4), int64(math.MinInt64), uint8(9), true, int64(-1), uint8(9), int64(-1), true, uint8(99), int64(-1), int64(-3), int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, algorithm uint8, count, window int64, period uint8, zone bool, burst int64, refill uint8, queue int64, countDenied bool, ordinal uint8, overdraft, cost, at int64) {
		l := Limit{Algorithm: Algorithm(algorithm), Count: count, Window: time.Duration(window), Period: Period(period), Burst: burst,
			Refill: Refill(refill), Queue: queue, CountDenied: countDenied, Ordinal: ordinal, Overdraft: overdraft}
		if zone {
			l.Location = time.UTC
		}
		m, err := l.Compile()
		if err != nil {
			if suggested, field, ok := heed(l, err); ok && len(fieldErrors(err)) == 1 && field != "window" {
				if l.Overdraft > 0 && field != "overdraft" { // it may not fit in addition to the maximum
					suggested, _, _ = heed(suggested, suggested.Validate())
				}
				if err := suggested.Validate(); err != nil {
					t.Errorf("%v: the suggested %v does not do: %v", l, suggested, err)
				}
			}
			return
		}
		if m.Full >= maxProduct || m.Most >= maxProduct || m.Capacity+m.Overdraft > MaxCount || m.Life <= 0 || m.Life > 2*MaxWindow.Microseconds() || CodeLife(LifeCode(m.Life)) < m.Life || m.Tick*m.Ticks != m.Window {
			t.Errorf("%v: numbers out of bounds: %+v", l, m.Constants)
		}
		now := Instant(uint64(at) % uint64(MaxInstant+1))
		fuzzCharge(t, m, now, int64(uint64(cost)%(MaxCount+1)))
	})
}

func fuzzCharge(t *testing.T, m *Meter, now Instant, cost int64) {
	b := &book{meter: m, maxDelay: AnyDelay}
	d := b.take(now, cost, 1)
	canEver := cost <= m.Capacity || m.Kind == KindLeases
	if d.Allowed != canEver || (d.RetryAfter == Never) == canEver {
		t.Errorf("%v: the first cost of %d: %+v", m, cost, d)
	}
	for _, later := range []Instant{now, now + 1, now + Instant(m.Window), now - 1, 0, MaxInstant} {
		if later < 0 {
			continue
		}
		d := b.take(min(later, MaxInstant), cost, 2)
		if d.Allowed == (d.RetryAfter != 0) || d.RetryAfter < Never || d.ResetAfter < 0 || d.Delay < 0 || d.Used < 0 || d.Remaining < 0 {
			t.Errorf("%v: a cost of %d at %d, then at %d: %+v", m, cost, now, later, d)
		}
		if m.Kind == KindLeaky || m.Kind == KindLeases {
			continue
		}
		d = b.overdraw(min(later, MaxInstant), cost)
		deep := d.Used > m.Capacity+m.Overdraft && !m.CountDenied
		if d.Allowed == (d.RetryAfter != 0) || d.RetryAfter < Never || d.ResetAfter < 0 || d.Used < 0 || deep || d.Receipt.Cost > cost {
			t.Errorf("%v: an overdrawing cost of %d at %d: %+v", m, cost, later, d)
		}
		if m.Returns() != nil {
			continue
		}
		for _, overage := range []Overage{OverageDeny, OverageAllow, OverageDebt} {
			if s := b.settle(min(later, MaxInstant), d.Receipt, cost, overage); s.Used < 0 || s.RetryAfter < Never || s.ResetAfter < 0 {
				t.Errorf("%v: %+v settled with %d, %v: %+v", m, d.Receipt, cost, overage, s)
			}
		}
	}
}
