package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
)

// A span is a part of a load's time.
type span struct{ from, to time.Duration }

func (s span) has(d time.Duration) bool { return s.from <= d && d < s.to }

// figures are the effects of a fault on clients.
type figures struct {
	fault string
	goal  time.Duration // of p99

	decisions, lost, errors, retried int

	falseDenials int     // of requests that had to pass
	over, bound  int     // allowed beyond the limits of greedy clients, and the most that may be
	mistakes     []error // each of the above that may not be, and further ones

	held holding // by one node, at most

	lasted        time.Duration
	exact         float64 // the share of answers during the fault
	p50, p99, max time.Duration
	p999          time.Duration
	late          time.Duration // p99 of the delay between due time and sending: this machine's share of the latencies
	again         time.Duration // from the end of the fault until most answers were exact again, to the tenth of a second
}

// judge checks every answer.
func judge(answers []*answer, fault span, most bound) *figures {
	f := &figures{decisions: len(answers), lasted: fault.to - fault.from}
	f.countFailures(answers)
	f.countAdmitted(answers, fault, most)
	f.measure(answers, fault)
	return f
}

func (f *figures) blame(format string, args ...any) {
	const most = 20
	if len(f.mistakes) < most {
		f.mistakes = append(f.mistakes, fmt.Errorf(format, args...))
	}
}

func (f *figures) countFailures(answers []*answer) {
	for _, a := range answers {
		if a.retried {
			f.retried++
		}
		switch {
		case a.err == nil:
		case errors.Is(a.err, context.DeadlineExceeded):
			f.lost++
			f.blame("lost: %v, %v after the beginning: %w", a.caller, a.due, a.err)
		default:
			f.errors++
			f.blame("error: %v, %v after the beginning: %w", a.caller, a.due, a.err)
		}
	}
}

// countAdmitted compares what passed with what may.
func (f *figures) countAdmitted(answers []*answer, fault span, most bound) {
	known := learn(answers, fault)
	sent, admitted := map[caller]int{}, map[caller]int{}
	charged := map[caller]int{} // denied requests that Redis may have charged anyway
	for _, a := range answers {
		if a.err != nil {
			continue
		}
		sent[a.caller]++
		switch {
		case a.allowed:
			admitted[a.caller]++
		case a.kind.tame:
			f.falseDenials++
			f.blame("false denial: %v, %v after the beginning, call %d by quality %v", a.caller, a.due, sent[a.caller], a.quality)
		case most.unheard && a.quality == penstock.QualityLocal:
			charged[a.caller]++
		}
	}
	for c, calls := range sent {
		passed := admitted[c]
		if c.kind.tame {
			continue
		}
		may := most.of(c.kind, known[c])
		f.over += max(0, passed-c.kind.limit)
		f.bound += max(0, min(calls, may)-c.kind.limit)
		if passed > may {
			f.blame("too much: %d calls of %v passed, at most %d may, with a limit of %d and what nodes knew: %+v", passed, c, may, c.kind.limit, known[c])
		}
		// Unspent permits of a lease are lost, and so is an unspent part of a limit that is divided.
		if least := min(calls, c.kind.limit-charged[c]); passed < least && !c.kind.leased && !c.kind.divided {
			f.falseDenials += least - passed
			f.blame("false denial: %d of %d calls of %v passed, with a limit of %d", passed, calls, c, c.kind.limit)
		}
	}
}

// countHoldings compares what nodes held with what they may.
func (f *figures) countHoldings(all []heldPermits) {
	for i := range all {
		f.held = f.held.max(all[i].most)
		for _, err := range all[i].mistakes() {
			f.blame("%w", err)
		}
	}
}

// tick is the resolution of when answers were exact again.
const tick = 100 * time.Millisecond

func (f *figures) measure(answers []*answer, fault span) {
	felt := span{fault.from, max(fault.to, fault.from+run.lasting)} // one that lasts but a moment too
	var took, late []time.Duration
	exact := 0
	all, bad := map[int]int{}, map[int]int{} // by tick since the end of the fault
	for _, a := range answers {
		if felt.has(a.due) {
			took, late = append(took, a.took), append(late, a.late)
			if a.exact() {
				exact++
			}
		}
		if a.due >= fault.to {
			all[int((a.due-fault.to)/tick)]++
			if !a.exact() {
				bad[int((a.due-fault.to)/tick)]++
			}
		}
	}
	for i, n := range bad {
		if 2*n >= all[i] {
			f.again = max(f.again, time.Duration(i+1)*tick)
		}
	}
	if len(took) == 0 {
		return
	}
	f.p50, f.p99, f.p999, f.max = quantile(took, 0.5), quantile(took, 0.99), quantile(took, 0.999), slices.Max(took)
	f.late = quantile(late, 0.99)
	f.exact = float64(exact) / float64(len(took))
}

func quantile(all []time.Duration, part float64) time.Duration {
	slices.Sort(all)
	return all[min(len(all)-1, int(part*float64(len(all))))]
}

// check fails the test for every error.
func (f *figures) check(t *testing.T) {
	t.Helper()
	for _, err := range f.mistakes {
		t.Error(err)
	}
}
