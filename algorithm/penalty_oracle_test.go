package algorithm

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// penaltyOracle remembers every strike since the last ban, and counts them again each time.
type penaltyOracle struct {
	terms   PenaltyTerms
	strikes []Instant
	bans    int
	end     Instant // of the last ban
	length  time.Duration
	last    Instant // strike, end of a ban, or its lifting
}

// at returns what is not forgiven; only a later operation makes it forgotten.
func (o *penaltyOracle) at(now Instant) penaltyOracle {
	if o.end > now.Add(o.length) {
		o.ban(now, o.length) // no ban is longer than intended
	}
	if o.last.Add(o.terms.ForgiveAfter) <= now {
		return penaltyOracle{terms: o.terms}
	}
	return *o
}

func (o *penaltyOracle) ban(now Instant, length time.Duration) {
	o.strikes, o.end, o.length, o.last = nil, now.Add(length), length, now.Add(length)
}

func (o *penaltyOracle) lift(now Instant) {
	o.strikes, o.end, o.length, o.last = nil, 0, 0, now
}

// series returns how many strikes the current series has.
func (o *penaltyOracle) series() (n int64) {
	var first Instant
	for _, at := range o.strikes {
		if n == 0 || at.Sub(first) >= o.terms.Within {
			first, n = at, 0
		}
		n++
	}
	return n
}

func (o *penaltyOracle) strike(now Instant) {
	if o.end > now {
		return
	}
	o.last, o.end = max(now, o.last), 0 // a ban that was seen to have ended does not come back
	o.strikes = append(o.strikes, o.last)
	if o.series() == o.terms.After {
		o.ban(now, o.terms.Bans[min(o.bans, len(o.terms.Bans)-1)])
		o.bans = min(o.bans+1, len(o.terms.Bans))
	}
}

func drawPenalty(t *rapid.T) PenaltyTerms {
	short := func(name string) time.Duration {
		return time.Duration(rapid.IntRange(1000, 3000).Draw(t, name)) * time.Microsecond
	}
	p := PenaltyTerms{After: rapid.Int64Range(1, 4).Draw(t, "after"), Within: short("within"), ForgiveAfter: short("forgive")}
	for range rapid.IntRange(1, 4).Draw(t, "bans") {
		p.Bans = append(p.Bans, short("ban"))
	}
	slices.Sort(p.Bans)
	return p
}

func TestPenaltyOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms := drawPenalty(t)
		d, o := penaltyRecord{penalty: penalty(t, terms)}, penaltyOracle{terms: terms}
		now, latest := epoch, epoch
		for range 80 {
			now += Instant(rapid.SampledFrom([]int64{0, 1, 100, 500, 999, 1000, 3000, -1, -400}).Draw(t, "pause"))
			now = max(now, latest-900) // further back is a wrong clock
			latest = max(latest, now)
			what := rapid.SampledFrom([]string{"strike", "strike", "strike", "strike", "look", "ban", "lift"}).Draw(t, "what")
			if what != "look" {
				o = o.at(now)
			}
			switch what {
			case "strike":
				d.strike(now)
				o.strike(now)
			case "ban":
				d.byHand(now, terms.Within)
				o.ban(now, terms.Within)
			case "lift":
				d.byHand(now, 0)
				o.lift(now)
			}
			s, isBanned := d.look(now)
			want := o.at(now)
			if isBanned != (want.end > now) || isBanned && s.At != want.end || s.Strikes != want.series() || s.Bans != int64(want.bans) {
				t.Fatalf("%+v: %s at +%d: banned %v until +%d, %d strikes, %d bans; want until +%d, %d, %d", terms, what, now-epoch,
					isBanned, s.At-epoch, s.Strikes, s.Bans, want.end-epoch, want.series(), want.bans)
			}
		}
	})
}

// Whatever the clock does, a ban is one of the list, lasts no longer than that from any instant, and ends if
// the clock runs.
func TestNoClockMakesABanLonger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms := drawPenalty(t)
		d := penaltyRecord{penalty: penalty(t, terms)}
		now := epoch
		for range 60 {
			if rapid.IntRange(0, 9).Draw(t, "wrong") == 0 {
				now = Instant(rapid.Int64Range(1, int64(MaxInstant)).Draw(t, "now"))
			} else {
				now = min(MaxInstant, max(1, now+Instant(rapid.Int64Range(-3000, 3000).Draw(t, "pause"))))
			}
			d.strike(now)
			s, isBanned := d.look(now)
			if s.Strikes >= terms.After || s.Bans > int64(len(terms.Bans)) || s.Length < 0 {
				t.Fatalf("%+v: %+v", terms, s)
			}
			if !isBanned {
				continue
			}
			length := s.At.Sub(now)
			if length <= 0 || length.Microseconds() > s.Length || !slices.Contains(terms.Bans, time.Duration(s.Length)*time.Microsecond) {
				t.Fatalf("%+v: banned for %v: %+v", terms, length, s)
			}
			if _, still := d.look(now.Add(length)); still {
				t.Fatalf("%+v: %+v does not end", terms, s)
			}
			if _, still := d.look(now.Add(length) - 1); !still {
				t.Fatalf("%+v: %+v ends early", terms, s)
			}
		}
	})
}

// FuzzPenalty: no terms panic, and no state that a store may hold is read as more than it says.
func FuzzPenalty(f *testing.F) {
	f.Add(int64(3), int64(time.Minute), int64(time.Minute), int64(time.Hour), int64(24*time.Hour), int64(epoch), int64(60e6), int64(bannedBit|1<<strikeBits), int64(epoch))
	f.Add(int64(1), int64(time.Millisecond), int64(time.Millisecond), int64(time.Millisecond), int64(time.Millisecond), int64(MaxInstant), int64(1<<45-1), int64(1<<19-1), int64(1))
	f.Add(int64(MaxStrikes), int64(MaxWindow), int64(MaxWindow), int64(MaxWindow), int64(MaxWindow), int64(1), int64(5), int64(1<<18-1), int64(MaxInstant))
	f.Add(int64(-1), int64(1), int64(-5), int64(3), int64(0), int64(-1), int64(-1), int64(-1), int64(-1))
	f.Fuzz(func(t *testing.T, after, within, ban1, ban2, forgive, at, length, packed, clock int64) {
		p, err := PenaltyTerms{After: after, Within: time.Duration(within), Bans: []time.Duration{time.Duration(ban1), time.Duration(ban2)}, ForgiveAfter: time.Duration(forgive)}.Compile()
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%v is not ErrInvalid", err)
			}
			return
		}
		stored := PenaltyStateOf(Instant(at)&MaxInstant, length&(1<<45-1), packed&(1<<19-1))
		now := Instant(clock) & MaxInstant
		s, isBanned, _ := p.Weigh(stored, now)
		if again, sameBan, repaired := p.Weigh(s, now); again != s || sameBan != isBanned || repaired {
			t.Errorf("%+v at %d is %+v, and then %+v, repaired %v", stored, now, s, again, repaired)
		}
		if isBanned {
			if left := s.At - now; left <= 0 || int64(left) > stored.Length {
				t.Errorf("%+v at %d bans for another %d", stored, now, left)
			}
		} else if struck := p.Strike(s, now); struck.Strikes >= p.After || struck.Bans > max(2, s.Bans) || struck.Length < 0 {
			t.Errorf("a strike makes %+v of %+v", struck, s)
		} else if _, isBanned, repaired := p.Weigh(struck, now); isBanned != (struck.Strikes == 0) || repaired {
			t.Errorf("a strike makes %+v of %+v, banned %v, repaired %v", struck, s, isBanned, repaired)
		}
		if _, isBanned, _ := p.Weigh(p.Lift(s, now), now); isBanned {
			t.Errorf("%+v does not lift", s)
		}
	})
}
