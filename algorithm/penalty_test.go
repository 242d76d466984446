package algorithm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func penalty(t rapid.TB, p PenaltyTerms) *Penalty {
	t.Helper()
	c, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var threeStrikes = PenaltyTerms{After: 3, Within: time.Minute, Bans: []time.Duration{time.Minute, 5 * time.Minute, time.Hour}, ForgiveAfter: 24 * time.Hour}

func TestPenaltyTerms(t *testing.T) {
	many := make([]time.Duration, MaxBans+1)
	for i := range many {
		many[i] = time.Minute
	}
	const span = "must be from 1ms to 366d in whole microseconds"
	for _, test := range []struct {
		name   string
		change func(p *PenaltyTerms)
		want   []string // every error; none: the terms are valid
	}{
		{"sound", func(*PenaltyTerms) {}, nil},
		{"one strike", func(p *PenaltyTerms) { p.After = 1 }, nil},
		{"no strikes", func(p *PenaltyTerms) { p.After = 0 }, []string{"after 0: must be from 1 to 10000 strikes"}},
		{"fewer", func(p *PenaltyTerms) { p.After = -1 }, []string{"after -1: must be from 1 to 10000 strikes"}},
		{"most strikes", func(p *PenaltyTerms) { p.After = MaxStrikes }, nil},
		{"one more", func(p *PenaltyTerms) { p.After = MaxStrikes + 1 }, []string{"after 10001: must be from 1 to 10000 strikes"}},
		{"shortest", func(p *PenaltyTerms) { p.Within = MinWindow }, nil},
		{"shorter", func(p *PenaltyTerms) { p.Within = MinWindow - time.Microsecond }, []string{"within 999µs: " + span}},
		{"longest", func(p *PenaltyTerms) { p.Within = MaxWindow }, nil},
		{"longer", func(p *PenaltyTerms) { p.Within = MaxWindow + time.Microsecond }, []string{"within 366d1µs: " + span}},
		{"nanoseconds", func(p *PenaltyTerms) { p.Within = time.Second + 1 }, []string{"within 1.000000001s: " + span}},
		{"unforgiving", func(p *PenaltyTerms) { p.ForgiveAfter = 0 }, []string{"forgive_after 0s: " + span}},
		{"forgiving for longest", func(p *PenaltyTerms) { p.ForgiveAfter = MaxWindow }, nil},
		{"forgiving later", func(p *PenaltyTerms) { p.ForgiveAfter = MaxWindow + time.Second }, []string{"forgive_after 366d1s: " + span}},
		{"no bans", func(p *PenaltyTerms) { p.Bans = nil }, []string{"bans []: must be a list of 1 to 15 durations, for example [1m 5m 1h]"}},
		{"most bans", func(p *PenaltyTerms) { p.Bans = many[1:] }, nil},
		{"more bans", func(p *PenaltyTerms) { p.Bans = many }, []string{fmt.Sprintf("bans %v: must be a list of 1 to 15 durations, for example [1m 5m 1h]", many)}},
		{"equal bans", func(p *PenaltyTerms) { p.Bans = []time.Duration{time.Hour, time.Hour} }, nil},
		{"shrinking bans", func(p *PenaltyTerms) { p.Bans = []time.Duration{time.Hour, time.Minute} }, []string{"bans[1] 1m: must not be shorter than the one before, 1h"}},
		{"a ban too long", func(p *PenaltyTerms) { p.Bans = []time.Duration{time.Hour, MaxWindow + time.Hour} }, []string{"bans[1] 366d1h: " + span}},
		{"a ban too short", func(p *PenaltyTerms) { p.Bans = []time.Duration{time.Microsecond} }, []string{"bans[0] 1µs: " + span}},
		{"all at once", func(p *PenaltyTerms) { *p = PenaltyTerms{Bans: []time.Duration{time.Hour, 0}} }, []string{
			"after 0: must be from 1 to 10000 strikes", "within 0s: " + span, "forgive_after 0s: " + span,
			"bans[1] 0s: " + span, "bans[1] 0s: must not be shorter than the one before, 1h"}},
	} {
		terms := threeStrikes
		test.change(&terms)
		p, err := terms.Compile()
		if len(test.want) == 0 {
			if err != nil || cmp.Diff(terms, p.Terms()) != "" || len(p.Bans) != len(terms.Bans) {
				t.Errorf("%s: %+v, %v", test.name, p, err)
			}
			continue
		}
		want := "invalid penalty: " + strings.Join(test.want, "\n")
		if !errors.Is(err, ErrInvalid) || p != nil || err.Error() != want {
			t.Errorf("%s: %v, error\n%v\nwant one that is ErrInvalid\n%s", test.name, p, err, want)
		}
	}
}

// A penaltyRecord keeps one subject's penalty as a store does.
type penaltyRecord struct {
	penalty *Penalty
	state   PenaltyState
}

func (d *penaltyRecord) look(now Instant) (s PenaltyState, isBanned bool) {
	s, isBanned, repaired := d.penalty.Weigh(d.state, now)
	if repaired {
		d.state = s
	}
	return s, isBanned
}

// strike is a request that the limits deny.
func (d *penaltyRecord) strike(now Instant) {
	if s, isBanned := d.look(now); !isBanned {
		d.state = d.penalty.Strike(s, now)
	}
}

func (d *penaltyRecord) byHand(now Instant, length time.Duration) {
	d.state = d.penalty.Impose(d.state, now, length)
}

func TestPenalty(t *testing.T) {
	terms := func(change func(*PenaltyTerms)) PenaltyTerms {
		p := threeStrikes
		change(&p)
		return p
	}
	for _, test := range []struct {
		name  string
		terms PenaltyTerms
		steps string // at, strike|look|lift or how long to ban; banned until, strikes, bans
	}{
		{"the third strike bans, and each ban is longer", threeStrikes, `
			0s   strike -    1 0
			10s  strike -    2 0
			59.999999s strike 119.999999s 0 1
			100s strike 119.999999s 0 1     # banned: no strike
			119.999998s look 119.999999s 0 1
			119.999999s look - 0 1
			120s strike -    1 1
			121s strike -    2 1
			122s strike 422s 0 2
			422s strike -    1 2
			422s strike -    2 2
			422s strike 4022s 0 3
			4022s strike - 1 3
			4022s strike - 2 3
			4022s strike 7622s 0 3          # the last one again
		`},
		{"strikes count for a minute from the first", threeStrikes, `
			0s   strike - 1 0
			50s  strike - 2 0
			60s  strike - 1 0               # a new series
			70s  strike - 2 0
			119.999999s strike 179.999999s 0 1`},
		{"the first strike may be enough", terms(func(p *PenaltyTerms) { p.After = 1 }), `
			0s  strike 60s  0 1
			60s strike 360s 0 2`},
		{"all is forgiven a day after the last strike", threeStrikes, `
			0s          strike - 1 0
			1s          strike - 2 0
			86400.999999s look - 2 0
			86401s      look - 0 0
			86401s      strike - 1 0`},
		{"and a day after the ban's end", terms(func(p *PenaltyTerms) { p.After = 1 }), `
			0s            strike 60s 0 1
			86459.999999s look - 0 1
			86460s        look - 0 0
			86460s        strike 86520s 0 1`},
		{"a strike shortly before keeps the level", terms(func(p *PenaltyTerms) { p.After = 1 }), `
			0s            strike 60s 0 1
			86459.999999s strike 86759.999999s 0 2`},
		{"forgiven sooner than strikes are counted", terms(func(p *PenaltyTerms) { p.ForgiveAfter = time.Second }), `
			0s   strike - 1 0
			0.999999s strike - 2 0
			1.999999s strike - 1 0`},
		{"banned by hand, whatever was before; the level stays", threeStrikes, `
			0s  strike - 1 0
			1s  10s 11s 0 0
			2s  3h  10802s 0 0
			3s  1s  4s 0 0
			4s  strike - 1 0`},
		{"lifted: no strikes are left, the level stays until it is forgiven", terms(func(p *PenaltyTerms) { p.After = 2 }), `
			0s  strike - 1 0
			0s  strike 60s 0 1
			10s lift - 0 1
			10s strike - 1 1
			11s lift - 0 1
			11s strike - 1 1
			12s strike 312s 0 2
			20s lift - 0 2
			86419.999999s look - 0 2
			86420s look - 0 0`},
		{"lifted and never seen", threeStrikes, `
			0s lift - 0 0
			0s strike - 1 0`},
		{"clock steps back: strikes are dated at the last", threeStrikes, `
			60s strike - 1 0
			0s  strike - 2 0
			119s strike 179s 0 1`},
		{"a wrong clock wrote the strikes: they are dated now", threeStrikes, `
			600s strike - 1 0
			610s strike - 2 0
			549.999999s look - 2 0
			550s strike 610s 0 1`},
		{"and end a minute after the first", threeStrikes, `
			600s strike - 1 0
			610s strike - 2 0
			0s   look - 2 0
			49.999999s strike 109.999999s 0 1`},
		{"or not within it", threeStrikes, `
			600s strike - 1 0
			610s strike - 2 0
			0s   look - 2 0
			50s  strike - 1 0`},
		{"a wrong clock wrote the ban: it is no longer than it was meant", terms(func(p *PenaltyTerms) { p.After = 1 }), `
			86400s strike 86460s 0 1
			86399.999999s look 86459.999999s 0 1
			0s    look 60s 0 1
			59s   look 60s 0 1
			60s   look - 0 1`},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := penaltyRecord{penalty: penalty(t, test.terms)}
			for _, line := range strings.Split(test.steps, "\n") {
				text, _, _ := strings.Cut(line, "#")
				words := strings.Fields(text)
				if len(words) == 0 {
					continue
				}
				now := epoch.Add(duration(t, words[0]))
				switch words[1] {
				case "strike":
					d.strike(now)
				case "look":
				case "lift":
					d.byHand(now, 0)
				default:
					d.byHand(now, duration(t, words[1]))
				}
				s, isBanned := d.look(now)
				until := "-"
				if isBanned {
					until = strings.TrimSuffix(fmt.Sprintf("%.6f", s.At.Sub(epoch).Seconds()), ".000000") + "s"
				}
				if got := fmt.Sprint(until, " ", s.Strikes, " ", s.Bans); got != strings.Join(words[2:], " ") {
					t.Errorf("step %q: %s", line, got)
				}
			}
		})
	}
}

// An operator's change applies from the next strike on, and old states can still be read.
func TestPenaltyChanged(t *testing.T) {
	d := penaltyRecord{penalty: penalty(t, PenaltyTerms{After: MaxStrikes, Within: MaxWindow, Bans: slices.Repeat([]time.Duration{time.Hour}, MaxBans), ForgiveAfter: MaxWindow})}
	for range 5 {
		d.strike(epoch)
	}
	d.penalty = penalty(t, threeStrikes)
	if s, isBanned := d.look(epoch); isBanned || s.Strikes != 5 {
		t.Errorf("more strikes than now make a ban: %+v, banned %v before the next", s, isBanned)
	}
	if d.strike(epoch); d.state != (PenaltyState{At: epoch.Add(time.Minute), Length: 60e6, Bans: 1, Banned: true}) {
		t.Errorf("the next strike makes it %+v", d.state)
	}
	d.state = PenaltyState{At: epoch, Length: 60e6, Bans: MaxBans, Banned: true} // of a longer list
	for range 3 {
		d.strike(epoch)
	}
	if s, isBanned := d.look(epoch); !isBanned || s.Length != time.Hour.Microseconds() || s.Bans != 3 {
		t.Errorf("beyond a list that was made shorter: %+v, banned %v; want its last", s, isBanned)
	}
}

// The highest numbers fit next to each other.
func TestPenaltyPacks(t *testing.T) {
	p := penalty(t, PenaltyTerms{After: MaxStrikes, Within: MaxWindow, Bans: slices.Repeat([]time.Duration{MaxWindow}, MaxBans), ForgiveAfter: MaxWindow})
	d := penaltyRecord{penalty: p}
	for level := range int64(MaxBans + 2) {
		for i := range int64(MaxStrikes - 1) {
			d.strike(epoch)
			if d.state.Strikes != i+1 || d.state.Bans != min(level, MaxBans) || d.state.Banned || d.state.Packed() >= bannedBit {
				t.Fatalf("strike %d after %d bans: %+v", i+1, level, d.state)
			}
		}
		d.strike(epoch)
		if d.state.Length >= 1<<45 || d.state.Packed()>>19 != 0 || PenaltyStateOf(d.state.At, d.state.Length, d.state.Packed()) != d.state || d.state.Bans != min(level+1, MaxBans) || d.state.Strikes != 0 {
			t.Fatalf("ban %d does not fit into 45 and 19 bits: %+v", level+1, d.state)
		}
		d.state.At = epoch // it is over
	}
}
