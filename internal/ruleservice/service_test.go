package ruleservice

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/child"
	"github.com/penstock-io/penstock/internal/pgtest"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/ruleredis"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/rules/live"
)

// never is an interval longer than any test.
const never = 24 * time.Hour

var postgres = child.Shared[*pgtest.Server]{Launch: func(ctx context.Context) (*pgtest.Server, error) { return pgtest.Launch(ctx) }}

func TestMain(m *testing.M) { child.Main(m, &postgres) }

// each runs a test on both databases. source names an empty one.
func each(t *testing.T, test func(t *testing.T, source string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite:"+filepath.Join(t.TempDir(), "rules.db")) })
	t.Run("postgres", func(t *testing.T) {
		source, err := postgres.Get(t).Database(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		test(t, source)
	})
}

func database(t *testing.T, source string) *ruledb.Origin {
	t.Helper()
	o, err := ruledb.NewOrigin(source, ruledb.Options{Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

func redis(t *testing.T, addr string) *ruleredis.Rules {
	t.Helper()
	r, err := ruleredis.New(ruleredis.Options{Addresses: []string{addr}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func ruleSet(name string) []byte {
	return fmt.Appendf(nil, "rules:\n  - name: %s\n    key: [ip]\n    limits: [100/1m]\n", name)
}

func apply(t *testing.T, s *Service, base int64, document []byte) ApplyResult {
	t.Helper()
	applied, err := s.Apply(t.Context(), "rules.yaml", ruledb.Change{Base: base, Author: "ann", Document: document})
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

// eventually waits until a background task makes a condition true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	giveUp := time.Now().Add(time.Minute)
	for !is() {
		if time.Now().After(giveUp) {
			t.Fatalf("not yet: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func published(r *ruleredis.Rules, version int64) func() bool {
	return func() bool {
		text, err := r.Read(context.Background())
		return err == nil && text.Version == version
	}
}

func TestApplyAndRollback(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	each(t, func(t *testing.T, source string) {
		if _, err := redistest.Command(server.Addr, "DEL", "pen:rules"); err != nil {
			t.Fatal(err)
		}
		s := &Service{Database: database(t, source), Publisher: redis(t, server.Addr)}
		reader := redis(t, server.Addr)

		first := apply(t, s, 0, ruleSet("one"))
		if first.Version.Number != 1 || first.PublishErr != nil || !published(reader, 1)() {
			t.Errorf("applied %+v", first)
		}
		warned := apply(t, s, 1, []byte("rules:\n  - name: two\n    key: [nobody]\n    limits: [100/1m]\n"))
		if len(warned.Warnings) != 1 || warned.Warnings[0].Position.String() != "rules.yaml:3:11" {
			t.Errorf("warnings %v", warned.Warnings)
		}

		_, err := s.Apply(t.Context(), "bad.yaml", ruledb.Change{Base: 2, Author: "ann", Document: []byte("rules:\n  - name: Bad Name\n    key: [ip]\n    limits: [1/mn]\n")})
		var problems rules.Problems
		if !errors.As(err, &problems) || len(problems) != 2 || problems[1].Position.String() != "bad.yaml:4:16" {
			t.Errorf("all problems: %v", err)
		}
		_, err = s.Apply(t.Context(), "rules.yaml", ruledb.Change{Base: 1, Author: "bob", Document: ruleSet("bob")})
		var conflict *ruledb.Conflict
		if !errors.As(err, &conflict) || conflict.Current.Number != 2 {
			t.Errorf("a conflict: %v", err)
		}
		if !published(reader, 2)() {
			t.Error("what was refused was published")
		}

		back, err := s.Rollback(t.Context(), 1, ruledb.Change{Base: 2, Author: "ann"})
		if err != nil || back.Version.Number != 3 || back.Version.Restores != 1 || !published(reader, 3)() {
			t.Errorf("rolled back to %+v, %v", back, err)
		}
		if _, err := s.Rollback(t.Context(), 77, ruledb.Change{Base: 3, Author: "ann"}); !errors.Is(err, ruledb.ErrNotFound) {
			t.Error(err)
		}

		db, err := s.Database.DB(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Save(t.Context(), ruledb.Change{Base: 3, Author: "old program", Document: []byte("rules: {}")}); err != nil {
			t.Fatal(err)
		}
		apply(t, s, 4, ruleSet("five"))
		if _, err := s.Rollback(t.Context(), 4, ruledb.Change{Base: 5, Author: "ann"}); !errors.Is(err, penstock.ErrInvalid) || !strings.Contains(err.Error(), "version 4:1:8") {
			t.Errorf("rolled back to what does not compile: %v", err)
		}
	})
}

// The snapshot compiled on save is the one that this node serves and the publisher checks.
func TestSavedDocumentIsCompiledOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		s := &Service{Database: database(t, source), Compile: rules.Options{Secret: "secret", Provided: []string{"user"}}}
		live, err := live.Follow(t.Context(), s.Database, live.Options{Compile: s.Compile, Interval: never})
		if err != nil {
			t.Fatal(err)
		}
		defer live.Close()
		served := func(applied ApplyResult) {
			t.Helper()
			eventually(t, fmt.Sprint("served: ", applied.Version.Number), func() bool { return live.Load().Version == applied.Version.Number })
			if live.Load() != applied.Snapshot || !live.Status().Published.Equal(applied.Version.At) {
				t.Errorf("version %d was compiled again to be served", applied.Version.Number)
			}
			text, err := s.Database.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if checked, _, err := text.Compile(t.Context(), s.Compile); checked != applied.Snapshot || err != nil {
				t.Errorf("version %d was compiled again to be published: %v", applied.Version.Number, err)
			}
			if other, _, err := text.Compile(t.Context(), rules.Options{Secret: "another"}); other == applied.Snapshot || err != nil {
				t.Errorf("version %d: another secret makes no other snapshot: %v", applied.Version.Number, err)
			}
		}
		served(apply(t, s, 0, ruleSet("one")))
		served(apply(t, s, 1, ruleSet("two")))
		back, err := s.Rollback(t.Context(), 1, ruledb.Change{Base: 2, Author: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		served(back)

		if _, err := s.Apply(t.Context(), "rules.yaml", ruledb.Change{Base: 1, Author: "bob", Document: ruleSet("bob")}); err == nil {
			t.Fatal("a conflict was saved")
		}
		served(apply(t, s, 3, ruleSet("four")))
	})
}

func TestWithoutRedis(t *testing.T) {
	s := &Service{Database: database(t, "sqlite:"+filepath.Join(t.TempDir(), "rules.db"))}
	if a := apply(t, s, 0, ruleSet("one")); a.PublishErr != nil {
		t.Error(a.PublishErr)
	}
}

// Versions that could not be published when saved, that another process saved, or that Redis lost are published
// later.
func TestMissedPublishHeals(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		server := redistest.Start(t)
		s := &Service{Database: database(t, source), Publisher: redis(t, server.Addr)}
		reader := redis(t, server.Addr)
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if a := apply(t, s, 0, ruleSet("one")); !errors.Is(a.PublishErr, penstock.ErrUnavailable) || a.Version.Number != 1 {
			t.Errorf("saved, and not published: %+v", a)
		}

		var mu sync.Mutex
		var told []error
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			s.Run(ctx, Run{Interval: 10 * time.Millisecond, Changed: func(err error) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, err)
			}})
		})
		last := func() error {
			mu.Lock()
			defer mu.Unlock()
			if len(told) == 0 {
				return nil
			}
			return told[len(told)-1]
		}
		eventually(t, "told that Redis is down", func() bool { return errors.Is(last(), penstock.ErrUnavailable) })
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "version 1 is published", published(reader, 1))

		other := &Service{Database: database(t, source)} // which knows no Redis
		apply(t, other, 1, ruleSet("two"))
		eventually(t, "version 2 is published", published(reader, 2))
		if err := server.Restart(); err != nil { // it saves nothing
			t.Fatal(err)
		}
		eventually(t, "version 2 is published again", published(reader, 2))

		db, err := other.Database.DB(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Save(t.Context(), ruledb.Change{Base: 2, Author: "old program", Document: []byte("rules: {}")}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "told that version 3 does not compile", func() bool { return errors.Is(last(), penstock.ErrInvalid) })
		if !published(reader, 2)() {
			t.Error("a bad version was published")
		}
		stop()
		running.Wait()
	})
}

// End to end: a change is saved by one process and served by three nodes without a database. Then both servers
// are down, and a node starts.
func TestFromSaveToNodes(t *testing.T) {
	t.Parallel()
	postgres, server := pgtest.Start(t), redistest.Start(t)
	source, err := postgres.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{Database: database(t, source), Publisher: redis(t, server.Addr)}
	apply(t, s, 0, ruleSet("one"))
	dir := t.TempDir()
	var nodes []*live.Rules
	for i, origin := range []live.Origin{database(t, source), redis(t, server.Addr), redis(t, server.Addr)} {
		live, err := live.Follow(t.Context(), origin, live.Options{Interval: never, Timeout: time.Minute, LastGood: filepath.Join(dir, fmt.Sprint(i))})
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, live)
	}
	apply(t, s, 1, ruleSet("two"))
	for _, live := range nodes {
		eventually(t, "version 2", func() bool { return live.Load().Version == 2 })
		live.Close()
	}
	if err := errors.Join(postgres.Kill(), server.Kill()); err != nil {
		t.Fatal(err)
	}
	for i, origin := range []live.Origin{database(t, source), redis(t, server.Addr)} {
		live, err := live.Follow(t.Context(), origin, live.Options{LastGood: filepath.Join(dir, fmt.Sprint(i))})
		if err != nil {
			t.Fatal(err)
		}
		if v := live.Load().Version; v != 2 || !live.Status().FromCopy {
			t.Errorf("from %v: version %d, %+v", origin, v, live.Status())
		}
		live.Close()
	}
}
