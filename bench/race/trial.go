package race

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// outcome is the result for one client.
type outcome struct {
	Answer
	took time.Duration
	err  error
}

// burst releases clients at once against one key and waits for all of them. Clients are assigned to the deciders
// in turn, one decider per node.
func burst(ctx context.Context, deciders []Decider, callers int, key string, patience time.Duration) []outcome {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	outcomes := make([]outcome, callers)
	gate := make(chan struct{})
	var ready, done sync.WaitGroup
	for i := range outcomes {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-gate
			start := time.Now()
			answer, err := deciders[i%len(deciders)].Decide(ctx, key)
			outcomes[i] = outcome{answer, time.Since(start), err}
		})
	}
	ready.Wait()
	close(gate)
	done.Wait()
	return outcomes
}

// gaveUp reports whether an error is a timeout and not a fault.
func gaveUp(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}
