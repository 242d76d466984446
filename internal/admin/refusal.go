package admin

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

// A refusal is the reason why a client was not let in.
type refusal uint8

const (
	wrongToken refusal = iota
	wrongPassword
	tooMany // failed attempts before this one
	refusalKinds
)

func (r refusal) String() string {
	return [...]string{"wrong_token", "wrong_password", "too_many_attempts"}[r]
}

// refusals counts refused logins. It logs only some of them, so that guessing tokens does not fill the log, from
// however many addresses.
type refusals struct {
	log  *slog.Logger
	veil *masker
	now  func() time.Time

	mu     sync.Mutex
	counts [refusalKinds]int64
	logged time.Time
	unsaid int // not logged since then
}

// refusalLogEvery is the shortest time between two log lines.
const refusalLogEvery = 10 * time.Second

func (r *refusals) add(why refusal, from netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[why]++
	r.unsaid++
	now := r.now()
	if !r.logged.IsZero() && now.Sub(r.logged) < refusalLogEvery {
		return
	}
	r.log.Warn("a login was refused", "reason", why.String(), "from", r.veil.value("ip", from.String()), "since_last_line", r.unsaid)
	r.logged, r.unsaid = now, 0
}

// RefusedLogins returns the number of refused logins since the start, by reason. Every reason is present.
func (a *Admin) RefusedLogins() map[string]int64 {
	r := a.logins.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]int64, refusalKinds)
	for why, n := range r.counts {
		all[refusal(why).String()] = n
	}
	return all
}
