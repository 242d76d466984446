package breaker

import (
	"sync"
	"sync/atomic"
)

// window is how many calls are looked back on: half of them failed is too many.
const window = 100

// A tally counts how calls end. While none fails it only reads, so that callers are not in each
// other's way.
type tally struct {
	troubled atomic.Bool // some of the last calls failed

	mu     sync.Mutex
	failed [window]bool // a ring
	next   int
	sum    int // of failed
	row    int // failures since the last success
}

func (t *tally) success() {
	if t.troubled.Load() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.push(false)
		t.row = 0
		t.troubled.Store(t.sum > 0)
	}
}

// failure tells whether there were too many.
func (t *tally) failure(inARow int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.troubled.Store(true)
	t.push(true)
	t.row++
	return t.row >= inARow || t.sum >= window/2
}

func (t *tally) push(failed bool) {
	if t.failed[t.next] {
		t.sum--
	}
	if t.failed[t.next] = failed; failed {
		t.sum++
	}
	t.next = (t.next + 1) % window
}
