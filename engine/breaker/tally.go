package breaker

import (
	"sync"
	"sync/atomic"
)

// window is the number of recent operations that are counted: the breaker opens if half of them failed.
const window = 100

// A tally counts the results of operations. While none fails it only reads, so that goroutines do not
// contend.
type tally struct {
	troubled atomic.Bool // some of the last operations failed

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

// failure counts a failure, and reports whether there were too many.
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
