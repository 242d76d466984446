// Package webguard refuses requests that a web page makes a browser send to an API that it should not reach:
// cross-origin requests, and DNS rebinding, where a page's own name suddenly resolves to an address that only this
// machine or network can reach.
package webguard

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/penstock-io/penstock/internal/urlform"
)

// Hosts are the names and addresses under which a listener is reached. The zero value accepts any.
type Hosts struct {
	// Loopback says that only this machine can reach the listener. It accepts loopback addresses,
	// localhost and Names.
	Loopback bool

	// Names are further names of the listener; *.example.com matches every name below example.com. If there are any,
	// a listener beyond loopback accepts only these names and addresses.
	Names []string
}

// Options describe an API.
type Options struct {
	Hosts Hosts

	// Pages says that the API serves pages, which may send it requests. Otherwise no page may.
	Pages bool

	// Open are paths that are not guarded: health checks send unusual hosts, and these paths reveal nothing else.
	Open []string

	// Relayed are paths at which proxies forward headers of their own clients. An origin in them is not about this
	// request.
	Relayed []string

	// Refuse writes the response to a refused request, with 403.
	Refuse func(w http.ResponseWriter, reason string)
}

// Handler returns a handler that passes requests to next if o allows them.
func Handler(next http.Handler, o Options) http.Handler {
	var sameOrigin http.CrossOriginProtection
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(o.Open, r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		err := o.Hosts.check(r.Host)
		switch {
		case err != nil || slices.Contains(o.Relayed, r.URL.Path):
		case o.Pages && sameOrigin.Check(r) != nil, !o.Pages && fromPage(r):
			err = errors.New("cross-origin request: web pages may not call this API")
		}
		if err != nil {
			o.Refuse(w, err.Error())
			return
		}
		next.ServeHTTP(w, r)
	})
}

// fromPage reports whether a browser sends the request for a page, of any origin. Browsers send the origin with every
// request that is not GET or HEAD.
func fromPage(r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
		return false
	}
	site := r.Header.Get("Sec-Fetch-Site") // "none" means that the user started it
	return r.Header.Get("Origin") != "" || site != "" && site != "none"
}

// check returns why a Host header is not accepted. Browsers always send one, so a request without it does not come
// from a browser. Names without a dot are accepted: no site on the internet has one, but proxies send such names, for
// example that of an upstream block.
func (h *Hosts) check(header string) error {
	if header == "" || !h.Loopback && len(h.Names) == 0 {
		return nil
	}
	host, err := urlform.Host(header)
	if err != nil {
		return err
	}
	ip, err := netip.ParseAddr(host)
	isIP := err == nil
	switch {
	case isIP && (!h.Loopback || ip.Unmap().IsLoopback()):
	case !isIP && !strings.Contains(host, "."), strings.HasSuffix(host, ".localhost"):
	case slices.ContainsFunc(h.Names, func(name string) bool { return matches(name, host) }):
	default:
		return fmt.Errorf("host %q is not allowed; if this server is reached by that name, or a proxy sends its client's Host, add it to listen.hosts", host)
	}
	return nil
}

func matches(name, host string) bool {
	if below, ok := strings.CutPrefix(name, "*"); ok {
		return strings.HasSuffix(host, below)
	}
	return host == name
}

// CheckName returns why an entry of Hosts.Names is invalid.
func CheckName(entry string) error {
	name := strings.TrimPrefix(entry, "*.")
	if host, err := urlform.Host(name); err != nil || host != name {
		return fmt.Errorf("%.100q is not a host name in lower case, without port, such as penstock.example.com or *.example.com", entry)
	}
	return nil
}

// CheckJSON returns why a body is not accepted. Browsers let a page send application/json to another origin only if
// that origin allows it, which no listener does.
func CheckJSON(h http.Header) error {
	given := h.Get("Content-Type")
	media, parameters, err := mime.ParseMediaType(given)
	if err != nil || media != "application/json" {
		return fmt.Errorf("content type %.100q must be application/json", given)
	}
	for name, value := range parameters {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return fmt.Errorf("content type %.100q must be application/json, in UTF-8", given)
		}
	}
	if coding := h.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return fmt.Errorf("content encoding %.100q is not supported; send the body unencoded", coding)
	}
	return nil
}
