package redisstore

import (
	"sync/atomic"
	"time"
)

// A pacer decides how many runs a lane may have in flight. Fewer runs are larger, which costs Redis least.
// But on a slow network, a ticket that waits for a run to return wastes a round trip. So there is one run
// for about every step of a round trip.
type pacer struct {
	roundTrip atomic.Int64 // smoothed, in ns
}

const (
	paceStep = 80 * time.Microsecond // about the time of a run of some ten tickets
	leastRun = 2                     // one is decided while the next travels
	mostRuns = 32
)

func (p *pacer) runs() int {
	return int(min(max(p.roundTrip.Load()/int64(paceStep), leastRun), mostRuns))
}

// observe takes the duration of a run that had no other run before or beside it: under load, durations
// measure the queue, not the network.
func (p *pacer) observe(d time.Duration) {
	old := p.roundTrip.Load()
	if old == 0 {
		old = int64(d)
	}
	p.roundTrip.Store(old + (int64(d)-old)/8) // racing observers may lose one, which is harmless
}
