package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/console"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/memstore"
)

// openAdmin sets up the admin API, for operators.
func (s *Server) openAdmin(context.Context) error {
	if s.config.Listen.Admin == "" {
		return nil
	}
	certificates, err := s.certificates("admin", s.config.Admin.TLS.Server())
	if err != nil {
		return err
	}
	handler, err := s.newAdmin()
	if err != nil {
		return err
	}
	server := s.operate("admin", handler)
	if certificates != nil {
		server.TLSConfig = certificates.Config()
	}
	return nil
}

func (s *Server) newAdmin() (http.Handler, error) {
	if err := s.openToken(); err != nil {
		return nil, err
	}
	store, ok := s.store.Shared.(admin.Store)
	if !ok {
		return nil, fmt.Errorf("the admin API cannot use a store of type %T", s.store.Shared)
	}
	options := admin.Options{
		Token: s.token, ViewerToken: string(s.config.Admin.ViewerToken), Hosts: s.config.Hosts(s.config.Listen.Admin),
		Status: s.status, Nodes: s.members.All, Ready: s.ready, Store: store, Local: s.store.Local, Blocks: s.blocks, Forget: s.engine.Load().Forget, Scratch: newScratch, ToolStore: newToolStore,
		Rules:        admin.Rules{Live: s.rules.live, Origin: s.rules.origin, Kind: rulesKind(&s.config.Rules), Service: s.rules.service, Compile: s.rules.compile},
		Entitlements: s.rules.table(),
		Traffic:      s.traffic, Fleet: s.fleet, Metrics: s.metrics.Handler(), Console: console.Handler(), Log: s.log.With("listener", "admin"),
	}
	if s.demo != nil {
		options.Demo = s.demo
	}
	if source := string(s.config.Admin.Database); source != "" {
		people, err := ruledb.NewOrigin(source, ruledb.Options{})
		if err != nil {
			return nil, fmt.Errorf("admin.database: %w", err)
		}
		s.atEnd(func() { people.Close() })
		options.People = people.DB
	}
	api, err := admin.New(options)
	if err != nil {
		return nil, err
	}
	s.streams, s.refusedLogins = api.Drain, api.RefusedLogins
	s.atEnd(func() { api.Close() })
	return api, nil
}

// openToken sets the operators' token: the configured one, or one that is generated at the first start and kept.
// If it cannot be kept, it changes with every start.
func (s *Server) openToken() (err error) {
	if s.token = string(s.config.Admin.Token); s.token != "" {
		return nil
	}
	if s.token, err = s.config.ReadAdminToken(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.token, s.newToken = config.NewToken(), true
	kept, err := config.KeepSecret(s.config.AdminTokenFile(), s.token)
	if err != nil {
		s.log.Warn("cannot save the admin token: a new one is generated on every start", "next", "make data_dir writable, or set admin.token_file", "error", err)
		return nil
	}
	s.token = kept
	return nil
}

// rulesKind returns where the rules come from.
func rulesKind(r *config.Rules) admin.Kind {
	switch {
	case r.IsEnvoy():
		return admin.Envoy
	case r.File != "":
		return admin.Files
	case r.Redis:
		return admin.Redis
	}
	return admin.Database
}

// newScratch returns a temporary store, for counting outside of requests.
func newScratch() (admin.Scratch, error) { return memstore.New(memstore.Options{MaxBytes: 16 << 20}) }

// A toolStore is a memory store that tools count in.
type toolStore struct{ *memstore.Store }

func newToolStore(maxBytes int64) (admin.ToolStore, error) {
	store, err := memstore.New(memstore.Options{MaxBytes: maxBytes})
	return toolStore{store}, err
}

func (s toolStore) Bytes() int64 { return s.Stats().Bytes }

func (s toolStore) Full() bool {
	stats := s.Stats()
	return stats.Shared+stats.Refused > 0
}

func (s *Server) status() admin.Status {
	found := admin.Status{
		Node: s.members.All()[0].Node.Name, Build: s.build, Started: s.started.UTC(), Uptime: time.Since(s.started).Seconds(), Ready: true, Addresses: map[string]string{},
		Store: s.store.status(), Rules: (&admin.Rules{Live: s.rules.live, Origin: s.rules.origin}).Status(),
		Certificates: s.certificateStatuses(),
	}
	if err := s.ready(); err != nil {
		found.Ready, found.NotReady = false, err.Error()
	}
	for _, d := range s.allEndpoints() {
		found.Addresses[d.name] = d.listener.Addr().String()
	}
	if s.gateway != nil {
		found.Upstreams = s.gateway.Health()
	}
	return found
}
