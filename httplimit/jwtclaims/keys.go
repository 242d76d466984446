package jwtclaims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/time/rate"

	"github.com/penstock-io/penstock/internal/urlform"
)

const (
	maxKeys     = 1 << 20         // bytes of the published keys
	fetchWithin = 5 * time.Second // also how long a token with an unknown key may wait
)

// fetched returns keys that are kept as the issuer publishes them.
func (o *Options) fetched(ctx context.Context) (jwt.Keyfunc, error) {
	client := *cmp.Or(o.Client, http.DefaultClient)
	client.Transport = boundedTransport{client.Transport}
	keys, err := keyfunc.NewDefaultOverrideCtx(ctx, []string{o.JWKSURL}, keyfunc.Override{
		Client:            &client,
		HTTPTimeout:       fetchWithin,
		RateLimitWaitMax:  fetchWithin,
		RefreshInterval:   cmp.Or(o.Refresh, time.Hour),
		RefreshUnknownKID: rate.NewLimiter(rate.Every(time.Minute), 1),
		RefreshErrorHandlerFunc: func(string) func(context.Context, error) {
			return func(_ context.Context, err error) { o.OnError(o.fetchError(err)) }
		},
	})
	if err != nil {
		return nil, o.fetchError(err)
	}
	return keys.Keyfunc, nil
}

// fetchError says why the keys cannot be fetched, without the secrets that the URL may hold: errors of
// requests repeat it.
func (o *Options) fetchError(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	return fmt.Errorf("cannot fetch JWKS from %s: %w", urlform.Redact(o.JWKSURL), err)
}

// boundedTransport truncates an answer that is too long, which is then not valid JSON.
type boundedTransport struct{ http.RoundTripper }

func (b boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	next := b.RoundTripper
	if next == nil {
		next = http.DefaultTransport
	}
	res, err := next.RoundTrip(req)
	if err == nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, maxKeys), res.Body}
	}
	return res, err
}
