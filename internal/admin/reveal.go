package admin

import (
	"sync"
	"time"
)

// reveals are when operators were last shown who calls. It is written down once an hour of each, by
// token and address: what they look at in between is no news.
type reveals struct {
	admin *Admin

	mu      sync.Mutex
	at      map[string]time.Time
	writing sync.WaitGroup
}

const (
	revealEvery = time.Hour
	maxReveals  = 1000 // that are remembered
)

func newReveals(a *Admin) *reveals { return &reveals{admin: a, at: map[string]time.Time{}} }

// note writes down that who asks is shown callers. The answer does not wait for it: while the
// database is away, calls must still be looked at.
func (r *reveals) note(x *exchange) {
	if !r.due(x.who.String(), r.admin.Now()) {
		return
	}
	r.writing.Go(func() { r.admin.record(x, "reveal", "who calls was shown") })
}

func (r *reveals) due(actor string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.at[actor]; ok && now.Sub(last) < revealEvery {
		return false
	}
	if len(r.at) >= maxReveals {
		clear(r.at) // rather too often than not
	}
	r.at[actor] = now
	return true
}
