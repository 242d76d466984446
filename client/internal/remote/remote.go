package remote

import (
	"errors"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/wire"
)

// DefaultTimeout is how long a request may take by default.
const DefaultTimeout = 500 * time.Millisecond

// ErrUnavailable is [penstock.ErrUnavailable] of a remote service, whose store is its own matter.
var ErrUnavailable error = unavailable{}

type unavailable struct{}

func (unavailable) Error() string { return "server unavailable" }
func (unavailable) Unwrap() error { return penstock.ErrUnavailable }

// OnError is what happens to a request if the service does not answer.
type OnError uint8

const (
	Allow OnError = iota
	Deny
)

// Without fills in the verdict of a request without an answer. An error that wraps ErrInvalid denies it.
func (o OnError) Without(v *penstock.Verdict, err error) {
	v.Reset()
	v.Now = Now()
	if errors.Is(err, penstock.ErrInvalid) {
		return
	}
	v.Allowed, v.Reason, v.Quality = o == Allow, penstock.ReasonStoreError, penstock.QualityClosed
	if v.Allowed {
		v.Quality = penstock.QualityOpen
	}
}

// Now returns the instant on this machine's clock.
func Now() penstock.Instant { return penstock.InstantOf(time.Now()) }

// A Batch is requests with one verdict and one error for each.
type Batch struct {
	Calls    []penstock.Call
	Verdicts []penstock.Verdict
	Errs     []error
}

func (b Batch) part(from, to int) Batch {
	return Batch{b.Calls[from:to], b.Verdicts[from:to], b.Errs[from:to]}
}

// Each decides a batch in parts that the service accepts. together sends a batch and fills in all verdicts
// and errors if it can. If its error says that the batch is invalid, nothing was charged: the batch is sent
// in halves, so that an error in one request affects only that request, and a batch that is too long is
// split. alone sends one request; it is also used for requests that reserve, which a batch cannot.
func (o OnError) Each(b Batch, together func(Batch) error, alone func(*penstock.Call, *penstock.Verdict) error) {
	for len(b.Calls) > 0 {
		n := plain(b.Calls)
		if n > 1 {
			o.split(b.part(0, n), together, alone)
		} else {
			n = 1
			b.Errs[0] = alone(&b.Calls[0], &b.Verdicts[0])
		}
		b = b.part(n, len(b.Calls))
	}
}

// plain returns how many of the next requests can be sent together.
func plain(calls []penstock.Call) int {
	for i := range calls {
		if calls[i].Reserve || i == wire.MaxBatch {
			return i
		}
	}
	return len(calls)
}

func (o OnError) split(b Batch, together func(Batch) error, alone func(*penstock.Call, *penstock.Verdict) error) {
	err := together(b)
	switch {
	case err == nil:
	case errors.Is(err, penstock.ErrInvalid):
		half := len(b.Calls) / 2
		o.Each(b.part(0, half), together, alone)
		o.Each(b.part(half, len(b.Calls)), together, alone)
	default:
		for i := range b.Calls {
			o.Without(&b.Verdicts[i], err)
			b.Errs[i] = err
		}
	}
}
