// Package frontdoor is the same program with four limiters: 100 requests a minute per address. The documentation
// shows it (docs/explanation/go-compared.md), and a test keeps the two in sync.
package frontdoor

import (
	"net/http"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
)

func withPenstock(next http.Handler) (http.Handler, error) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		return nil, err
	}
	limiter, err := penstock.New(store, penstock.PerMinute(100))
	if err != nil {
		return nil, err
	}
	return httplimit.Limit(limiter, httplimit.ByIP())(next), nil
}

func withPenstockOnRedis(next http.Handler, address string) (http.Handler, error) {
	store, err := redisstore.Open(redisstore.Options{Addresses: []string{address}})
	if err != nil {
		return nil, err
	}
	limiter, err := penstock.New(store, penstock.PerMinute(100), penstock.WithName("search"))
	if err != nil {
		return nil, err
	}
	return httplimit.Limit(limiter, httplimit.ByIP())(next), nil
}
