package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine/breaker"
	"github.com/penstock-io/penstock/engine/denycache"
	"github.com/penstock-io/penstock/engine/lease"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
)

// store is where state is.
type store struct {
	shared penstock.Store
	local  penstock.Store // what counts while shared does not answer; nil if shared is in memory

	memory  *memstore.Store
	redis   *lateRedis       // nil: in memory
	breaker *breaker.Breaker // around redis
	leases  *lease.Store     // around the breaker
	denied  *denycache.Cache // around the leases
	settled chan struct{}    // closed when the store has answered, or was given up on

	nodes func() int // that share the limits
}

// patience is how long the start waits for the store. Decisions do not: the rules' on_store_error
// decides meanwhile.
const patience = time.Second

func (s *server) openStore(context.Context) error {
	memory, err := memstore.New(memstore.Options{MaxBytes: int64(s.config.Store.Memory.MaxBytes)})
	if err != nil {
		return err
	}
	s.atEnd(func() { memory.Close() })
	s.store = &store{shared: memory, memory: memory, settled: make(chan struct{}), nodes: func() int { return max(1, s.config.Nodes) }}
	if !s.config.redis() {
		close(s.store.settled)
		return nil
	}
	options, err := s.config.redisOptions()
	if err != nil {
		return err
	}
	return s.openRedis(options, memory)
}

// openRedis decides in Redis as long as that answers, and in memory when it does not.
func (s *server) openRedis(o redisstore.Options, memory penstock.Store) (err error) {
	late := newLateRedis(o)
	s.atEnd(late.Close)
	settle := sync.OnceFunc(func() { close(s.store.settled) })
	waited := time.AfterFunc(patience, func() {
		if err := *late.problem.Load(); err != nil {
			s.log.Error("Redis cannot be reached: rules decide by their on_store_error until it can", "error", err)
		}
		settle()
	})
	s.store.breaker, err = breaker.New(breaker.Options{
		Store: s.metrics.TimeStore(late, s.tracer()), Probe: late.Probe, Judge: late.judge, Down: errNotTried,
		Zones: o.Mode.Zones(), ZoneOf: o.Mode.ZoneOf,
		OnChange: func(now breaker.State, cause error) {
			switch {
			case now == breaker.Closed:
				s.log.Info("Redis decides", "addresses", o.Addresses)
				waited.Stop()
				settle()
			case cause != errNotTried:
				s.log.Error("Redis has failed: rules decide by their on_store_error until it serves again",
					"kind", redisstore.KindOf(cause), "error", cause)
			}
		},
	})
	if err != nil {
		return err
	}
	s.atEnd(func() {
		waited.Stop()
		s.store.breaker.Close()
	})
	if s.store.leases, err = lease.New(s.store.breaker, lease.Options{}); err != nil {
		return err
	}
	if s.store.denied, err = denycache.New(s.store.leases, denycache.Options{}); err != nil {
		return err
	}
	s.store.shared, s.store.local, s.store.redis = s.store.denied, memory, late
	return nil
}

// parting is how long a node that stops has to return the permits of its leases, which expire otherwise,
// and to tell Redis of admissions and releases that it does not know of.
const parting = time.Second

// returnPermits gives back what was taken ahead and not spent: before calls under way have ended, as
// by then it would have expired. Those that are still to be decided are decided by the store.
func (s *server) returnPermits() {
	if s.store.leases == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), parting)
	defer cancel()
	err := s.store.leases.Return(ctx, 0)
	stats := s.store.leases.Stats()
	log := s.log.With("taken", stats.Permits, "expired", stats.Expired, "returned", stats.Returned)
	switch {
	case err != nil:
		log.Warn("permits of leased rules were not given back", "error", err)
	case stats.Permits > 0:
		log.Info("permits of leased rules are given back")
	}
}

// status tells how the store is.
func (s *store) status() storeStatus {
	if s.redis == nil {
		return storeStatus{Kind: "memory", Connected: true, Nodes: s.nodes()}
	}
	now := s.breaker.Stats()
	found := storeStatus{
		Kind: "redis", Connected: now.State == breaker.Closed, Nodes: s.nodes(),
		Breaker: &breakerStatus{State: now.State.String(), Since: now.Since, Opened: now.Opened, Refused: now.Refused},
	}
	if !found.Connected {
		found.Error = cmp.Or(*s.redis.problem.Load(), now.Cause).Error()
	}
	return found
}

func (c *config) redisOptions() (redisstore.Options, error) {
	r := &c.Store.Redis
	secure, err := r.TLS.load()
	return redisstore.Options{
		Addresses: r.Addresses, Mode: redisstore.Mode(r.Mode), Master: r.Master,
		Username: r.Username, Password: string(r.Password),
		SentinelUsername: r.SentinelUsername, SentinelPassword: string(r.SentinelPassword),
		TLS: secure, KeyPrefix: r.KeyPrefix, Timeout: r.Timeout,
	}, err
}

// load returns nil if TLS is off.
func (t *tlsClientConfig) load() (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		pem, err := readBounded(t.CA, maxConfigFile)
		if err != nil {
			return nil, fmt.Errorf("store.redis.tls.ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("store.redis.tls.ca: %s holds no certificate in PEM", t.CA)
		}
	}
	if t.Certificate != "" {
		own, err := tls.LoadX509KeyPair(t.Certificate, t.Key)
		if err != nil {
			return nil, fmt.Errorf("store.redis.tls.certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
}
