package loadgen

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/penstock-io/penstock"
)

// A Limit is the limit of each key.
type Limit struct {
	Algorithm penstock.Algorithm `json:"algorithm"`
	Count     int64              `json:"count"`
	Window    time.Duration      `json:"window_ns"`
	Burst     int64              `json:"burst,omitempty"` // of a token bucket
}

func (l *Limit) terms() penstock.Limit {
	return penstock.Limit{Algorithm: l.Algorithm, Count: l.Count, Window: l.Window, Burst: l.Burst}
}

func (l *Limit) String() string { return l.terms().String() }

// An OverAdmission is the result of checking for requests allowed beyond the limit.
type OverAdmission struct {
	Limit   *Limit `json:"limit"`     // nil: not checked
	Checked int64  `json:"checked"`   // allowed requests
	Partly  bool   `json:"partly"`    // there were too many to check all of them
	Keys    int64  `json:"keys_over"` // with more than the limit in some window
	Most    int64  `json:"most"`      // certainly allowed for some key in a window
	Bound   int64  `json:"bound"`     // maximum there
}

// An admission is a request that was allowed. It was decided at some time between start and end.
type admission struct {
	key        int
	start, end time.Duration // since the run began
}

// skew is how far the target's clock may be off, for windows that are aligned to the clock.
const skew = 250 * time.Millisecond

// check looks for a window in which a key certainly got more than its limit. An admission counts only for windows
// that contain it from start to end, so a network delay is never mistaken for a violation.
//
// A log allows at most L in any window; a bucket its capacity and what flows in meanwhile. A fixed window and a
// sliding counter allow at most L in each window that is aligned to the clock. Calendar and other limits are not
// checked.
func check(all []admission, l *Limit, began time.Time, partly bool) OverAdmission {
	over := OverAdmission{}
	if l == nil || l.Count <= 0 || l.Window <= 0 {
		return over
	}
	most := func(of []admission) int64 { return mostTrailing(of, l.Window) }
	over.Bound = l.Count
	switch l.Algorithm {
	case penstock.SlidingWindowLog:
	case penstock.TokenBucket:
		over.Bound += cmp.Or(l.Burst, l.Count)
	case penstock.FixedWindow, penstock.SlidingWindowCounter:
		most = func(of []admission) int64 { return mostAligned(of, l.Window, began) }
	default:
		return over
	}
	over.Limit, over.Checked, over.Partly = l, int64(len(all)), partly
	slices.SortFunc(all, func(a, b admission) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.start, b.start)) })
	for len(all) > 0 {
		n := sort.Search(len(all), func(i int) bool { return all[i].key > all[0].key })
		m := most(all[:n])
		over.Most = max(over.Most, m)
		if m > over.Bound {
			over.Keys++
		}
		all = all[n:]
	}
	return over
}

// mostTrailing returns the most admissions that lie wholly within some period of the window's length. They are
// sorted by start, so such a period can begin at one of them.
func mostTrailing(of []admission, window time.Duration) (most int64) {
	for i := range of {
		end := of[i].start + window
		n := sort.Search(len(of), func(j int) bool { return of[j].start > end })
		if int64(n-i) <= most {
			continue
		}
		within := int64(0)
		for _, a := range of[i:n] {
			if a.end <= end {
				within++
			}
		}
		most = max(most, within)
	}
	return most
}

// mostAligned returns the most admissions that lie wholly within some aligned window, and far enough from its
// ends that the target's clock cannot have been in another one.
func mostAligned(of []admission, window time.Duration, began time.Time) (most int64) {
	counts := map[int64]int64{}
	for _, a := range of {
		first := began.Add(a.start-skew).UnixNano() / int64(window)
		if last := began.Add(a.end+skew).UnixNano() / int64(window); first == last {
			counts[first]++
			most = max(most, counts[first])
		}
	}
	return most
}

func (o *OverAdmission) String() string {
	switch {
	case o.Limit == nil:
		return "Over-admission was not checked: the limit is not known. Name it with --limit, --window and --algorithm."
	case o.Keys > 0:
		return fmt.Sprintf("OVER-ADMISSION: %d keys were admitted more than %d in a window of %v; the most is %d.", o.Keys, o.Bound, o.Limit.Window, o.Most)
	}
	text := fmt.Sprintf("No over-admission: at most %d of %d in any window, by %v, in %d admissions.", o.Most, o.Bound, o.Limit, o.Checked)
	if o.Partly {
		text += " Later ones were not checked."
	}
	return text
}
