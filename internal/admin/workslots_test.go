package admin

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
)

// However many viewers work and wait, an operator gets a turn at once.
func TestOperatorsHaveTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newWorkSlots()
		begin := func(role Role) func() {
			t.Helper()
			end, err := turns.begin(t.Context(), role)
			if err != nil {
				t.Fatal(err)
			}
			return end
		}
		endViewer := begin(Viewer)
		var waiting sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		for range maxWaiting {
			waiting.Go(func() {
				if _, err := turns.begin(ctx, Viewer); !isBusy(err) {
					t.Errorf("a viewer that went: %v", err)
				}
			})
		}
		synctest.Wait()
		if _, err := turns.begin(t.Context(), Viewer); !isBusy(err) {
			t.Errorf("one viewer too many waits: %v", err)
		}
		for range 3 {
			begin(Operator)()
		}
		leave()
		waiting.Wait()
		if _, err := turns.begin(t.Context(), Viewer); !isBusy(err) { // after ten seconds
			t.Errorf("a viewer waited, and was not told that the server is busy: %v", err)
		}

		endOperator := begin(Operator)
		endViewer()
		begin(Viewer)() // next to the operator
		other := begin(Operator)
		if _, err := turns.begin(t.Context(), Viewer); !isBusy(err) {
			t.Errorf("a viewer beside two operators: %v", err)
		}
		endOperator()
		other()
		begin(Viewer)()
	})
}

func isBusy(err error) bool {
	p, ok := errors.AsType[*Problem](err)
	return ok && p.Status == http.StatusServiceUnavailable && p.RetryAfter > 0
}
