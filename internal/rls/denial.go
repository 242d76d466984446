package rls

import (
	"net/http"
	"strings"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/httplimit"
)

// A Body is the kind of body of a denial.
type Body string

const (
	ProblemBody Body = "json"  // application/problem+json
	PlainBody   Body = "plain" // a sentence
	NoBody      Body = "none"
)

// denyWith writes a denial with the configured body.
func (s *Server) denyWith(to *reply, r *http.Request, v *penstock.Verdict) {
	s.Writer.Deny(to, r, v)
	s.replaceBody(to, httplimit.Detail(v))
}

// replaceBody writes a body other than a problem, if configured. It sets no Content-Type: Envoy adds text/plain, and
// makes the body the grpc-message of a gRPC response, which must stay application/grpc.
func (s *Server) replaceBody(to *reply, sentence string) {
	if s.DenialBody == ProblemBody {
		return
	}
	to.Header().Del("Content-Type")
	to.body.Reset()
	if s.DenialBody == PlainBody {
		to.body.WriteString(sentence)
	}
}

// keepLimits removes the headers that only a denial has: Retry-After, Content-Type, Cache-Control and others. Envoy
// adds the headers to the upstream's response if it does not enforce the denial.
func keepLimits(h http.Header) {
	for name := range h {
		if !strings.HasPrefix(strings.TrimPrefix(strings.ToLower(name), "x-"), "ratelimit") {
			delete(h, name)
		}
	}
}
