//go:build linux

package survive

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/grpc/codes"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/client"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/httplimit/jwtclaims"
	"github.com/penstock-io/penstock/memstore"
	penstockv1 "github.com/penstock-io/penstock/proto/penstock/v1"
	"github.com/penstock-io/penstock/rules"
)

// spellings is the corpus: classes of spellings that common servers read as one value. Each says which servers do; docs
// name those that were run. $ is a number that no other class has, # a smaller one, and @ a valid token.
//
//go:embed testdata/spellings.json
var spellings []byte

// A spellingClass is one class of the corpus.
type spellingClass struct {
	Part   string   `json:"part"` // of the request: header, cookie, query, json, token, address, host, path, or the attribute ip
	ReadBy string   `json:"read_by"`
	One    []string `json:"one"`    // one value, or refused; the first is never refused
	Others []string `json:"others"` // other values, so that nothing is refused or merged that need not be
}

// spellingRules count each part of a request apart from the others.
const spellingRules = `
attributes:
  key: {header: X-Api-Key}
  sid: {cookie: sid}
  item: {query: id}
  tenant: {json: tenant}
  sub: {claim: sub}
rules:
  - {name: header, match: {path: /header}, key: [key], limits: [{rate: 3/year, algorithm: fixed_window}]}
  - {name: cookie, match: {path: /cookie}, key: [sid], limits: [{rate: 3/year, algorithm: fixed_window}]}
  - {name: query, match: {path: /query}, key: [item], limits: [{rate: 3/year, algorithm: fixed_window}]}
  - {name: json, match: {path: /json}, key: [tenant], limits: [{rate: 3/year, algorithm: fixed_window}]}
  - {name: token, match: {path: /token}, key: [sub], limits: [{rate: 3/year, algorithm: fixed_window}]}
  - {name: address, match: {path: /address}, key: [ip], limits: [{rate: 3/year, algorithm: fixed_window}]}
  - {name: host, match: {path: /host}, key: [host], limits: [{rate: 3/year, algorithm: fixed_window}]}
  - {name: path, match: {path: "/p/{id}/login"}, key: [id], limits: [{rate: 3/year, algorithm: fixed_window}]}
`

// limitOfSpellings is that of each rule.
const limitOfSpellings = 3

// A listener decides a request that has one part spelled in some way. This is all that a test needs to drive one.
type listener struct {
	name  string
	parts []string // that it reads; requests are whole HTTP requests, or attributes of a client's program
	send  func(t *testing.T, part, spelling string) (status int)
}

var httpParts = []string{"header", "cookie", "query", "json", "token", "address", "host", "path"}

// A rawRequest is an HTTP request with one part spelled in some way.
type rawRequest struct {
	method, target, host, body string
	header                     fields
}

func requestWith(part, spelling string) rawRequest {
	r := rawRequest{method: "GET", target: "/" + part, host: "a.example"}
	switch part {
	case "header":
		r.header = append(r.header, [2]string{"X-Api-Key", spelling})
	case "cookie":
		r.header = append(r.header, [2]string{"Cookie", spelling})
	case "token":
		r.header = append(r.header, [2]string{"Authorization", spelling})
	case "address":
		r.header = append(r.header, [2]string{"X-Forwarded-For", spelling})
	case "query":
		r.target += "?" + spelling
	case "json":
		r.method, r.body = "POST", spelling
		r.header = append(r.header, [2]string{"Content-Type", "application/json"})
	case "host":
		r.host = spelling
	case "path":
		r.target = spelling
	}
	return r
}

// text is the request in HTTP/1.1, with more headers.
func (r rawRequest) text(more ...[2]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n", r.method, r.target, r.host, len(r.body))
	for _, f := range append(r.header, more...) {
		fmt.Fprintf(&b, "%s: %s\r\n", f[0], f[1])
	}
	return b.String() + "\r\n" + r.body
}

func overHTTP1(name, address string, parts []string, text func(part, spelling string) string) listener {
	return listener{name, parts, func(t *testing.T, part, spelling string) int {
		replies := converse(t, address, text(part, spelling))
		if len(replies) != 1 {
			t.Errorf("%s: %q: %d responses", name, spelling, len(replies))
			return 0
		}
		return replies[0].status
	}}
}

// listeners returns those of a node, and the middleware.
func (n *node) listeners(t *testing.T, secret []byte) []listener {
	plain := func(part, spelling string) string { return requestWith(part, spelling).text() }
	forwarded := func(part, spelling string) string {
		r := requestWith(part, spelling)
		more := fields{{"X-Forwarded-Method", r.method}, {"X-Forwarded-Uri", r.target}, {"X-Forwarded-Host", r.host}}
		if part != "address" {
			more = append(more, [2]string{"X-Forwarded-For", "192.0.2.1"})
		}
		r.method, r.target, r.host = "GET", "/v1/auth", "127.0.0.1"
		return r.text(more...)
	}
	return []listener{
		overHTTP1("gateway, HTTP/1.1", n.addresses["gateway"], httpParts, plain),
		{"gateway, HTTP/2", httpParts, n.overHTTP2},
		overHTTP1("middleware", newMiddleware(t, secret), httpParts, plain),
		overHTTP1("forward-auth", n.addresses["http"], slices.DeleteFunc(slices.Clone(httpParts), func(part string) bool { return part == "json" }), forwarded),
		{"ext_authz", []string{"header", "cookie", "query", "token", "host", "path"}, n.overExtAuthz},
		{"decision API, HTTP", attributeParts, n.overDecisionAPI},
		{"decision API, gRPC", attributeParts, n.overDecisions},
		{"Go client", attributeParts, n.overGoClient},
		{"rate limit service", []string{"header", "path"}, n.overRateLimitService},
	}
}

func (n *node) overHTTP2(t *testing.T, part, spelling string) int {
	r := requestWith(part, spelling)
	header := fields{{":method", r.method}, {":scheme", "http"}, {":authority", r.host}, {":path", r.target}}
	for _, f := range r.header {
		header = append(header, [2]string{strings.ToLower(f[0]), f[1]})
	}
	replies := http2Request{header: header, body: r.body}.send(t, n.addresses["gateway"])
	if len(replies) != 1 {
		return http.StatusBadRequest // the stream is reset
	}
	return replies[0].status
}

func (n *node) overExtAuthz(t *testing.T, part, spelling string) int {
	r := requestWith(part, spelling)
	ask := &authv3.AttributeContext_HttpRequest{Method: r.method, Host: r.host, Path: r.target, HeaderMap: new(corev3.HeaderMap)}
	for _, f := range r.header {
		ask.HeaderMap.Headers = append(ask.HeaderMap.Headers, &corev3.HeaderValue{Key: strings.ToLower(f[0]), RawValue: []byte(f[1])})
	}
	address := &corev3.SocketAddress{Address: "192.0.2.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 1}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reply, err := authv3.NewAuthorizationClient(n.dialGRPC()).Check(ctx, &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source:  &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: address}}},
		Request: &authv3.AttributeContext_Request{Http: ask},
	}})
	switch {
	case err != nil:
		t.Error(err)
		return 0
	case codes.Code(reply.Status.GetCode()) == codes.OK:
		return http.StatusOK
	}
	return int(reply.GetDeniedResponse().GetStatus().GetCode())
}

// attributeParts are the parts that a program sends as attributes, as its server gave them to it.
var attributeParts = []string{"header", "path", "ip", "host"}

func attributesWith(part, spelling string) map[string]string {
	switch part {
	case "header":
		return map[string]string{"path": "/header", "key": spelling}
	case "ip":
		return map[string]string{"path": "/address", "ip": spelling}
	case "host":
		return map[string]string{"path": "/host", "host": spelling}
	}
	return map[string]string{"path": spelling}
}

func statusOf(allowed bool) int {
	if allowed {
		return http.StatusOK
	}
	return http.StatusTooManyRequests
}

func (n *node) overDecisionAPI(t *testing.T, part, spelling string) int {
	body, err := json.Marshal(map[string]any{"attributes": attributesWith(part, spelling)})
	if err != nil {
		t.Fatal(err)
	}
	res, err := n.client.Post(n.url("http", "/v1/check"), "application/json", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var verdict struct{ Allowed bool }
	if err := json.NewDecoder(res.Body).Decode(&verdict); err != nil || res.StatusCode != http.StatusOK {
		return res.StatusCode
	}
	return statusOf(verdict.Allowed)
}

func (n *node) overDecisions(t *testing.T, part, spelling string) int {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	v, err := penstockv1.NewDecisionsClient(n.dialGRPC()).Check(ctx, &penstockv1.CheckRequest{Attributes: attributesWith(part, spelling)})
	if err != nil {
		t.Fatal(err)
	}
	return statusOf(v.Allowed)
}

func (n *node) overGoClient(t *testing.T, part, spelling string) int {
	c, err := client.NewHTTP(n.url("http", ""), client.Options{Timeout: patience, OnError: client.Deny})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	call := penstock.Call{Cost: 1}
	for name, value := range attributesWith(part, spelling) {
		call.Attributes = append(call.Attributes, penstock.Attribute{Name: name, Value: value})
	}
	var v penstock.Verdict
	if err := c.Decide(t.Context(), &call, &v); err != nil {
		t.Fatal(err)
	}
	return statusOf(v.Allowed)
}

func (n *node) overRateLimitService(t *testing.T, part, spelling string) int {
	d := new(descriptorv3.RateLimitDescriptor)
	for name, value := range attributesWith(part, spelling) {
		d.Entries = append(d.Entries, &descriptorv3.RateLimitDescriptor_Entry{Key: name, Value: value})
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reply, err := n.envoy().ShouldRateLimit(ctx, &rlsv3.RateLimitRequest{Domain: penstock.DefaultDomain, Descriptors: []*descriptorv3.RateLimitDescriptor{d}})
	if err != nil {
		t.Fatal(err)
	}
	return statusOf(reply.OverallCode == rlsv3.RateLimitResponse_OK)
}

// newMiddleware serves net/http with the middleware, and returns its address.
func newMiddleware(t *testing.T, secret []byte) string {
	snapshot, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(spellingRules)}}, rules.Options{Secret: "of the tests"})
	if err != nil {
		t.Fatal(err)
	}
	store, err := memstore.New(memstore.Options{MaxBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	e, err := engine.New(engine.Options{Store: store, Rules: engine.Fixed(snapshot)})
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := jwtclaims.New(t.Context(), jwtclaims.Options{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	l, err := httplimit.New(e, httplimit.Options{ReaderOptions: httplimit.ReaderOptions{Claims: verifier.Claims, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(l.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// Spellings that common servers read as one value are one client, or are refused: at no listener does a client get a
// fresh limit by spelling a part of its request in another way.
func TestSpellingsAreOneClient(t *testing.T) {
	var classes []spellingClass
	if err := json.Unmarshal(spellings, &classes); err != nil {
		t.Fatal(err)
	}
	secret := []byte(strings.Repeat("s", 32))
	upstream := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	n := start(t, setup{rules: spellingRules, config: fmt.Sprintf("jwt: {secret: %q}\ngateway: {h2c: true}\ntrusted_proxies: [127.0.0.1]\nupstreams: [{url: %q}]\n", secret, upstream)})
	number, small := 1000, 0
	for _, l := range n.listeners(t, secret) {
		for _, class := range classes {
			if !slices.Contains(l.parts, class.Part) {
				continue
			}
			number++
			if class.Part == "address" || class.Part == "ip" {
				small++
			}
			token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": strconv.Itoa(number), "exp": time.Now().Add(time.Hour).Unix()}).SignedString(secret)
			if err != nil {
				t.Fatal(err)
			}
			fill := strings.NewReplacer("$", strconv.Itoa(number), "#", strconv.Itoa(small), "@", token)
			send := func(spelling string) int { return l.send(t, class.Part, fill.Replace(spelling)) }
			for range limitOfSpellings {
				if status := send(class.One[0]); status != http.StatusOK {
					t.Errorf("%s, %s, %q: status %d", l.name, class.Part, class.One[0], status)
				}
			}
			for _, spelling := range class.One {
				if status := send(spelling); status != http.StatusTooManyRequests && status != http.StatusBadRequest {
					t.Errorf("%s, %s, %q: status %d, which servers read as %q (%s)", l.name, class.Part, spelling, status, class.One[0], class.ReadBy)
				}
			}
			for _, spelling := range class.Others {
				if status := send(spelling); status != http.StatusOK {
					t.Errorf("%s, %s, %q: status %d, and it is another value than %q", l.name, class.Part, spelling, status, class.One[0])
				}
			}
		}
	}
	n.isWell(maxMiB)
}
