package server

import (
	"errors"
	"fmt"
	"net"
	"net/http"
)

// startDemoUpstream starts a server that answers every request, for a gateway without upstream servers. It ends
// with the server.
func (s *Server) startDemoUpstream() (address string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("start the demo upstream: %w", err)
	}
	log := s.log.With("part", "demo upstream")
	server := newHTTPServer(http.HandlerFunc(demoAnswer), log)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("demo upstream stopped", "error", err)
		}
	}()
	s.atEnd(func() {
		server.Close()
		<-ended
	})
	return listener.Addr().String(), nil
}

func demoAnswer(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(rw, "Hello from behind the gateway: %s %q\n", r.Method, r.URL.Path)
}
