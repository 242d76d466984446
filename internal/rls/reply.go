package rls

import (
	"bytes"
	"net/http"
	"slices"
)

// A reply is the response that httplimit would have sent to the client, for Envoy to send instead.
type reply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *reply) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

func (r *reply) WriteHeader(status int) { r.status = status }

func (r *reply) Write(p []byte) (int, error) { return r.body.Write(p) }

// anyRequest is an unknown request.
var anyRequest = &http.Request{Method: http.MethodGet, Header: http.Header{}}

const contentLength = "Content-Length"

// lines yields every header, sorted by name. It leaves out the length of the body, which Envoy sets.
func (r *reply) lines(yield func(name, value string) bool) {
	var room [8]string
	names := room[:0]
	for name := range r.header {
		if name != contentLength {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range r.header[name] {
			if !yield(name, value) {
				return
			}
		}
	}
}
