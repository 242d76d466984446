package server

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/gateway"
)

func (s *Server) newGateway() (serve, error) {
	options := s.readerOptions()
	options.MaxDelay = s.config.Gateway.MaxDelay
	if len(s.config.Upstreams) == 0 { // this is a demo
		address, err := s.startDemoUpstream()
		if err != nil {
			return nil, err
		}
		u := config.DefaultUpstream()
		u.URL = "http://" + address
		s.config.Upstreams = []config.Upstream{u}
		s.demoUpstream, s.demoSource = true, newDemoSource()
		if s.demoSource.IsValid() {
			options.TrustedProxies = append(options.TrustedProxies, netip.PrefixFrom(s.demoSource, s.demoSource.BitLen()))
		}
	}
	reader, err := httplimit.NewReader(options)
	if err != nil {
		return nil, err
	}
	// Pass only what decides and concludes, so that attributes are not checked: the same rules serve the decision
	// APIs, whose clients send attributes that no request at the gateway has.
	decides := struct {
		penstock.Decider
		penstock.Concluder
		earlyDecider
	}{s.decider, s.decider, s.decider}
	limiter, err := httplimit.New(decides, httplimit.Options{
		ReaderOptions: options, WriterOptions: httplimit.WriterOptions{Headers: s.config.Headers},
		MaxHeld: gateway.Connections(s.config.Gateway.Limits.Connections), MaxHeldBytes: int64(s.config.Gateway.Limits.HeldBytes),
	})
	if err != nil {
		return nil, err
	}
	s.held = limiter.Held
	o := gatewayOptions(s.config)
	o.Limiter, o.Reader, o.Log = limiter, reader, s.log.With("listener", "gateway")
	o.Sources, o.ProxyHeader = s.decider.Sources, s.config.ClientIP.Header
	if s.tracing != nil {
		o.Around = s.tracing.Handler
	}
	var unreadable error
	o.TLS, unreadable = s.certificates("gateway", s.config.Gateway.TLS)
	if s.gateway, err = gateway.New(o); err != nil || unreadable != nil {
		return nil, errors.Join(unreadable, err)
	}
	return s.gateway.Serve, nil
}

// An earlyDecider decides requests before their body is read.
type earlyDecider interface {
	DecideEarly(ctx context.Context, c *penstock.Call, v *penstock.Verdict, peek bool) bool
}

func gatewayOptions(c *config.Config) gateway.Options {
	g := &c.Gateway
	o := gateway.Options{
		H2C: g.H2C, FastPath: g.FastPath, KeepEscapedSlashes: g.Slashes, ForwardHeaders: g.Headers, Trace: g.Trace,
		Limits: gateway.Limits{
			MaxHeaderBytes: int(g.Limits.HeaderBytes), MaxBody: int64(g.Limits.BodyBytes),
			MaxQueryParameters: g.Limits.QueryParameters, MaxConnections: g.Limits.Connections, ClientShare: c.Listen.Share,
			MinBodyRate: zeroIsNone(int64(g.Limits.BodyRate)), MaxConcurrentStreams: g.Limits.Streams, MaxUpstream: g.Limits.UpstreamConnections,
		},
		Timeouts: gateway.Timeouts{
			ReadHeader: zeroIsNone(g.Timeouts.ReadHeader), Idle: zeroIsNone(g.Timeouts.Idle), Body: zeroIsNone(g.Timeouts.Body),
			Write: zeroIsNone(g.Timeouts.Write), Tunnel: zeroIsNone(g.Timeouts.Tunnel), Dial: zeroIsNone(g.Timeouts.Dial), ResponseHeader: zeroIsNone(g.Timeouts.ResponseHeader),
			Request: zeroIsNone(g.Timeouts.Request), Drain: zeroIsNone(g.Timeouts.Drain),
		},
	}
	for _, u := range c.Upstreams {
		to := gateway.Upstream{Host: u.Host, Path: u.Path, URLs: u.Servers(), RewriteHost: u.RewriteHost, RootCAs: u.CA, Count5xx: u.Health.Count5xx}
		if h := u.Health; h.Path != "" {
			to.Health = &gateway.HealthCheck{
				Path: h.Path, Interval: h.Interval, Timeout: h.Timeout,
				Status: h.Status, Healthy: h.Healthy, Unhealthy: h.Unhealthy,
			}
		}
		o.Upstreams = append(o.Upstreams, to)
	}
	return o
}

// zeroIsNone converts 0, which means none in the configuration, to the gateway's value for none.
func zeroIsNone[N time.Duration | int64](n N) N {
	if n == 0 {
		return -1
	}
	return n
}
