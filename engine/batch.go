package engine

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/storage"
)

const (
	batchSize = 256 // requests whose tickets go to a BatchStore at once
	atOnce    = 64  // concurrent requests to other stores: requests that wait together are sent together
)

// DecideEach decides many requests, each by itself as Decide does, but faster than one by one. There is one
// verdict and one error for each request, in their order. A store that decides batches also decides in this
// order.
func (e *Engine) DecideEach(ctx context.Context, calls []penstock.Call, verdicts []penstock.Verdict, errs []error) {
	verdicts, errs = verdicts[:len(calls)], errs[:len(calls)] // panics here rather than halfway
	store, ok := e.store.(storage.BatchStore)
	if !ok {
		e.decideAtOnce(ctx, calls, verdicts, errs)
		return
	}
	if e.books.pages.Load() > 0 { // each must first be charged with what was admitted before it
		for i := range calls {
			errs[i] = e.Decide(ctx, &calls[i], &verdicts[i])
		}
		return
	}
	for len(calls) > 0 {
		n := min(batchSize, len(calls))
		e.decideBatch(ctx, store, calls[:n], verdicts[:n], errs[:n])
		calls, verdicts, errs = calls[n:], verdicts[n:], errs[n:]
	}
}

func (e *Engine) decideAtOnce(ctx context.Context, calls []penstock.Call, verdicts []penstock.Verdict, errs []error) {
	var next atomic.Int64
	var ended sync.WaitGroup
	for range min(atOnce, len(calls)) {
		ended.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(calls)); i = next.Add(1) - 1 {
				errs[i] = e.Decide(ctx, &calls[i], &verdicts[i])
			}
		})
	}
	ended.Wait()
}

func (e *Engine) decideBatch(ctx context.Context, store storage.BatchStore, calls []penstock.Call, verdicts []penstock.Verdict, errs []error) {
	works := make([]*workspace, len(calls))
	turns := make([]storage.BatchItem, 0, len(calls))
	asks := make([]bool, len(calls))
	for i := range calls {
		works[i] = e.works.Get().(*workspace)
		settled, err := e.prepare(e.rules.Load(), &calls[i], &verdicts[i], works[i])
		if errs[i], asks[i] = err, !settled; asks[i] {
			works[i].turn.Outcome.States = works[i].turn.Outcome.States[:0]
			turns = append(turns, works[i].turn)
		}
	}
	takeEach(ctx, store, turns)
	for i, w := range works {
		if asks[i] {
			w.turn, turns = turns[0], turns[1:]
			errs[i] = e.finish(ctx, &verdicts[i], w, w.turn.Err)
		}
		e.tellObserver(&calls[i], &verdicts[i], w, errs[i])
		e.works.Put(w)
	}
}

// takeEach is take for a batch. If the store panics, it is unknown which tickets it has decided.
func takeEach(ctx context.Context, store storage.BatchStore, turns []storage.BatchItem) {
	err := func() (err error) {
		defer recoverPanic(&err)
		store.TakeEach(ctx, turns)
		return nil
	}()
	if err == nil {
		return
	}
	for i := range turns {
		turns[i].Err = err
	}
}
