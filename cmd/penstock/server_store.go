package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
)

// store is where state is.
type store struct {
	shared penstock.Store
	local  penstock.Store // what counts while shared does not answer; nil if shared is in memory

	redis   *lateRedis    // nil: in memory
	settled chan struct{} // closed when the store has answered, or was given up on
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
	s.store = &store{shared: memory, settled: make(chan struct{})}
	if !s.config.redis() {
		close(s.store.settled)
		return nil
	}
	options, err := s.config.redisOptions()
	if err != nil {
		return err
	}
	late := openLate(options, s.config.Store.Redis.Timeout, s.log)
	s.atEnd(late.Close)
	s.store.shared, s.store.local, s.store.redis = late, memory, late
	late.ended.Go(func() {
		defer close(s.store.settled)
		select {
		case <-late.opened:
		case <-late.closing.Done():
		case <-time.After(patience):
		}
	})
	return nil
}

func (c *config) redisOptions() (redisstore.Options, error) {
	r := &c.Store.Redis
	secure, err := r.TLS.load()
	return redisstore.Options{
		Addresses: r.Addresses, Mode: redisstore.Mode(r.Mode), Master: r.Master,
		Username: r.Username, Password: string(r.Password),
		SentinelUsername: r.SentinelUsername, SentinelPassword: string(r.SentinelPassword),
		TLS: secure, KeyPrefix: r.KeyPrefix, Timeout: max(r.Timeout, connecting),
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
