package api

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/onevalue"
	"github.com/penstock-io/penstock/internal/problem"
)

// auth answers a proxy that asks about a request of its client: with 200, or with the response for the client.
//
// A proxy that can send a request after the response reports how it ended: to the reservation in the header
// X-Penstock-Reservation, or by the request id that it gave. If none comes, a permit is free again when its time to
// live ends, and a charge that the response would have corrected stays. Requests are not held for a leaky bucket, as
// proxies do not wait for long: a request that would have to wait is denied.
func (a *api) auth(w http.ResponseWriter, r *http.Request) {
	x := a.begin()
	defer a.end(x)
	deny, err := denyStatus(r.URL)
	id, bad := requestID(r.URL)
	by, badCache := cacheBy(r.URL)
	if err = cmp.Or(err, bad, badCache); err == nil {
		err = a.trust(r)
	}
	asked := r
	if err == nil {
		asked, err = original(r)
	}
	if err == nil {
		if err = a.Reader.Read(asked, &x.call); asked.Body != nil {
			defer asked.Body.Close()
		}
	}
	if err == nil {
		x.call.MaxDelay = 0
		x.call.CacheBy = a.cachedAttributes(by, asked, &x.call)
		err = requestErrors(a.Decider.Decide(r.Context(), &x.call, &x.verdict))
	}
	switch {
	case err != nil:
		refuse(w, err, deny)
	case x.verdict.Allowed:
		w.Header().Set("Cache-Control", "no-store")
		a.Writer.Headers(w.Header(), &x.verdict)
		a.expectReport(w, id, &x.verdict)
		w.WriteHeader(http.StatusOK)
	default:
		allowCaching(w.Header(), x.verdict.CacheFor)
		a.Writer.DenyWith(w, asked, &x.verdict, disguised(w, httplimit.Status(&x.verdict), deny))
	}
}

// reservationHeader names what a request has reserved, for the report of the proxy.
const reservationHeader = "X-Penstock-Reservation"

// expectReport tells the proxy what to report, and remembers the id under which it will.
func (a *api) expectReport(w http.ResponseWriter, id string, v *penstock.Verdict) {
	if v.Reservation == "" {
		return
	}
	w.Header().Set(reservationHeader, v.Reservation)
	if id != "" {
		a.requests.remember(id, v)
	}
}

// denyStatus returns the status that a proxy wants for every denial, or 0 to keep the original status. The first of
// several values counts: a proxy that adds its client's query to its own adds it at the end.
func denyStatus(u *url.URL) (int, error) {
	text := u.Query().Get("deny_status")
	switch text {
	case "":
		return 0, nil
	case "401", "403", "429":
		return strconv.Atoi(text)
	}
	return 0, fmt.Errorf("deny_status is %.20q; it can be 401, 403 or 429", text)
}

// disguised returns the status to send. If it is not the original one, that one is sent in a header.
func disguised(w http.ResponseWriter, status, deny int) int {
	if deny == 0 {
		return status
	}
	w.Header().Set("X-Penstock-Status", strconv.Itoa(status))
	return deny
}

// refuse answers a request that cannot be decided. To the proxy it is a denial.
func refuse(w http.ResponseWriter, err error, deny int) {
	p := problemOf(http.StatusBadRequest, err)
	if bad, ok := errors.AsType[*httplimit.RequestError](err); ok {
		p.Status, p.Title, p.Detail = bad.Status, http.StatusText(bad.Status), bad.Detail
	}
	problem.Write(w, disguised(w, p.Status, deny), p)
}

// trust returns why a peer is not trusted.
func (a *api) trust(r *http.Request) error {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return fmt.Errorf("the peer's address %.60q cannot be read", r.RemoteAddr)
	}
	addr := peer.Addr().Unmap().WithZone("")
	if a.Reader.Trusts(addr) {
		return nil
	}
	detail := fmt.Sprintf("%v is not a trusted proxy: add %v or its network to trusted_proxies", addr, netip.PrefixFrom(addr, addr.BitLen()))
	a.untrusted.Do(func() { a.Log.Warn("forward-auth refused", slog.String("reason", detail)) })
	return &httplimit.RequestError{Status: http.StatusForbidden, Detail: detail}
}

// original returns the request that a trusted proxy asks about. Headers that a proxy does not set itself can come
// from its client. So headers with the same meaning must agree; otherwise a client could choose what it is counted
// as.
func original(r *http.Request) (*http.Request, error) {
	uri, errURI := agreedValue(r.Header, "X-Forwarded-Uri", "X-Original-Uri", "X-Original-Url")
	method, errMethod := agreedValue(r.Header, "X-Forwarded-Method", "X-Original-Method")
	target, errTarget := parseTarget(uri)
	if errURI != nil {
		errTarget = nil
	}
	if errMethod == nil && !isToken(method) {
		errMethod = fmt.Errorf("invalid method %.20q", method)
	}
	host, errHost := atMostOne(r.Header, "X-Forwarded-Host")
	if err := errors.Join(errURI, errTarget, errMethod, errHost); err != nil {
		return nil, err
	}
	asked := *r
	asked.Method, asked.URL, asked.RequestURI, asked.TLS = method, target, uri, nil // the connection is the proxy's
	if host != "" {
		asked.Host = host
	}
	return &asked, nil
}

// agreedValue returns the value of the headers that are present, which must all agree.
func agreedValue(h http.Header, names ...string) (string, error) {
	found := ""
	for _, name := range names {
		value, err := atMostOne(h, name)
		switch {
		case err != nil:
			return "", err
		case value == "" || value == found:
		case found == "":
			found = value
		default:
			return "", fmt.Errorf("%v contradict each other: let the proxy set one and remove the others", names)
		}
	}
	if found == "" {
		return "", fmt.Errorf("%v are all missing: let the proxy set one", names)
	}
	return found, nil
}

func atMostOne(h http.Header, name string) (string, error) {
	if n := len(h[name]); n > 1 {
		return "", fmt.Errorf("%s is given %d times: let the proxy replace what its client sends", name, n)
	}
	return onevalue.Trim(h.Get(name)), nil
}

// parseTarget parses a path with a query, or a whole URL.
func parseTarget(uri string) (*url.URL, error) {
	target, err := url.ParseRequestURI(uri)
	if err != nil || target.Opaque != "" {
		return nil, fmt.Errorf("the URI %.100q is neither a path nor a URL", uri)
	}
	return target, nil
}

func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return s != ""
}
