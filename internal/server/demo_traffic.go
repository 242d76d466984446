package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
)

// demoTraffic sends real requests of simulated clients to this server's own gateway while it is turned on. It
// exists only if the gateway has no upstream except the demo upstream: it never sends requests to any other
// server, neither directly nor through the gateway.
type demoTraffic struct {
	gateway string // its address: every connection goes there, whatever a URL says
	client  *http.Client
	cast    *demoCast

	allowed, denied, failed atomic.Int64

	mu    sync.Mutex
	since time.Time // zero: it is off
	stop  func()    // ends it, and returns when no request is in flight
}

const (
	demoRate     = 50 // requests per second, at most
	demoAtATime  = 8  // requests in flight; while all are in use, no more are sent
	demoPatience = 5 * time.Second
)

// openDemo enables demo traffic, if this is a demo.
func (s *Server) openDemo(context.Context) error {
	gateway := s.endpoint("gateway")
	if !s.demoUpstream || gateway == nil || s.config.Gateway.TLS.Certificate != "" {
		return nil
	}
	at := gateway.listener.Addr().(*net.TCPAddr).AddrPort()
	if at.Addr().IsUnspecified() {
		at = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port())
	}
	s.demo = newDemoTraffic(at, s.demoSource)
	s.atEnd(func() { s.demo.Turn(false) })
	return nil
}

// newDemoTraffic sends requests to the gateway from a source address. The zero address lets the system choose.
func newDemoTraffic(gateway netip.AddrPort, source netip.Addr) *demoTraffic {
	d := &demoTraffic{gateway: gateway.String(), cast: newDemoCast()}
	dialer := &net.Dialer{Timeout: demoPatience}
	if source.IsValid() && gateway.Addr().Unmap().Is4() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	d.client = &http.Client{
		Timeout: demoPatience,
		Transport: &http.Transport{ // ignores proxies in the environment
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, d.gateway)
			},
			MaxConnsPerHost: demoAtATime, MaxIdleConnsPerHost: demoAtATime,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return d
}

// newDemoSource returns a loopback address of this machine that nothing else uses, so that the gateway can trust
// the client addresses in requests from it. It returns the zero address if there is none. Only a process on this
// machine can send from a loopback address.
func newDemoSource() netip.Addr {
	var random [3]byte
	rand.Read(random[:])
	source := netip.AddrFrom4([4]byte{127, 64 | random[0]&127, random[1], 1 | random[2]&126})
	l, err := net.Listen("tcp4", netip.AddrPortFrom(source, 0).String()) // systems other than Linux have 127.0.0.1 only
	if err != nil {
		return netip.Addr{}
	}
	l.Close()
	return source
}

// Turn starts or stops the requests. After it has stopped them, none is in flight.
func (d *demoTraffic) Turn(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch running := !d.since.IsZero(); {
	case on && !running:
		d.since, d.stop = time.Now(), inBackground(context.Background(), d.run)
	case !on && running:
		d.stop()
		d.since, d.stop = time.Time{}, nil
	}
}

// Status returns what was done so far.
func (d *demoTraffic) Status() admin.DemoStatus {
	told := admin.DemoStatus{Rate: demoRate, Allowed: d.allowed.Load(), Denied: d.denied.Load(), Failed: d.failed.Load()}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.since.IsZero() {
		told.Running, told.Since = true, new(d.since.UTC())
	}
	return told
}

// run starts requests at their pace, each if a worker is free.
func (d *demoTraffic) run(ctx context.Context) {
	calls := make(chan demoCall)
	var callers sync.WaitGroup
	defer callers.Wait()
	defer close(calls)
	for range demoAtATime {
		callers.Go(func() {
			for c := range calls {
				d.call(ctx, &c)
			}
		})
	}
	pace := time.NewTicker(time.Second / demoRate)
	defer pace.Stop()
	begun := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-pace.C:
			next, ok := d.cast.next(now.Sub(begun))
			if !ok {
				continue
			}
			select {
			case calls <- next:
			default:
			}
		}
	}
}

func (d *demoTraffic) call(ctx context.Context, c *demoCall) {
	status, err := d.send(ctx, c)
	switch {
	case ctx.Err() != nil: // it was turned off
	case err == nil && status == http.StatusTooManyRequests:
		d.denied.Add(1)
	case err == nil && status < http.StatusBadRequest:
		d.allowed.Add(1)
	default:
		d.failed.Add(1)
	}
}

func (d *demoTraffic) send(ctx context.Context, c *demoCall) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, c.method, "http://"+d.gateway+c.path, nil)
	if err != nil {
		return 0, fmt.Errorf("create a demo request: %w", err)
	}
	for name, value := range c.header {
		r.Header.Set(name, value)
	}
	answer, err := d.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, math.MaxUint16))
	return answer.StatusCode, err
}
