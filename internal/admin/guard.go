package admin

import (
	"net/http"
	"net/netip"

	"github.com/penstock-io/penstock/internal/urlform"
)

// policy lets a page of this door load what is of this door, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
	"manifest-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// guard stands before all routes: what every answer says, and which requests are none of ours.
func (a *Admin) guard(next http.Handler) http.Handler {
	foreign := http.NewCrossOriginProtection()
	foreign.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fail(w, problem(http.StatusForbidden, Forbidden, "a page of another site asks for this"))
	}))
	next = foreign.Handler(next)
	if a.Loopback {
		next = ownHost(next)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store") // the console's files may say otherwise
		next.ServeHTTP(w, r)
	})
}

// ownHost refuses requests for other hosts at a door on loopback: a web page can make a browser
// send them, under a name of its own that leads here.
func ownHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, invalid := urlform.Host(r.Host)
		ip, err := netip.ParseAddr(host)
		if invalid != nil || host != "localhost" && (err != nil || !ip.IsLoopback()) {
			fail(w, problem(http.StatusForbidden, Forbidden, "this door answers to localhost only"))
			return
		}
		next.ServeHTTP(w, r)
	})
}
