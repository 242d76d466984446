package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/penstock-io/penstock/internal/poll"
)

// startChecks probes all servers that have a health check, until the context ends.
func (g *Gateway) startChecks(ctx context.Context, ended *sync.WaitGroup) {
	for _, r := range g.routes {
		if r.health == nil {
			continue
		}
		for _, s := range r.servers {
			ended.Go(func() { r.keepChecking(ctx, s) })
		}
	}
}

func (r *route) keepChecking(ctx context.Context, s *server) {
	good, bad := 0, 0
	probe := func() {
		if err := r.check(ctx, s); err == nil {
			good, bad = good+1, 0
		} else {
			good, bad = 0, bad+1
			if bad >= r.health.Unhealthy && ctx.Err() == nil {
				s.checked(false, err)
			}
		}
		if good >= r.health.Healthy {
			s.checked(true, nil)
		}
	}
	probe()
	poll.Every(ctx, r.health.Interval, nil, probe)
}

// check probes a server once.
func (r *route) check(ctx context.Context, s *server) error {
	ctx, cancel := context.WithTimeout(ctx, r.health.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address.Scheme+"://"+s.address.Host+r.health.Path, nil)
	if err != nil {
		return err
	}
	if !r.rewriteHost && r.below == "" {
		req.Host = r.host
	}
	req.Header.Set("User-Agent", "penstock-health-check")
	res, err := r.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	io.CopyN(io.Discard, res.Body, 64<<10) // a body read to its end lets the connection be reused
	want := r.health.Status
	if want != 0 && res.StatusCode != want || want == 0 && (res.StatusCode < 200 || res.StatusCode > 399) {
		return fmt.Errorf("GET %s: status %d", r.health.Path, res.StatusCode)
	}
	return nil
}
