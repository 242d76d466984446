package server

import (
	"context"
	"sync"

	"github.com/penstock-io/penstock/internal/sdnotify"
)

// Supervise reports the server's state to systemd, and reads the rules again on SIGHUP, until the context ends or
// the returned function is called.
func (s *Server) Supervise(ctx context.Context, getenv func(string) string) (end func()) {
	return inBackground(ctx, func(ctx context.Context) {
		sdnotify.Supervise(ctx, sdnotify.Options{
			Ready: s.ready, Reload: s.rules.live.Reread, Log: s.log, Getenv: getenv,
		})
	})
}

// inBackground runs a function until the context ends or the returned function is called, which waits for it.
func inBackground(ctx context.Context, run func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}
