package frontdoor

import (
	"net/http"
	"time"

	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
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
