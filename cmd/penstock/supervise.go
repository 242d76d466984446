package main

import (
	"context"
	"sync"

	"github.com/penstock-io/penstock/internal/sdnotify"
)

// supervise tells systemd how the server is, and reads the rules again on SIGHUP, until the context ends or the
// returned function is called.
func (a *app) supervise(ctx context.Context, s *server) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		sdnotify.Supervise(ctx, sdnotify.Options{
			Ready: s.ready, Reload: s.rules.live.Reread, Log: s.log, Getenv: a.getenv,
		})
	})
	return func() {
		cancel()
		running.Wait()
	}
}
