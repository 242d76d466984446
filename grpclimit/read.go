package grpclimit

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/penstock-io/penstock/httplimit"
)

// read converts the gRPC request into a penstock.Call.
func (l *Limiter) read(ctx context.Context, c *call) error {
	// Reject a method that is not in normal form: a service behind an UnknownServiceHandler might read it in
	// another way than the rules do.
	if normal, err := httplimit.NormalizePath(c.method); err != nil || normal != c.method {
		return status.Error(codes.Unimplemented, "malformed method name")
	}
	err := l.reader.Read(requestOf(ctx, c.method), &c.Call)
	if bad := (*httplimit.RequestError)(nil); errors.As(err, &bad) {
		bad = &httplimit.RequestError{Status: bad.Status, Detail: metadataTerms(bad.Detail), Err: bad.Err}
		l.onError(c.method, bad)
		code := codes.InvalidArgument
		if bad.Status == http.StatusUnauthorized {
			code = codes.Unauthenticated
		}
		return status.Error(code, "the request was rejected: "+bad.Detail)
	}
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	// A client that does not wait that long is denied at once, and told when to retry.
	if deadline, ok := ctx.Deadline(); ok {
		c.MaxDelay = max(0, min(c.MaxDelay, time.Until(deadline)))
	}
	return nil
}

// metadataTerms returns the detail of an error about a header in the terms of gRPC.
func metadataTerms(detail string) string {
	for _, term := range [...]struct{ http, grpc string }{
		{"the header ", "the metadata entry "},
		{"a header was sent ", "a metadata entry was sent "},
	} {
		if rest, ok := strings.CutPrefix(detail, term.http); ok {
			return term.grpc + rest
		}
	}
	return detail
}

// requestOf returns a gRPC request as an HTTP request.
func requestOf(ctx context.Context, method string) *http.Request {
	md, _ := metadata.FromIncomingContext(ctx)
	r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: method}, Header: make(http.Header, len(md))}
	for name, values := range md {
		switch {
		case name == ":authority" && len(values) > 0:
			r.Host = values[0]
		case !strings.HasPrefix(name, ":"):
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if p, ok := peer.FromContext(ctx); ok {
		if p.Addr != nil {
			r.RemoteAddr = p.Addr.String()
		}
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			r.TLS = &info.State
		}
	}
	return r.WithContext(ctx)
}
