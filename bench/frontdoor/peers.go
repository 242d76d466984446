package frontdoor

import (
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"golang.org/x/time/rate"
)

func withGoLimiter(next http.Handler) (http.Handler, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: 100, Interval: time.Minute})
	if err != nil {
		return nil, err
	}
	middleware, err := httplimit.NewMiddleware(store, httplimit.IPKeyFunc())
	if err != nil {
		return nil, err
	}
	return middleware.Handle(next), nil
}

func withRedisRate(next http.Handler, address string) http.Handler {
	limiter := redis_rate.NewLimiter(redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ip, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			http.Error(w, "no address", http.StatusBadRequest)
			return
		}
		result, err := limiter.Allow(r.Context(), "search:"+ip, redis_rate.PerMinute(100))
		if err != nil {
			http.Error(w, "limits cannot be checked", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(result.Remaining))
		if result.Allowed == 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(result.RetryAfter.Seconds())+1))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

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
