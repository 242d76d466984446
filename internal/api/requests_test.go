package api

import (
	"strconv"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
)

// The oldest requests are forgotten when there are too many, and all when their reservations end.
func TestRequestsAreBounded(t *testing.T) {
	var r requests
	open := &penstock.Verdict{Reservation: "a", ReservedFor: time.Hour}
	r.remember("kept", open)
	for i := range maxRequests - 1 {
		r.remember(strconv.Itoa(i), open)
	}
	r.remember("kept", &penstock.Verdict{Reservation: "b", ReservedFor: time.Hour})
	if got := r.reservation("kept"); got != "b" || r.reservation("0") != "a" {
		t.Errorf("%q", got)
	}
	r.remember("another", open)
	if r.reservation("0") != "" || r.reservation("kept") != "b" || len(r.byID) != maxRequests {
		t.Errorf("%d are kept, and of the oldest %q", len(r.byID), r.reservation("0"))
	}
	r.remember("ended", &penstock.Verdict{Reservation: "c"})
	if got := r.reservation("ended"); got != "" {
		t.Errorf("a reservation that has ended: %q", got)
	}
}
