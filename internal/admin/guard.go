package admin

import (
	"net/http"

	"github.com/penstock-io/penstock/internal/webguard"
)

// policy lets a page of this origin load resources of this origin only.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
	"manifest-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// guard sets the headers of every response and refuses cross-origin requests.
func (a *Admin) guard(next http.Handler) http.Handler {
	next = webguard.Handler(next, webguard.Options{
		Hosts: a.Hosts, Pages: true, Open: []string{"/healthz", "/readyz"},
		Refuse: func(w http.ResponseWriter, reason string) {
			fail(w, refuse(http.StatusForbidden, Forbidden, reason))
		},
	})
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
