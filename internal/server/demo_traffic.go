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

// demoTraffic makes real calls of made-up callers to this server's own gateway, when it is turned on.
// There is one only where the gateway stands before the demo upstream: nobody else is ever called,
// neither directly nor through the gateway.
type demoTraffic struct {
	gateway string // its address: where every connection goes, whatever a URL says
	client  *http.Client
	cast    *demoCast

	allowed, denied, failed atomic.Int64

	mu    sync.Mutex
	since time.Time // zero: it is off
	stop  func()    // ends it, and returns when no call is under way
}

const (
	demoRate     = 50 // calls a second, at most
	demoAtATime  = 8  // calls under way; while all are, none are begun
	demoPatience = 5 * time.Second
)

// openDemo makes demo traffic possible, if this is a demo.
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

// newDemoTraffic calls the gateway from a source; the zero one is whichever the system takes.
func newDemoTraffic(gateway netip.AddrPort, source netip.Addr) *demoTraffic {
	d := &demoTraffic{gateway: gateway.String(), cast: newDemoCast()}
	dialer := &net.Dialer{Timeout: demoPatience}
	if source.IsValid() && gateway.Addr().Unmap().Is4() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	d.client = &http.Client{
		Timeout: demoPatience,
		Transport: &http.Transport{ // no proxy of the environment
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, d.gateway)
			},
			MaxConnsPerHost: demoAtATime, MaxIdleConnsPerHost: demoAtATime,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return d
}

// newDemoSource returns an address of this machine that nobody else uses, for the gateway to believe
// where calls from it come from; the zero one where there is none to be had. Only a process of this
// machine can call from an address of loopback.
func newDemoSource() netip.Addr {
	var random [3]byte
	rand.Read(random[:])
	source := netip.AddrFrom4([4]byte{127, 64 | random[0]&127, random[1], 1 | random[2]&126})
	l, err := net.Listen("tcp4", netip.AddrPortFrom(source, 0).String()) // other systems than Linux have 127.0.0.1 only
	if err != nil {
		return netip.Addr{}
	}
	l.Close()
	return source
}

// Turn starts the calls or ends them. When it has ended them, none is under way.
func (d *demoTraffic) Turn(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch running := !d.since.IsZero(); {
	case on && !running:
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		all.Go(func() { d.run(ctx) })
		d.since, d.stop = time.Now(), func() {
			cancel()
			all.Wait()
		}
	case !on && running:
		d.stop()
		d.since, d.stop = time.Time{}, nil
	}
}

// Status tells what was done so far.
func (d *demoTraffic) Status() admin.DemoStatus {
	told := admin.DemoStatus{Rate: demoRate, Allowed: d.allowed.Load(), Denied: d.denied.Load(), Failed: d.failed.Load()}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.since.IsZero() {
		since := d.since.UTC()
		told.Running, told.Since = true, &since
	}
	return told
}

// run begins calls at their pace, each if somebody is free to make it.
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
	case err != nil:
		d.failed.Add(1)
	case status == http.StatusTooManyRequests:
		d.denied.Add(1)
	case status < http.StatusBadRequest:
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
