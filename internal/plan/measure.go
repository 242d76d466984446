package plan

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A Target is a store whose costs are measured.
type Target struct {
	Store penstock.Store
	Keys  int64 // created per algorithm; enough to make the store's fixed size negligible

	// Used returns the size of the store in bytes, CPU the processor time that its server has used so far, and
	// Traffic the bytes that it has received and sent. CPU and Traffic are nil if the store is in this process.
	Used    func(ctx context.Context) (int64, error)
	CPU     func(ctx context.Context) (time.Duration, error)
	Traffic func(ctx context.Context) (int64, error)
}

// Sizes of a calibration: it takes seconds.
const (
	measuredLog = 64 // entries of a log
	measuredFor = 2 * time.Second
	callers     = 64
)

// measuredWindow is how long the counters of a calibration live. After that, nothing is left of it.
const measuredWindow = 5 * time.Minute

// Measure returns what counters and decisions cost on a store.
func Measure(ctx context.Context, t Target) (*StoreCosts, error) {
	c := &StoreCosts{}
	run := strconv.FormatInt(time.Now().UnixNano(), 36)
	warm := penstock.Limit{Algorithm: penstock.FixedWindow, Count: 1, Window: measuredWindow}.MustCompile()
	if err := take(ctx, t.Store, warm, run, 0); err != nil {
		return nil, err
	}
	for _, algorithm := range algorithms {
		m := penstock.Limit{Algorithm: algorithm, Count: 1000, Window: measuredWindow}.MustCompile()
		bytes, err := fill(ctx, t, m, run+algorithm.String(), t.Keys, 1)
		if err != nil {
			return nil, err
		}
		if algorithm != penstock.SlidingWindowLog {
			c.Counter += bytes / float64(len(algorithms)-1) // tables grow in steps, so their sum is more precise than each
			continue
		}
		c.Log = bytes
		more, err := fill(ctx, t, m, run+algorithm.String(), t.Keys/10, measuredLog) // the same keys again
		if err != nil {
			return nil, err
		}
		c.Entry = more / measuredLog
	}
	return c, t.decisions(ctx, run, c)
}

// fill takes takes times from each of keys keys, and returns by how many bytes each grows.
func fill(ctx context.Context, t Target, m *algorithm.Meter, run string, keys int64, takes int) (float64, error) {
	before, err := t.Used(ctx)
	if err != nil {
		return 0, err
	}
	var next atomic.Int64
	err = runConcurrently(func() error {
		for {
			key := next.Add(1)
			if key > keys {
				return nil
			}
			for range takes {
				if err := take(ctx, t.Store, m, run, key); err != nil {
					return err
				}
			}
		}
	})
	if err != nil {
		return 0, err
	}
	after, err := t.Used(ctx)
	return float64(after-before) / float64(keys), err
}

var hasher = storage.NewHasher("of a calibration")

func take(ctx context.Context, store penstock.Store, m *algorithm.Meter, run string, key int64) error {
	var out storage.Outcome
	return store.Take(ctx, &storage.Ticket{Groups: []storage.Group{{
		Subject: hasher.Subject("plan", run, penstock.Attribute{Name: "key", Value: strconv.FormatInt(key, 10)}),
		Charges: []algorithm.Charge{{Meter: m, Cost: 1}},
	}}}, &out)
}

// runConcurrently runs a function in many goroutines.
func runConcurrently(f func() error) error {
	errs := make([]error, callers)
	var wait sync.WaitGroup
	for i := range errs {
		wait.Go(func() { errs[i] = f() })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// decisions measures what a decision costs the store's server, or this process.
func (t *Target) decisions(ctx context.Context, run string, c *StoreCosts) error {
	m := penstock.Limit{Algorithm: penstock.SlidingWindowCounter, Count: 1_000_000, Window: measuredWindow}.MustCompile()
	if t.CPU == nil {
		return t.inProcess(ctx, m, run, c)
	}
	cpu, err := t.CPU(ctx)
	if err != nil {
		return err
	}
	traffic, err := t.Traffic(ctx)
	if err != nil {
		return err
	}
	var n atomic.Int64
	deadline := time.Now().Add(measuredFor)
	err = runConcurrently(func() error {
		for time.Now().Before(deadline) {
			if err := take(ctx, t.Store, m, run, n.Add(1)%t.Keys); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	cpuAfter, err := t.CPU(ctx)
	if err != nil {
		return err
	}
	trafficAfter, err := t.Traffic(ctx)
	c.Decision = (cpuAfter - cpu) / time.Duration(n.Load())
	c.Wire = float64(trafficAfter-traffic) / float64(n.Load())
	if err == nil && c.Decision <= 0 {
		err = fmt.Errorf("the server says that %d decisions took no processor time", n.Load())
	}
	return err
}

func (t *Target) inProcess(ctx context.Context, m *algorithm.Meter, run string, c *StoreCosts) error {
	var n int64
	began := time.Now()
	for time.Since(began) < measuredFor {
		for range 1000 {
			n++
			if err := take(ctx, t.Store, m, run, n%t.Keys); err != nil {
				return err
			}
		}
	}
	c.Decision = time.Since(began) / time.Duration(n)
	return nil
}
