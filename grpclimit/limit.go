package grpclimit

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/httplimit"
)

// ByIP counts by the client's address: see [httplimit.ByIP].
func ByIP(trustedProxies ...netip.Prefix) httplimit.Key { return httplimit.ByIP(trustedProxies...) }

// ByMetadata counts by the value of an entry of the metadata: see [httplimit.ByHeader].
func ByMetadata(name string) httplimit.Key { return httplimit.ByHeader(name) }

// ByFunc counts by what the function returns: see [httplimit.ByFunc].
func ByFunc(key func(ctx context.Context, fullMethod string) (string, error)) httplimit.Key {
	if key == nil {
		return httplimit.ByFunc(nil) // New rejects it
	}
	return httplimit.ByFunc(func(r *http.Request) (string, error) { return key(r.Context(), r.URL.Path) })
}

// Limit returns interceptors that ask the limiter before a request reaches its handler:
//
//	limits := grpclimit.Limit(limiter, grpclimit.ByIP())
//	grpc.NewServer(grpc.ChainUnaryInterceptor(limits.Unary()), grpc.ChainStreamInterceptor(limits.Stream()))
//
// It is [New] with default options. A request without a key ends with INVALID_ARGUMENT: it never passes
// uncounted. While the store is down requests end with UNAVAILABLE, or pass if the limiter has
// [penstock.FailOpen].
//
// Like [http.Handle], it panics on invalid arguments: if the limiter is nil, or the key is the zero value, has a nil
// function or is not a name for metadata.
func Limit(limiter *penstock.Limiter, key httplimit.Key) *Limiter {
	if limiter == nil {
		panic("grpclimit.Limit: the limiter is nil; check the error of penstock.New")
	}
	l, err := New(limiter, Options{ReaderOptions: httplimit.ReaderOptions{Key: key}})
	if err != nil {
		panic(fmt.Errorf("grpclimit.Limit: %w", err))
	}
	return l
}
