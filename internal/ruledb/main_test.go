package ruledb

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/child"
	"github.com/penstock-io/penstock/internal/pgtest"
)

func TestMain(m *testing.M) {
	if source := os.Getenv(writerEnv); source != "" {
		writeUntilKilled(source)
	}
	child.Main(m, &sharedServer)
}

// sharedServer has a database for each test that does not need to kill a server.
var sharedServer = child.Shared[*pgtest.Server]{Launch: func(ctx context.Context) (*pgtest.Server, error) {
	return pgtest.Launch(ctx, "max_connections=200")
}}

// each runs a test once on SQLite and once on PostgreSQL. source names an empty database.
func each(t *testing.T, test func(t *testing.T, source string)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, newSQLiteSource(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, newPostgresSource(t))
	})
}

func newSQLiteSource(t *testing.T) string {
	return "sqlite:" + filepath.Join(t.TempDir(), "rules.db")
}

func newPostgresSource(t *testing.T) string {
	t.Helper()
	return newDatabase(t, sharedServer.Get(t))
}

func newDatabase(t *testing.T, s *pgtest.Server) string {
	t.Helper()
	source, err := s.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// patient waits as long as a busy machine needs.
var patient = Options{Patience: time.Minute}

func open(t *testing.T, source string) *DB {
	t.Helper()
	return openWith(t, source, patient)
}

// openImpatient opens a database with that patience, except that it waits for a connection as long as a busy
// machine needs.
func openImpatient(t *testing.T, source string, patience time.Duration) *DB {
	t.Helper()
	if strings.HasPrefix(source, "postgres:") {
		source += "&connect_timeout=60"
	}
	return openWith(t, source, Options{Patience: patience})
}

func openWith(t *testing.T, source string, options Options) *DB {
	t.Helper()
	db, err := Open(t.Context(), source, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func save(t *testing.T, db *DB, base int64, document string) Version {
	t.Helper()
	v, err := db.Save(t.Context(), Change{Base: base, Author: "ann", Message: fmt.Sprint("change ", base+1), Document: []byte(document)})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func current(t *testing.T, db *DB) Version {
	t.Helper()
	v, err := db.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func exec(t *testing.T, db *DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.sql.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
