package traffic_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock/internal/traffic"
)

// beat is the interval of collection; few requests within one are certainly all kept.
const beat, few = 250 * time.Millisecond, 40

// Requests older than an hour are not counted, even for rules that always have requests.
func TestHourEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, document)
		for i, calls := range []int{3, 1, 1} {
			if i > 0 {
				time.Sleep(50 * time.Minute)
			}
			for range calls {
				n.call(t, "path=/search", "user=u1")
			}
			n.Totals()
		}
		s := n.Traffic.Stats(time.Hour)
		for _, r := range s.Rules {
			if got := r.Total.Allowed + r.Total.Shadow; got != 2 {
				t.Errorf("%s: %+v, want the two calls of the last hour", r.Rule, r.Total)
			}
		}
		if s.Total.Allowed != 2 || len(s.Rules) != 2 {
			t.Errorf("in all %+v of %d rules", s.Total, len(s.Rules))
		}
		if got := n.Recent(traffic.Filter{}, 10); len(got) != 2 {
			t.Errorf("%d recent requests, want 2", len(got))
		}
		time.Sleep(30 * time.Minute)
		n.Totals()
		time.Sleep(30*time.Minute + time.Second)
		if got := n.Recent(traffic.Filter{}, 10); len(got) != 0 {
			t.Errorf("%d calls of more than an hour ago", len(got))
		}
	})
}

// If there is no room for all requests, the most recent are kept.
func TestLastAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, document)
		const calls, room = 5000, 4096
		for i := range calls {
			n.call(t, "path=/elsewhere", fmt.Sprint("user=", i))
			time.Sleep(beat / few)
		}
		kept := n.Recent(traffic.Filter{}, calls)
		if len(kept) != room {
			t.Fatalf("%d are kept, want %d", len(kept), room)
		}
		for i := range kept[:room-few] { // the first of them came in one beat, in any order
			if got, want := kept[i].Attributes[1].Value, fmt.Sprint(calls-1-i); got != want {
				t.Fatalf("the call %d from the last is of %s, want %s", i, got, want)
			}
		}
	})
}

// A client that is denied often stays in the top, however many others are denied once.
func TestTopHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, document)
		for i := range 500 {
			for range 2 {
				n.call(t, "path=/login", fmt.Sprint("ip=once ", i))
				n.call(t, "path=/login", fmt.Sprint("ip=often ", i%3))
				time.Sleep(beat / (few / 2))
			}
		}
		top := n.Traffic.Stats(traffic.Reach).Rules[0].Top
		for i, k := range top[:3] {
			if k.Denied < 300 || k.Denied > 400 || k.Key[0].Value[:5] != "often" {
				t.Errorf("%d: %+v", i, k)
			}
		}
	})
}

// A decision that took longer than the histogram's maximum counts as the maximum.
func TestLongest(t *testing.T) {
	n := newNode(t, document)
	n.Took(0)
	if got := n.Traffic.Stats(time.Minute).Decisions.Percentile(50); got != time.Microsecond {
		t.Errorf("no time at all is told as %v", got)
	}
	for range 10 {
		n.Took(time.Hour)
	}
	if got := n.Traffic.Stats(time.Minute).Decisions.Percentile(50); got < 58*time.Second || got > 62*time.Second {
		t.Errorf("an hour is told as %v", got)
	}
}
