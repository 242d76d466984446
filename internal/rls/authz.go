package rls

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/httplimit"
)

// checks is the external authorization service. It decides requests as the client sent them.
//
// Envoy does not come back at the end of the response, so nothing can be settled or released: a permit is free again
// when its time to live ends. Nor are requests held for a leaky bucket: a request that would have to wait is denied.
type checks struct {
	authv3.UnimplementedAuthorizationServer
	s *Server
}

func (a checks) Check(ctx context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	asked, err := original(r)
	if bad, ok := errors.AsType[*httplimit.RequestError](err); ok {
		return a.refuse(ctx, anyRequest, bad), nil
	}
	if err != nil {
		a.s.invalidChecks.add(ctx, a.s, authorization, err)
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	var c penstock.Call
	if err := a.s.Reader.Read(asked, &c); err != nil {
		return a.refuse(ctx, asked, err), nil
	}
	c.MaxDelay = 0
	ctx, cancel := inTime(ctx)
	defer cancel()
	var v penstock.Verdict
	// Only an invalid request is an error here. After any other error the rules' failure policies have decided.
	if err := a.s.Decider.Decide(ctx, &c, &v); errors.Is(err, penstock.ErrInvalid) {
		return a.refuse(ctx, asked, &httplimit.RequestError{Status: http.StatusBadRequest, Detail: err.Error()}), nil
	}
	var told reply
	if !v.Allowed {
		a.s.denyWith(&told, asked, &v)
		return denied(&told), nil
	}
	a.s.Writer.Headers(told.Header(), &v)
	return &authv3.CheckResponse{
		Status:       &statuspb.Status{Code: int32(codes.OK)},
		HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{ResponseHeadersToAdd: options(&told)}},
	}, nil
}

// refuse denies a request that cannot be decided.
func (a checks) refuse(ctx context.Context, r *http.Request, err error) *authv3.CheckResponse {
	a.s.invalidChecks.add(ctx, a.s, authorization, err)
	var told reply
	a.s.Writer.Refuse(&told, r, err)
	a.s.replaceBody(&told, http.StatusText(told.status))
	return denied(&told)
}

// original returns the request that Envoy asks about. Its address is the client's address as Envoy sees it. A
// RequestError is the client's fault, any other error Envoy's.
func original(r *authv3.CheckRequest) (*http.Request, error) {
	h := r.GetAttributes().GetRequest().GetHttp()
	if h == nil {
		return nil, errors.New("attributes.request.http: is missing: only HTTP requests are supported")
	}
	target, err := url.ParseRequestURI(h.Path)
	if err != nil {
		return nil, &httplimit.RequestError{Status: http.StatusBadRequest, Detail: "the path is neither a path nor a URL", Err: errors.Unwrap(err)} // does not repeat the path
	}
	peer := r.GetAttributes().GetSource().GetAddress().GetSocketAddress()
	if peer == nil {
		return nil, errors.New("attributes.source.address.socket_address: is missing")
	}
	return &http.Request{
		Method: h.Method, URL: target, RequestURI: h.Path, Host: h.Host, Header: headersOf(h),
		RemoteAddr: net.JoinHostPort(peer.Address, strconv.FormatUint(uint64(peer.GetPortValue()), 10)),
	}, nil
}

// headersOf reads headers in either form: one entry per line, or joined by name. Names that begin with a colon belong
// to HTTP/2.
func headersOf(h *authv3.AttributeContext_HttpRequest) http.Header {
	out := make(http.Header, len(h.Headers))
	add := func(name, value string) {
		if name != "" && name[0] != ':' {
			out.Add(name, value)
		}
	}
	if h.HeaderMap == nil {
		for name, value := range h.Headers {
			add(name, value)
		}
	}
	for _, line := range h.HeaderMap.GetHeaders() {
		add(line.Key, cmp.Or(line.Value, string(line.RawValue)))
	}
	return out
}

// denied makes Envoy send the reply.
func denied(told *reply) *authv3.CheckResponse {
	code := codes.PermissionDenied
	switch told.status {
	case http.StatusTooManyRequests:
		code = codes.ResourceExhausted
	case http.StatusServiceUnavailable:
		code = codes.Unavailable
	}
	return &authv3.CheckResponse{
		Status: &statuspb.Status{Code: int32(code), Message: http.StatusText(told.status)},
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
			Status:  &typev3.HttpStatus{Code: typev3.StatusCode(told.status)},
			Headers: options(told),
			Body:    told.body.String(),
		}},
	}
}

// options returns headers that are added to those of an upstream, as is allowed for lists.
func options(told *reply) (all []*corev3.HeaderValueOption) {
	for name, value := range told.lines {
		action := corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
		if name == "RateLimit" || name == "RateLimit-Policy" {
			action = corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
		}
		all = append(all, &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: name, Value: value}, AppendAction: action})
	}
	return all
}
