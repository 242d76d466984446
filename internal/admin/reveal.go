package admin

import (
	"sync"
	"time"
)

// revealLog records when operators were last shown the names of clients. Each operator, by token and address, gets one
// audit entry an hour.
type revealLog struct {
	admin *Admin

	mu      sync.Mutex
	at      map[string]time.Time
	writing sync.WaitGroup
}

const (
	revealEvery = time.Hour
	maxReveals  = 1000 // entries that are kept
)

// note records that the client is shown names. The response does not wait for it: requests must be visible even while
// the database is unavailable.
func (r *revealLog) note(x *apiRequest) {
	if !r.isDue(x.who.String(), r.admin.Now()) {
		return
	}
	r.writing.Go(func() { r.admin.record(x, "reveal", "client identities shown") })
}

func (r *revealLog) isDue(actor string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.at[actor]; ok && now.Sub(last) < revealEvery {
		return false
	}
	if len(r.at) >= maxReveals {
		clear(r.at) // rather records too often than not at all
	}
	r.at[actor] = now
	return true
}
