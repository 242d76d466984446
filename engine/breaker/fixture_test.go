package breaker_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/engine/breaker"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/storage"
)

// A faulty store returns a set error instead of answering, and counts requests.
type faulty struct {
	*memstore.Store
	fault atomic.Pointer[error]
	asked atomic.Int64

	held chan struct{} // not nil: operations wait here
}

func newFaulty(t testing.TB) *faulty {
	t.Helper()
	memory, err := memstore.New(memstore.Options{MaxBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	f := &faulty{Store: memory}
	f.failWith(nil)
	return f
}

func (f *faulty) failWith(err error) { f.fault.Store(&err) }

func (f *faulty) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	f.asked.Add(1)
	if f.held != nil {
		<-f.held
	}
	if err := *f.fault.Load(); err != nil {
		return err
	}
	return f.Store.Take(ctx, t, out)
}

func (f *faulty) Settle(ctx context.Context, s *storage.Settlement, out *storage.SettleOutcome) error {
	f.asked.Add(1)
	if err := *f.fault.Load(); err != nil {
		return err
	}
	return f.Store.Settle(ctx, s, out)
}

func (f *faulty) ChargeLate(ctx context.Context, c *storage.LateCharge) error {
	f.asked.Add(1)
	if err := *f.fault.Load(); err != nil {
		return err
	}
	return f.Store.ChargeLate(ctx, c)
}

// Probe succeeds when other operations would.
func (f *faulty) Probe(context.Context, int) error { return *f.fault.Load() }

var (
	errTimeout = fmt.Errorf("%w: no answer within 10ms", penstock.ErrUnavailable)
	errDown    = fmt.Errorf("%w: connection refused", penstock.ErrUnavailable)
)

func judge(err error) breaker.Severity {
	if err == errDown {
		return breaker.Down
	}
	return breaker.Failure
}

func newBreaker(t testing.TB, f *faulty, o breaker.Options) *breaker.Breaker {
	t.Helper()
	o.Store, o.Judge = f, judge
	if o.Probe == nil {
		o.Probe = f.Probe
	}
	b, err := breaker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

var meter = penstock.Limit{Algorithm: penstock.FixedWindow, Count: algorithm.MaxCount, Window: time.Hour}.MustCompile()

func newTicket() *storage.Ticket {
	return &storage.Ticket{Groups: []storage.Group{{Charges: []algorithm.Charge{{Meter: meter, Cost: 1}}}}}
}

func call(b *breaker.Breaker, ctx context.Context) error {
	var out storage.Outcome
	return b.Take(ctx, newTicket(), &out)
}

// news are the changes that a breaker has reported.
type news struct {
	mu  sync.Mutex
	all []string
}

func (n *news) told(s breaker.State, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, fmt.Sprint(s, ": ", err))
}

func (n *news) so() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all
}
