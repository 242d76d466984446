package penstock

import (
	"errors"
	"fmt"
	"time"
)

// PenaltyTerms say when a rule bans a caller that keeps running into its limits, as an operator
// states them. [PenaltyTerms.Compile] checks and freezes them into a [Penalty].
type PenaltyTerms struct {
	After        int64           // strikes that make a ban
	Within       time.Duration   // counted from the first strike
	Bans         []time.Duration // the first, the second, …; the last one again for all that follow
	ForgiveAfter time.Duration   // all is forgotten so long after the last strike or the ban's end
}

// Bounds of penalty terms. They let strikes, level and the longest ban share 64 bits.
const (
	MaxStrikes = 10_000
	MaxBans    = 15
)

// A Penalty decides about strikes and bans. It is immutable. Its state is one [State] per
// subject, of [KindPenalty]:
//
//	          At                  A                          B
//	strikes   the last strike     since the first of them    level, strikes
//	ban       its end             its length                 banned, level
//
// The level is how many bans there were. The length stands beside the end so that no clock can
// make a ban longer than it was meant to be.
type Penalty struct {
	terms PenaltyTerms

	After, Within, Forgive int64   // the times in µs
	Bans                   []int64 // µs
}

const (
	strikeBits = 14
	levelBits  = 4
	banned     = 1 << (strikeBits + levelBits)
)

// Compile checks the terms; every mistake is reported at once.
func (p PenaltyTerms) Compile() (*Penalty, error) {
	var problems []error
	fail := func(field string, value any, format string, args ...any) {
		problems = append(problems, &FieldError{field, value, fmt.Sprintf(format, args...)})
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

// Terms returns what was compiled.
func (p *Penalty) Terms() PenaltyTerms { return p.terms }

// Weigh brings the state up to now and tells whether the subject is banned. repaired means that a
// wrong clock had written it: the store keeps that even though the call is denied.
func (p *Penalty) Weigh(s State, now Instant) (_ State, isBanned, repaired bool) {
	if s.At+Instant(p.Forgive) <= now {
		return State{}, false, false
	}
	reach := p.Within
	if s.B&banned != 0 {
		reach = s.A
	}
	if _, wrong := ahead(s.At, now, reach); wrong {
		repaired = true
		s.At = now
		if s.B&banned != 0 {
			s.At = now + Instant(s.A)
		}
	}
	return s, s.B&banned != 0 && s.At > now, repaired
}

// Strike counts a strike against a subject that Weigh found not to be banned, which may ban it.
func (p *Penalty) Strike(s State, now Instant) State {
	at := max(now, s.At)
	level, strikes, age := s.level(), s.strikes(), int64(at-s.At)+s.A
	if strikes == 0 || age >= p.Within { // the series is over, or ended in a ban
		strikes, age = 0, 0
	}
	if strikes++; strikes < p.After {
		return State{At: at, A: age, B: level<<strikeBits | strikes}
	}
	last := int64(len(p.Bans) - 1)
	return p.Ban(State{B: min(level+1, last+1) << strikeBits}, now, p.Bans[min(level, last)])
}

// Ban bans for so many µs from now on, whatever was before; the level stays.
func (p *Penalty) Ban(s State, now Instant, length int64) State {
	return State{At: now + Instant(length), A: length, B: banned | s.level()<<strikeBits}
}

// Impose bans by hand, for the given time from now on; a length of 0 lifts a ban.
func (p *Penalty) Impose(s State, now Instant, length time.Duration) State {
	s, _, _ = p.Weigh(s, now)
	if length == 0 {
		return p.Lift(s, now)
	}
	return p.Ban(s, now, length.Microseconds())
}

// Lift ends a ban and forgets the strikes; the level stays until it is forgiven.
func (p *Penalty) Lift(s State, now Instant) State {
	return State{At: now, B: s.level() << strikeBits}
}

// A Standing is what a penalty's state says of a subject at an instant.
type Standing struct {
	Strikes     int64   // of the series under way
	Bans        int64   // so far, until they are forgiven
	BannedUntil Instant // 0: not banned
}

// Standing reads a state that Weigh brought up to now.
func (p *Penalty) Standing(s State, now Instant) Standing {
	standing := Standing{Strikes: s.strikes(), Bans: s.level()}
	if int64(now-s.At)+s.A >= p.Within {
		standing.Strikes = 0 // the series is over
	}
	if s.B&banned != 0 && s.At > now {
		standing.BannedUntil = s.At
	}
	return standing
}

// level is how many bans a penalty's state remembers.
func (s State) level() int64 { return s.B >> strikeBits & (1<<levelBits - 1) }

// strikes of the series under way; a ban has none.
func (s State) strikes() int64 { return s.B & (1<<strikeBits - 1) }
