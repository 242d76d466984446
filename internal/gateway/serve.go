package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/penstock-io/penstock/internal/connlimit"
	"github.com/penstock-io/penstock/internal/http1"
	"github.com/penstock-io/penstock/internal/serverlog"
)

// Serve serves the listener until the context ends, and then drains: it accepts no more connections, closes the open
// ones after their next response, and finishes the requests in flight, including held ones. It closes WebSockets
// last. Serve returns when all of that is done. The error says what had to be cut off, or that the listener was
// closed by other code.
//
// A gateway serves one listener at a time, and none after it has drained.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	if !g.serving.CompareAndSwap(false, true) {
		return errors.New("serve: the gateway serves or has served another listener")
	}
	checks, endChecks := context.WithCancel(context.WithoutCancel(ctx))
	var ended sync.WaitGroup
	g.startChecks(checks, &ended)
	defer ended.Wait()
	defer endChecks()

	requests, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	bounded := connlimit.New(patientListener{l, g.log}, connlimit.Options{
		Max: g.limits.MaxConnections, PerClient: connlimit.Share(g.limits.MaxConnections, g.limits.ClientShare), Exempt: g.reader.Trusts,
		Refused: func(client netip.Prefix) {
			g.log.Debug("connection refused: the client has its share", "client", client)
		},
	})
	l = bounded
	served := g.newFrontServers(requests, bounded)
	failed := make(chan error, 1)
	ended.Go(func() { failed <- g.accept(served, l) })
	var err error
	select {
	case err = <-failed:
		err = fmt.Errorf("serve %v: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	return errors.Join(err, g.drain(served, l, abandon))
}

// frontServers serve one listener.
type frontServers struct {
	common *http1.Server // of common requests; nil: all are the other's
	rest   *http.Server
}

func (g *Gateway) newFrontServers(requests context.Context, bounded *connlimit.Listener) frontServers {
	s := frontServers{rest: g.newServer(requests)}
	s.rest.ConnState = func(c net.Conn, state http.ConnState) {
		if _, handed := c.(*http1.Handed); !handed || state != http.StateNew { // else it is counted already
			g.count(state)
		}
		bounded.ConnState(c, state)
	}
	if g.fast && g.tls == nil {
		s.common = http1.New(http1.Options{
			Handler: s.rest.Handler, Context: requests, First: g.timeouts.ReadHeader, Idle: g.timeouts.Idle, ConnState: s.rest.ConnState, ErrorLog: s.rest.ErrorLog,
		})
	}
	return s
}

// accept returns when the listener is closed.
func (g *Gateway) accept(s frontServers, l net.Listener) error {
	switch {
	case g.tls != nil:
		return s.rest.ServeTLS(l, "", "")
	case s.common == nil:
		return s.rest.Serve(l)
	}
	go s.rest.Serve(s.common.Rest(l.Addr())) // until it is shut down
	return s.common.Serve(l)
}

func (s frontServers) shutdown(ctx context.Context) error {
	if s.common == nil {
		return s.rest.Shutdown(ctx)
	}
	return errors.Join(s.common.Shutdown(ctx), s.rest.Shutdown(ctx))
}

func (s frontServers) close() {
	if s.common != nil {
		s.common.Close()
	}
	s.rest.Close()
}

func (g *Gateway) newServer(requests context.Context) *http.Server {
	s := &http.Server{
		Handler:           g.Handler(),
		BaseContext:       func(net.Listener) context.Context { return requests },
		ReadHeaderTimeout: g.timeouts.ReadHeader,
		IdleTimeout:       g.timeouts.Idle,
		MaxHeaderBytes:    g.limits.MaxHeaderBytes,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: g.limits.MaxConcurrentStreams, WriteByteTimeout: g.timeouts.Write, MaxReceiveBufferPerStream: streamBuffer},
		Protocols:         new(http.Protocols),
		ErrorLog:          serverlog.New(g.log),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(g.h2c)
	if g.tls != nil {
		s.TLSConfig = g.tls.Config()
	}
	return s
}

func (g *Gateway) count(state http.ConnState) {
	switch state {
	case http.StateNew:
		g.connections.Add(1)
	case http.StateClosed, http.StateHijacked:
		g.connections.Add(-1)
	}
}

// endWithin is how long requests that were cut off have to end.
const endWithin = 10 * time.Second

// drain shuts the servers down. It first keeps idle connections open for a while: a client that has just sent its next
// request must not find its connection closed. The response tells it that this was the last one.
func (g *Gateway) drain(s frontServers, l net.Listener, abandon context.CancelFunc) error {
	g.draining.Store(true)
	l.Close() // it may be closed already
	ctx := context.Background()
	if g.timeouts.Drain > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, g.timeouts.Drain)
		defer cancel()
	}
	lingering, cancelLingering := context.WithTimeout(ctx, g.timeouts.Linger)
	defer cancelLingering()
	waitUntil(lingering, func() bool { return g.connections.Load() == 0 })

	var err error
	if s.shutdown(ctx) != nil {
		err = fmt.Errorf("drain: %d requests had not ended after %v", g.requests.Load(), g.timeouts.Drain)
	}
	abandon()
	s.close()
	ending, cancelEnding := context.WithTimeout(context.Background(), endWithin)
	defer cancelEnding()
	waitUntil(ending, func() bool { return g.requests.Load() == 0 })
	for _, r := range g.routes {
		r.closeIdle()
	}
	return err
}

// A patientListener never fails for lack of resources: files and memory will become free again. net/http waits and
// retries after errors that say they are temporary.
type patientListener struct {
	net.Listener
	log *slog.Logger
}

func (l patientListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		l.log.Warn("cannot accept connections", "error", err)
		err = temporary{err}
	}
	return conn, err
}

type temporary struct{ error }

func (temporary) Temporary() bool { return true }
func (temporary) Timeout() bool   { return false }

func waitUntil(ctx context.Context, done func() bool) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
