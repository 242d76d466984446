package algorithm

import (
	"errors"
	"fmt"
	"time"
)

// PenaltyTerms say when a rule bans a client that keeps exceeding its limits, as an operator writes them.
// [PenaltyTerms.Compile] checks them and compiles them into a [Penalty].
type PenaltyTerms struct {
	After        int64           // strikes that lead to a ban
	Within       time.Duration   // counted from the first strike
	Bans         []time.Duration // the first, the second, …; the last one repeats
	ForgiveAfter time.Duration   // time after the last strike or the end of the ban when all is forgotten
}

// Bounds of penalty terms. They allow strikes, level and the longest ban to share 64 bits.
const (
	MaxStrikes = 10_000
	MaxBans    = 15
)

// A Penalty decides strikes and bans. It is immutable. It has one [PenaltyState] per subject, of
// [KindPenalty].
type Penalty struct {
	terms PenaltyTerms

	After, Within, Forgive int64   // the times in µs
	Bans                   []int64 // µs
}

// A PenaltyState is a series of strikes against a subject, or a ban, and the number of bans so far. The zero
// PenaltyState means "never seen".
type PenaltyState struct {
	At      Instant // the last strike, or the end of the ban
	Length  int64   // µs from the first strike of the series to the last, or of the ban
	Strikes int64   // of the series; a ban has none
	Bans    int64   // so far, until they are forgiven
	Banned  bool    // it is a ban, which may have ended
}

// A ban stores its length as well as its end, so that a wrong clock cannot make it longer than intended.

// Bit layout of strikes, bans and the ban flag.
const (
	strikeBits = 14
	banBits    = 4
	bannedBit  = 1 << (strikeBits + banBits)
)

// Packed returns strikes and bans as one integer of 19 bits. Stores keep it next to At and Length.
func (s PenaltyState) Packed() int64 {
	packed := s.Bans<<strikeBits | s.Strikes
	if s.Banned {
		packed |= bannedBit
	}
	return packed
}

// PenaltyStateOf decodes a state that a store keeps or returns as three integers.
func PenaltyStateOf(at Instant, length, packed int64) PenaltyState {
	return PenaltyState{
		At: at, Length: length,
		Strikes: packed & (1<<strikeBits - 1), Bans: packed >> strikeBits & (1<<banBits - 1), Banned: packed&bannedBit != 0,
	}
}

// Compile checks the terms and reports all errors at once.
func (p PenaltyTerms) Compile() (*Penalty, error) {
	var problems []error
	fail := func(field string, value any, format string, args ...any) {
		problems = append(problems, fieldError(field, value, format, args...))
	}
	span := func(field string, d time.Duration) {
		if d < MinWindow || d > MaxWindow || d%time.Microsecond != 0 {
			fail(field, d, "must be from %v to %v in whole microseconds", MinWindow, MaxWindow)
		}
	}
	if p.After < 1 || p.After > MaxStrikes {
		fail("after", p.After, "must be from 1 to %d strikes", MaxStrikes)
	}
	span("within", p.Within)
	span("forgive_after", p.ForgiveAfter)
	if len(p.Bans) < 1 || len(p.Bans) > MaxBans {
		fail("bans", p.Bans, "must be a list of 1 to %d durations, for example [1m 5m 1h]", MaxBans)
	}
	for i, ban := range p.Bans {
		span(fmt.Sprintf("bans[%d]", i), ban)
		if i > 0 && ban < p.Bans[i-1] {
			fail(fmt.Sprintf("bans[%d]", i), ban, "must not be shorter than the one before, %v", p.Bans[i-1])
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("%w penalty: %w", ErrInvalid, errors.Join(problems...))
	}
	c := &Penalty{terms: p, After: p.After, Within: p.Within.Microseconds(), Forgive: p.ForgiveAfter.Microseconds()}
	for _, ban := range p.Bans {
		c.Bans = append(c.Bans, ban.Microseconds())
	}
	return c, nil
}

// Terms returns the terms that were compiled.
func (p *Penalty) Terms() PenaltyTerms { return p.terms }

// Weigh brings the state up to now and reports whether the subject is banned. repaired means that a wrong
// clock had written it: the store keeps the repair even though the request is denied.
func (p *Penalty) Weigh(s PenaltyState, now Instant) (_ PenaltyState, isBanned, repaired bool) {
	if s.At+Instant(p.Forgive) <= now {
		return PenaltyState{}, false, false
	}
	reach := p.Within
	if s.Banned {
		reach = s.Length
	}
	if _, wrong := ahead(s.At, now, reach); wrong {
		repaired = true
		s.At = now
		if s.Banned {
			s.At = now + Instant(s.Length)
		}
	}
	return s, s.Banned && s.At > now, repaired
}

// Strike counts a strike against a subject that Weigh found not banned. The strike may ban it.
func (p *Penalty) Strike(s PenaltyState, now Instant) PenaltyState {
	at := max(now, s.At)
	strikes, age := s.Strikes, int64(at-s.At)+s.Length
	if strikes == 0 || age >= p.Within { // the series is over, or ended in a ban
		strikes, age = 0, 0
	}
	if strikes++; strikes < p.After {
		return PenaltyState{At: at, Length: age, Strikes: strikes, Bans: s.Bans}
	}
	last := int64(len(p.Bans) - 1)
	return p.Ban(PenaltyState{Bans: min(s.Bans+1, last+1)}, now, p.Bans[min(s.Bans, last)])
}

// StrikeUnlessBanned brings the state up to now and counts a strike, unless the subject is banned: then the
// state is as it was and struck is false. until is the end of the ban; 0 if the subject is not banned.
func (p *Penalty) StrikeUnlessBanned(s PenaltyState, now Instant) (_ PenaltyState, until Instant, struck bool) {
	current, isBanned, _ := p.Weigh(s, now)
	if isBanned {
		return s, current.At, false
	}
	current = p.Strike(current, now)
	return current, p.Standing(current, now).BannedUntil, true
}

// Ban bans for length µs from now on, replacing an earlier ban. It keeps the number of bans.
func (p *Penalty) Ban(s PenaltyState, now Instant, length int64) PenaltyState {
	return PenaltyState{At: now + Instant(length), Length: length, Bans: s.Bans, Banned: true}
}

// Impose bans manually for the given time from now on; a length of 0 lifts a ban.
func (p *Penalty) Impose(s PenaltyState, now Instant, length time.Duration) PenaltyState {
	s, _, _ = p.Weigh(s, now)
	if length == 0 {
		return p.Lift(s, now)
	}
	return p.Ban(s, now, length.Microseconds())
}

// Lift ends a ban and clears the strikes. The number of bans stays until it is forgiven.
func (p *Penalty) Lift(s PenaltyState, now Instant) PenaltyState {
	return PenaltyState{At: now, Bans: s.Bans}
}

// A PenaltyStatus is what a penalty's state means for a subject at an instant.
type PenaltyStatus struct {
	Strikes     int64   // of the current series
	Bans        int64   // so far, until they are forgiven
	BannedUntil Instant // 0: not banned
}

// Standing interprets a state that Weigh brought up to now.
func (p *Penalty) Standing(s PenaltyState, now Instant) PenaltyStatus {
	standing := PenaltyStatus{Strikes: s.Strikes, Bans: s.Bans}
	if int64(now-s.At)+s.Length >= p.Within {
		standing.Strikes = 0 // the series has ended
	}
	if s.Banned && s.At > now {
		standing.BannedUntil = s.At
	}
	return standing
}
