package server

import (
	"context"
	"sync"

	"github.com/penstock-io/penstock/internal/sdnotify"
)

// Supervise reports the server's state to systemd, and reads the rules again on SIGHUP, until the context ends or
// the returned function is called.
func (s *Server) Supervise(ctx context.Context, getenv func(string) string) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		sdnotify.Supervise(ctx, sdnotify.Options{
			Ready: s.ready, Reload: s.rules.live.Reread, Log: s.log, Getenv: getenv,
		})
	})
	return func() {
		cancel()
		running.Wait()
	}
}
