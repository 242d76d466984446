package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/storage"
)

// A caller that also sends a run for others is bound by its own deadline and not by theirs, and they are
// not bound by its deadline.
func TestLeaderInCompany(t *testing.T) {
	server := redistest.Start(t)
	s, err := Open(Options{Addresses: []string{server.Addr}, Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 10, Window: time.Hour}.MustCompile()
	ticket := &storage.Ticket{Groups: []storage.Group{{Charges: []algorithm.Charge{{Meter: m, Cost: 1}}}}}
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	l, mine, other := &s.lanes[0], newCall(ticket), newCall(ticket)
	mine.since, other.since = clock(), clock()
	_, alone := l.enter(mine, leastRun)
	l.enter(other, leastRun)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	back := make(chan struct{})
	go func() {
		l.sendRun(ctx, s, mine, alone)
		close(back)
	}()
	select {
	case <-back:
	case <-time.After(30 * time.Second):
		t.Error("the leader of a run is still waiting, half a minute after giving up")
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	<-back
	if <-other.wake; other.err != nil {
		t.Errorf("the other caller of the run got %v", other.err)
	}
}
