package stack_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/ruleservice"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/rules/live"
	"github.com/penstock-io/penstock/stack"
	"github.com/penstock-io/penstock/stack/database"
)

// patience bounds the wait for events that must happen: no test depends on how soon.
const patience = 30 * time.Second

// secret is as long as a secret must be.
const secret = "0123456789abcdef"

const tenADay = "attributes: {user: {header: X-User}}\nrules: [{name: ten, key: [user], limits: [{rate: 10/1d, algorithm: token_bucket}]}]\n"

func rulesFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func open(t *testing.T, c stack.Config) *stack.Stack {
	t.Helper()
	c.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	s, err := stack.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // Redis may be unavailable
	return s
}

func on(server *redistest.Server) redisstore.Options {
	return redisstore.Options{Addresses: []string{server.Addr}, Timeout: patience}
}

// decide asks once, for a user.
func decide(t *testing.T, s *stack.Stack, user string) *penstock.Verdict {
	t.Helper()
	var v penstock.Verdict
	err := s.Decide(t.Context(), &penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "user", Value: user}}}, &v)
	if err != nil && !errors.Is(err, penstock.ErrUnavailable) {
		t.Error(err)
	}
	return &v
}

// awaitRedis waits until Redis decides.
func awaitRedis(t *testing.T, s *stack.Stack) {
	t.Helper()
	for end := time.Now().Add(patience); decide(t, s, "nobody").Quality != penstock.QualityExact; {
		if time.Now().After(end) {
			t.Fatal("Redis never decides")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Nodes share a limit exactly, and each continues from there while Redis is unavailable.
func TestNodesShareTheLimit(t *testing.T) {
	server := redistest.Start(t)
	file := rulesFile(t, tenADay)
	nodes := []*stack.Stack{open(t, stack.Config{Rules: file, Redis: on(server), Secret: secret}), open(t, stack.Config{Rules: file, Redis: on(server), Secret: secret})}
	var passed atomic.Int64
	var all sync.WaitGroup
	for _, s := range nodes {
		awaitRedis(t, s)
	}
	for i := range 40 {
		all.Go(func() {
			if decide(t, nodes[i%2], "alice").Allowed {
				passed.Add(1)
			}
		})
	}
	all.Wait()
	if passed.Load() != 10 {
		t.Errorf("%d requests passed at a limit of 10", passed.Load())
	}
	for range 6 {
		decide(t, nodes[0], "bob")
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	more := 0
	for range 20 {
		if v := decide(t, nodes[0], "bob"); v.Allowed {
			more++
			if v.Quality != penstock.QualityLocal {
				t.Errorf("without Redis a request passed by %v", v.Quality)
			}
		}
	}
	if more != 4 {
		t.Errorf("%d more passed without Redis after 6 of 10, want 4", more)
	}
}

func TestInMemory(t *testing.T) {
	var observed atomic.Int64
	s := open(t, stack.Config{Rules: rulesFile(t, tenADay), Observe: func(*engine.Observation) { observed.Add(1) }})
	passed := 0
	for range 12 {
		if decide(t, s, "alice").Allowed {
			passed++
		}
	}
	if passed != 10 || observed.Load() != 12 || s.Rules().Load().Rules[0].Name != "ten" {
		t.Errorf("%d passed, %d observed", passed, observed.Load())
	}
}

// Rules in a database are those that penstock rules apply has written there.
func TestRulesFromADatabase(t *testing.T) {
	source := "sqlite:" + filepath.Join(t.TempDir(), "rules.db")
	written, err := ruledb.NewOrigin(source, ruledb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer written.Close()
	service := &ruleservice.Service{Database: written}
	if _, err := service.Apply(t.Context(), "rules.yaml", ruledb.Change{Author: "a", Message: "m", Document: []byte(tenADay)}); err != nil {
		t.Fatal(err)
	}
	origin, err := database.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer origin.Close()
	s := open(t, stack.Config{Origin: origin})
	defer s.Close()
	if v := decide(t, s, "alice"); !v.Allowed || v.Rule != "ten" || v.RulesVersion != 1 {
		t.Errorf("%+v", v)
	}
}

func TestOpenFails(t *testing.T) {
	file := rulesFile(t, tenADay)
	for name, c := range map[string]stack.Config{
		"no rules":       {},
		"a bad document": {Rules: rulesFile(t, "rules: [{}]")},
		"a bad address":  {Rules: file, Redis: redisstore.Options{Addresses: []string{"nowhere"}}, Secret: secret},
		"negative nodes": {Rules: file, Nodes: -1},
	} {
		s, err := stack.Open(context.Background(), c)
		if err == nil {
			s.Close()
			t.Errorf("%s: no error", name)
		}
	}
	var problems rules.Problems
	_, err := stack.Open(t.Context(), stack.Config{Rules: rulesFile(t, "rules: [{}]")})
	if !errors.As(err, &problems) {
		t.Errorf("%v does not tell where the document is wrong", err)
	}
}

// noOrigin is an origin that is a nil pointer, as it is if an error was ignored.
type noOrigin struct{ live.Origin }

// Open reports all errors of the configuration, and what to do about them.
func TestOpenReportsEveryError(t *testing.T) {
	file := rulesFile(t, tenADay)
	one := redisstore.Options{Addresses: []string{"127.0.0.1:1"}}
	for name, test := range map[string]struct {
		config stack.Config
		want   []string
	}{
		"no secret": {stack.Config{Rules: file, Redis: one}, []string{"no Secret given", "openssl rand -hex 32"}},
		"a short secret": {stack.Config{Rules: file, Redis: one, Secret: secret[1:]},
			[]string{"a Secret of 15 bytes; must be at least 16", "openssl rand -hex 32"}},
		"options without addresses": {
			stack.Config{Rules: file, Redis: redisstore.Options{Mode: redisstore.Cluster, Password: "hunter2", TLS: new(tls.Config)}},
			[]string{"redis options without Addresses: Mode, Password, TLS; set Addresses"},
		},
		"an empty list of addresses": {
			stack.Config{Rules: file, Redis: redisstore.Options{Addresses: []string{}, KeyPrefix: "a:"}},
			[]string{"redis options without Addresses: KeyPrefix;"},
		},
		"both":           {stack.Config{Rules: file, Origin: noOrigin{}}, []string{"both Rules and Origin are set"}},
		"nil origin":     {stack.Config{Origin: (*noOrigin)(nil)}, []string{"the Origin is a nil *stack_test.noOrigin; check the error"}},
		"several errors": {stack.Config{Nodes: -1, Redis: redisstore.Options{Addresses: []string{"nowhere"}}}, []string{"no rules given", "-1 nodes", "addresses[0]", "no Secret given"}},
	} {
		s, err := stack.Open(t.Context(), test.config)
		if err == nil {
			s.Close()
		}
		for _, want := range test.want {
			if !errors.Is(err, penstock.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no word of %q in: %v", name, want, err)
			}
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error has the password: %v", name, err)
		}
	}
	open(t, stack.Config{Rules: file, Redis: redisstore.Options{Addresses: []string{}}}) // in memory, where no secret is needed
}
