package frontdoor

import (
	"net"
	"net/http"
	"sync"

	"golang.org/x/time/rate"
)

func withXTimeRate(next http.Handler) http.Handler {
	var mu sync.Mutex
	limiters := map[string]*rate.Limiter{} // grows with every address
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ip, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			http.Error(w, "no address", http.StatusBadRequest)
			return
		}
		mu.Lock()
		limiter := limiters[ip]
		if limiter == nil {
			limiter = rate.NewLimiter(rate.Limit(100.0/60), 100)
			limiters[ip] = limiter
		}
		mu.Unlock()
		if !limiter.Allow() {
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}
