package frontdoor

import (
	"net"
	"net/http"
	"strconv"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

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
