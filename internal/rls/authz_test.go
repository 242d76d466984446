package rls_test

import (
	"fmt"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-io/penstock/internal/rls"
)

const authRules = `
attributes:
  user: {header: X-User}
  page: {query: page}
rules:
  - {name: search, match: {method: GET, host: api.example.com, path: "/search"}, key: [ip], limits: [{rate: 1/1m, algorithm: fixed_window}]}
  - {name: per-user, match: {path: "/me"}, key: [user], limits: [{rate: 1/1h, algorithm: fixed_window}]}
  - {name: page, match: {path: "/list", page: "9"}, key: [ip], limits: [{rate: 0/1h, algorithm: fixed_window}]}
  - {name: drip, match: {path: "/drip"}, key: [ip], limits: [{rate: 1/1m, queue: 5, algorithm: leaky_bucket}]}
lists:
  deny: [{ip: 10.6.6.6}]
`

type header map[string]string

func check(ip, method, path string, h header) *authv3.CheckRequest {
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: ip, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 4711}},
		}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: method, Host: "api.example.com:443", Path: path, Headers: h,
		}},
	}}
}

// briefly returns a response as its codes and the headers for the client.
func briefly(r *authv3.CheckResponse) string {
	var b strings.Builder
	b.WriteString(codes.Code(r.GetStatus().GetCode()).String())
	headers := r.GetOkResponse().GetResponseHeadersToAdd()
	if d := r.GetDeniedResponse(); d != nil {
		fmt.Fprintf(&b, " %d", d.Status.Code)
		headers = d.Headers
	}
	for _, h := range headers {
		if name := h.Header.Key; strings.HasPrefix(name, "R") {
			fmt.Fprintf(&b, " %s: %s", name, h.Header.Value)
		}
	}
	return b.String()
}

func TestExternalAuthorization(t *testing.T) {
	client := authv3.NewAuthorizationClient(connect(t, newServer(t, &rls.RuleLimiter{}, authRules)))
	const search, me = `RateLimit-Policy: "search";q=1;w=60`, `RateLimit-Policy: "per-user";q=1;w=3600`
	for i, s := range []struct {
		ask  *authv3.CheckRequest
		want string
	}{
		{check("10.0.0.1", "GET", "/search?q=x", header{":path": "/search"}), `OK RateLimit: "search";r=0;t=60 ` + search},
		{check("10.0.0.1", "GET", "/search", nil), `ResourceExhausted 429 RateLimit: "search";r=0;t=60 ` + search + ` Retry-After: 60`},
		{check("10.0.0.1", "GET", "/search", header{"x-forwarded-for": "10.0.0.9"}), `ResourceExhausted 429 RateLimit: "search";r=0;t=60 ` + search + ` Retry-After: 60`},
		{check("10.0.0.2", "GET", "/search", nil), `OK RateLimit: "search";r=0;t=60 ` + search},
		{check("10.0.0.1", "POST", "/search", nil), `OK`},
		{check("10.0.0.1", "GET", "/me", header{"x-user": "u"}), `OK RateLimit: "per-user";r=0;t=3600 ` + me},
		{check("10.0.0.2", "GET", "/me", header{"x-user": "u"}), `ResourceExhausted 429 RateLimit: "per-user";r=0;t=3600 ` + me + ` Retry-After: 3600`},
		{check("10.0.0.1", "GET", "/drip", nil), `OK RateLimit: "drip";r=5;t=60 RateLimit-Policy: "drip";q=6;w=360`},
		{check("10.0.0.1", "GET", "/drip", nil), `ResourceExhausted 429 RateLimit: "drip";r=0;t=60 RateLimit-Policy: "drip";q=6;w=360 Retry-After: 60`}, // Envoy does not wait
		{check("10.6.6.6", "GET", "/", nil), `PermissionDenied 403`},
		{check("not an address", "GET", "/", nil), `PermissionDenied 400`},
		{check("10.0.0.1", "GET", "/%zz", nil), `PermissionDenied 400`}, // an error would let it pass
		{check("10.0.0.1", "GET", "no path", nil), `PermissionDenied 400`},
		{check("10.0.0.1", "GET", "", nil), `PermissionDenied 400`},
		{check("10.0.0.1", "GET", "/me", header{"x-user": "v", "x_user": "w"}), `PermissionDenied 400`},
	} {
		r, err := client.Check(patient(t), s.ask)
		if got := briefly(r); err != nil || got != s.want {
			t.Errorf("%d: %v\ngot  %s\nwant %s", i, err, got, s.want)
		}
	}
	raw := check("10.0.0.3", "GET", "/me", header{"x-user": "not this one"})
	raw.Attributes.Request.Http.HeaderMap = &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: "x-user", RawValue: []byte("u")}}}
	if r, err := client.Check(patient(t), raw); err != nil || r.GetDeniedResponse() == nil {
		t.Errorf("raw headers: %v, %v", r, err)
	}
	raw.Attributes.Request.Http.HeaderMap.Headers = []*corev3.HeaderValue{{Key: "x-user", RawValue: []byte("v")}, {Key: "x-user", RawValue: []byte("w")}}
	if r, err := client.Check(patient(t), raw); err != nil || briefly(r) != "PermissionDenied 400" {
		t.Errorf("a header twice: %v, %v", r, err)
	}
	r, err := client.Check(patient(t), check("10.0.0.1", "GET", "/list?page=9", header{"accept": "text/html"}))
	if err != nil || !strings.Contains(r.GetDeniedResponse().GetBody(), "<html") {
		t.Errorf("a browser: %v, %v", r, err)
	}
}

func TestMalformedCheck(t *testing.T) {
	client := authv3.NewAuthorizationClient(connect(t, newServer(t, &rls.RuleLimiter{}, authRules)))
	homeless := check("10.0.0.1", "GET", "/", nil)
	homeless.Attributes.Source = nil
	for want, ask := range map[string]*authv3.CheckRequest{
		"attributes.request.http: is missing":                  {},
		"attributes.source.address.socket_address: is missing": homeless,
	} {
		if _, err := client.Check(patient(t), ask); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A gRPC client gets the body as a message, and the content type must be Envoy's.
func TestPlainDenialsOfAuthorization(t *testing.T) {
	s := newServer(t, &rls.RuleLimiter{}, authRules)
	s.DenialBody = rls.PlainBody
	client := authv3.NewAuthorizationClient(connect(t, s))
	for path, want := range map[string]string{"/list?page=9": "Limit of 0 requests per 3600 s (page) reached; ", "no path": "Bad Request"} {
		r, err := client.Check(patient(t), check("10.0.0.1", "GET", path, nil))
		if err != nil || !strings.HasPrefix(r.GetDeniedResponse().GetBody(), want) {
			t.Errorf("%s: %v, %v, want %q", path, r, err, want)
		}
		for _, h := range r.GetDeniedResponse().GetHeaders() {
			if h.Header.Key == "Content-Type" {
				t.Errorf("%s: the content type is %s", path, h.Header.Value)
			}
		}
	}
}
