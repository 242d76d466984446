package trafficdb

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/penstock-io/penstock/internal/poll"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/traffic"
)

// Bounds of the history.
const (
	Reach      = 48 * time.Hour // how far back it goes
	Resolution = time.Minute
	maxRules   = 256 // rules of a minute; further ones are counted under [traffic.Others]

	saveEvery  = 5 * time.Second
	pruneEvery = time.Hour
	timeout    = 10 * time.Second // of one access to the database
	parting    = time.Second      // to save the last minute
)

// Options configure a recorder.
type Options struct {
	Traffic  *traffic.Traffic
	Database func(context.Context) (*ruledb.DB, error)
	Node     string // ID of this node
	Name     string // of this node, for people
	Log      *slog.Logger
}

// A Recorder writes the minutes of a node and reads those of all nodes that share its database.
type Recorder struct {
	options Options
	stop    context.CancelFunc
	ended   sync.WaitGroup

	mu    sync.Mutex
	saved int64 // the first minute that is not saved
	err   error // of the last attempt to save
}

// Start starts recording.
func Start(o Options) *Recorder {
	r := &Recorder{options: o, saved: minuteOf(time.Now())}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	r.ended.Go(func() { r.run(ctx) })
	return r
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

func (r *Recorder) run(ctx context.Context) {
	pruned := time.Time{}
	poll.Every(ctx, saveEvery, nil, func() {
		now := time.Now()
		r.save(ctx, minuteOf(now))
		if r.Problem() == nil && now.Sub(pruned) >= pruneEvery {
			pruned = now
			r.prune(ctx, now)
		}
	})
}

// Close saves the minute that is not over, and stops.
func (r *Recorder) Close() {
	r.stop()
	r.ended.Wait()
	r.options.Traffic.Mark(traffic.MarkStop, "")
	ctx, cancel := context.WithTimeout(context.Background(), parting)
	defer cancel()
	r.save(ctx, minuteOf(time.Now())+1)
}

// Problem returns why minutes cannot be saved; nil if they can.
func (r *Recorder) Problem() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// save saves all minutes before one that are not saved yet, if memory still has them.
func (r *Recorder) save(ctx context.Context, before int64) {
	r.mu.Lock()
	from := max(r.saved, before-int64(traffic.Reach/Resolution)+1)
	r.mu.Unlock()
	if from >= before {
		return
	}
	var rows []ruledb.TrafficMinute
	for minute := from; minute < before; minute++ {
		rows = append(rows, ruledb.TrafficMinute{Minute: minute, Node: r.options.Node, Name: r.options.Name, Counts: r.minute(minute).encode()})
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	db, err := r.options.Database(ctx)
	if err == nil {
		err = db.SaveTraffic(ctx, rows...)
	}
	r.mu.Lock()
	was := r.err
	r.err = err
	if err == nil {
		r.saved = max(r.saved, before)
	}
	r.mu.Unlock()
	switch {
	case err != nil && was == nil:
		r.options.Log.Warn("cannot save the history of requests: the last hour waits in memory", "error", err)
	case err == nil && was != nil:
		r.options.Log.Info("the history of requests is saved again")
	}
}

// minute counts one minute from memory.
func (r *Recorder) minute(minute int64) *counted {
	from := time.Unix(minute*60, 0).UTC()
	q := traffic.Query{From: from, To: from.Add(Resolution), Step: Resolution}
	return newCounted(r.options.Traffic.Count(q), r.options.Traffic.Marks(q.From, q.To))
}

func (r *Recorder) prune(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	db, err := r.options.Database(ctx)
	if err == nil {
		err = db.ForgetTraffic(ctx, now.Add(-Reach))
	}
	if err != nil {
		r.options.Log.Warn("cannot delete the history of requests from before two days", "error", err)
	}
}
