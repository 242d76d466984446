package server

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/penstock-io/penstock/internal/console"
	"github.com/penstock-io/penstock/internal/spelling"
)

// Greet prints where each listener is, and how to try a demo.
func (s *Server) Greet(w io.Writer) {
	kind := "memory"
	if s.config.HasRedis() {
		kind = "redis " + strings.Join(s.config.Store.Redis.Addresses, ",")
	}
	fmt.Fprintf(w, "penstock %s\n  store    %s\n  rules    %s (%s)\n", s.build.Version, kind, s.rules.origin, spelling.Count(len(s.rules.live.Load().Rules), "rule"))
	for _, d := range s.allEndpoints() {
		fmt.Fprintf(w, "  %-8s %s%s\n", d.name, s.urlOf(d), d.reach())
	}
	if admin := s.endpoint("admin"); admin != nil {
		s.greetAdmin(w, admin)
	}
	s.greetDemo(w)
}

// urlOf returns what a person on this machine enters to reach an endpoint.
func (s *Server) urlOf(d *endpoint) string {
	switch {
	case d.name == "grpc":
		return d.address()
	case d.name == "gateway" && s.config.Gateway.TLS.Certificate != "", d.name == "admin" && s.config.Admin.TLS.Certificate != "":
		return "https://" + d.address()
	}
	return "http://" + d.address()
}

// greetAdmin prints how operators log in.
func (s *Server) greetAdmin(w io.Writer, admin *endpoint) {
	switch {
	case s.newToken:
		fmt.Fprintf(w, "  token    %s (shown once, kept in %s)\n", s.token, s.config.AdminTokenFile())
	case s.config.Admin.Token == "":
		fmt.Fprintf(w, "  token    in %s\n", s.config.AdminTokenFile())
	}
	if console.Built() {
		scheme, address, _ := strings.Cut(s.urlOf(admin), "://")
		fmt.Fprintf(w, "\nThe console is at %s://%s: log in with the token.\n", scheme, address)
	}
}

// greetDemo prints how to see a demo deny requests.
func (s *Server) greetDemo(w io.Writer) {
	if gateway := s.endpoint("gateway"); gateway != nil && s.config.Demo && s.config.Rules.Database != "" {
		fmt.Fprintf(w, "\nThe sample rules allow each address 10 requests per minute for /. The last response here is a 429:\n\n"+
			"  for i in $(seq 11); do curl -s -o /dev/null -w '%%{http_code}\\n' http://%s/; done\n\n", gateway.address())
	}
	switch {
	case s.demo == nil:
	case s.config.Traffic:
		fmt.Fprintf(w, "Simulated clients send up to %d requests per second. You can stop them in the console.\n\n", demoRate)
	default:
		fmt.Fprintf(w, "To generate traffic, press “Send demo traffic” in the console, or start with simulated clients:\n\n  %s serve --demo --traffic\n\n", os.Args[0])
	}
}
