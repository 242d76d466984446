package propagation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/ruleredis"
	"github.com/penstock-io/penstock/rules/live"
)

// A way is how nodes learn about a change.
type way struct {
	name     string
	interval time.Duration
	redis    string // address; "": nodes read the database
	deaf     bool   // nodes are not notified

	round int
	took  []float64 // milliseconds, one for each change
}

// An arrival is a node that serves a version.
type arrival struct {
	version int64
	at      time.Time
	failed  error
}

// measure makes changes in a new database, one after the other.
func (w *way) measure(ctx context.Context, source string, o Options) (err error) {
	db, err := ruledb.Open(ctx, source, ruledb.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var publisher *ruleredis.Rules
	if w.redis != "" {
		w.round++
		if publisher, err = w.connect(); err != nil {
			return err
		}
		defer publisher.Close()
	}
	save := func(version int64) (saved time.Time, err error) {
		v, err := db.Save(ctx, ruledb.Change{Base: version - 1, Author: "bench", Document: document(version, o.Rules)})
		saved = time.Now()
		if err == nil && publisher != nil {
			err = publisher.Publish(ctx, v.Text())
		}
		return saved, err
	}
	if _, err := save(1); err != nil {
		return err
	}
	arrivals := make(chan arrival, nodes)
	ctx, cancel := context.WithCancel(ctx)
	for range nodes {
		stop, err := w.follow(ctx, source, arrivals)
		if err != nil {
			cancel()
			return err
		}
		defer stop()
	}
	defer cancel() // before the nodes stop, which may still report
	for version := int64(2); version < int64(o.Changes)+3; version++ {
		time.Sleep(o.pause())
		saved, err := save(version)
		if err != nil {
			return err
		}
		last, err := await(ctx, arrivals, version)
		if err != nil {
			return err
		}
		if version > 2 { // after the first change all nodes are connected
			w.took = append(w.took, max(0, ms(last.Sub(saved)))) // a node may be notified before Save returns
		}
	}
	return nil
}

// connect returns the rules in Redis, under a new key in every round, because versions start from 1 again.
func (w *way) connect() (*ruleredis.Rules, error) {
	return ruleredis.New(ruleredis.Options{Addresses: []string{w.redis}, KeyPrefix: fmt.Sprintf("pen:%d:", w.round)})
}

// follow starts a node with its own connections.
func (w *way) follow(ctx context.Context, source string, arrivals chan<- arrival) (stop func(), err error) {
	origin, end, err := w.origin(source)
	if err != nil {
		return nil, err
	}
	live, err := live.Follow(ctx, origin, live.Options{Interval: w.interval, Changed: func(s live.Status) {
		a := arrival{version: s.Version, at: time.Now(), failed: s.Err}
		if s.Refused != nil {
			a.failed = s.Refused.Err
		}
		select {
		case arrivals <- a:
		case <-ctx.Done():
		}
	}})
	if err != nil {
		end()
		return nil, err
	}
	return func() {
		live.Close()
		end()
	}, nil
}

func (w *way) origin(source string) (live.Origin, func(), error) {
	if w.redis != "" {
		r, err := w.connect()
		if err != nil {
			return nil, nil, err
		}
		return r, r.Close, nil
	}
	o, err := ruledb.NewOrigin(source, ruledb.Options{})
	if err != nil {
		return nil, nil, err
	}
	end := func() { _ = o.Close() } // it was only read
	if w.deaf {
		return silent{o}, end, nil
	}
	return o, end, nil
}

// silent is an origin without notifications.
type silent struct{ live.Origin }

func (silent) Watch(ctx context.Context, _ func(), _ func(error)) { <-ctx.Done() }

// await returns the time at which the last of the nodes served the version.
func await(ctx context.Context, arrivals <-chan arrival, version int64) (last time.Time, err error) {
	for there := 0; there < nodes; {
		select {
		case a := <-arrivals:
			if a.failed != nil {
				return last, a.failed
			}
			if a.version == version {
				there++
				last = a.at
			}
		case <-ctx.Done():
			return last, ctx.Err()
		case <-time.After(time.Minute):
			return last, fmt.Errorf("version %d: %d of %d nodes serve it after a minute", version, there, nodes)
		}
	}
	return last, nil
}
