package admin

import (
	"log/slog"
	"maps"
	"net/netip"
	"sync"
	"time"
)

// Reasons why a client was not let in.
const (
	wrongToken    = "wrong_token"
	wrongPassword = "wrong_password"
	tooMany       = "too_many_attempts" // that failed before this one
)

// refusals counts refused logins. It logs only some of them, so that guessing tokens does not fill the log, from
// however many addresses.
type refusals struct {
	log  *slog.Logger
	veil *masker
	now  func() time.Time

	mu     sync.Mutex
	counts map[string]int64 // by reason; every reason is present
	logged time.Time
	unsaid int // not logged since then
}

func newRefusals(o *Options, veil *masker) *refusals {
	return &refusals{log: o.Log, veil: veil, now: o.Now, counts: map[string]int64{wrongToken: 0, wrongPassword: 0, tooMany: 0}}
}

// refusalLogEvery is the shortest time between two log lines.
const refusalLogEvery = 10 * time.Second

func (r *refusals) add(why string, from netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[why]++
	r.unsaid++
	now := r.now()
	if !r.logged.IsZero() && now.Sub(r.logged) < refusalLogEvery {
		return
	}
	r.log.Warn("a login was refused", "reason", why, "from", r.veil.value("ip", from.String()), "since_last_line", r.unsaid)
	r.logged, r.unsaid = now, 0
}

// RefusedLogins returns the number of refused logins since the start, by reason. Every reason is present.
func (a *Admin) RefusedLogins() map[string]int64 {
	r := a.logins.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts)
}
