package redisstore

import (
	"sync/atomic"
	"time"
)

// A pace decides how many runs a lane may have under way. Few make large runs, which cost Redis
// least; but where the network is slow, a call that waits for a run to return waits a round trip
// for nothing. So it is one run for about every step of a round trip.
type pace struct {
	roundTrip atomic.Int64 // smoothed, in ns
}

const (
	paceStep = 80 * time.Microsecond // about what a run of some ten tickets takes
	leastRun = 2                     // one is being decided while the next travels
	mostRuns = 32
)

func (p *pace) runs() int {
	return int(min(max(p.roundTrip.Load()/int64(paceStep), leastRun), mostRuns))
}

// observe takes the duration of a run that had nobody before or beside it: under load durations
// say how long the queue is, not the road.
func (p *pace) observe(d time.Duration) {
	old := p.roundTrip.Load()
	if old == 0 {
		old = int64(d)
	}
	p.roundTrip.Store(old + (int64(d)-old)/8) // racing observers may lose one; any will do
}
