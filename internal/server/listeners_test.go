package server

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/nodetest"
)

// slowListener notices late that it is closed, as on a busy machine.
type slowListener struct{ net.Listener }

func (l slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		time.Sleep(50 * time.Millisecond)
	}
	return c, err
}

// A node that stops exits without an error, however late the goroutine that accepts connections runs.
func TestStopWhileAccepting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := &Server{config: &config.Config{}}
	stopped := make(chan error, 1)
	go func() { stopped <- s.serveHTTP(&http.Server{}, 0)(ctx, slowListener{l}) }()
	if c, err := net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	} else {
		c.Close()
	}
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A start whose addresses are in use names all of them, and leaves no admin token that nobody has seen.
func TestStartNamesEveryAddressInUse(t *testing.T) {
	t.Parallel()
	n := startNode(t, "rules: {file: "+nodetest.RulesFile(t, "rules: []")+"}\nlisten: {health: '127.0.0.1:0', metrics: '127.0.0.1:0'}")
	c := *n.config
	c.DataDir = t.TempDir()
	l, want := &c.Listen, ""
	for _, d := range []struct {
		name    string
		address *string
	}{{"gateway", &l.Gateway}, {"http", &l.HTTP}, {"grpc", &l.GRPC}, {"admin", &l.Admin}, {"health", &l.Health}, {"metrics", &l.Metrics}} {
		*d.address = n.endpoint(d.name).listener.Addr().String()
		want += "\nlisten." + d.name + ": listen tcp " + *d.address + ": bind: address already in use"
	}
	s, err := New(t.Context(), Options{Config: &c, Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		s.Close()
	}
	if err == nil || "\n"+err.Error() != want {
		t.Errorf("%v, want%s", err, want)
	}
	if _, err := c.ReadAdminToken(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an admin token is left: %v", err)
	}
}

// A start does not fail because of an admin address that is in use, if it is only a default.
func TestStartWithoutAdmin(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, optional := range []bool{true, false} {
		log := &nodetest.SyncBuffer{}
		s := &Server{config: &config.Config{AdminOptional: optional}, log: slog.New(slog.NewTextHandler(log, nil))}
		s.config.Listen.Admin = taken.Addr().String()
		err := s.openListeners(t.Context())
		if (err == nil) != optional || (s.config.Listen.Admin == "") != optional || strings.Contains(log.String(), taken.Addr().String()) != optional {
			t.Errorf("optional %t: %v, listen.admin %q, log %s", optional, err, s.config.Listen.Admin, log)
		}
	}
}
