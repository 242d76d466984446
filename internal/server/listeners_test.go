package server

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/config"
)

// slowListener notices late that it is closed, as on a busy machine.
type slowListener struct{ net.Listener }

func (l slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		time.Sleep(50 * time.Millisecond)
	}
	return c, err
}

// A node that stops exits without an error, however late the goroutine that accepts connections runs.
func TestStopWhileAccepting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := &Server{config: &config.Config{}}
	stopped := make(chan error, 1)
	go func() { stopped <- s.serveHTTP(&http.Server{}, 0)(ctx, slowListener{l}) }()
	if c, err := net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	} else {
		c.Close()
	}
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
