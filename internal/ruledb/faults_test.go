package ruledb

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/pgtest"
)

// explained checks that an error blames the database and says what to do.
func explained(t *testing.T, err error, parts ...string) {
	t.Helper()
	if !errors.Is(err, ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}

// noise returns a document that cannot be compressed.
func noise(size int) []byte {
	document := make([]byte, size)
	for i := range document {
		document[i] = byte('a' + rand.N(26))
	}
	return document
}

func TestFullDatabase(t *testing.T) {
	t.Parallel()
	db := open(t, newSQLiteSource(t))
	save(t, db, 0, "good")
	db.sql.SetMaxOpenConns(1) // the limit is one connection's
	exec(t, db, "PRAGMA max_page_count = 40")
	_, err := db.Save(t.Context(), Change{Base: 1, Author: "ann", Document: noise(1 << 20)})
	explained(t, err, "full", "nothing was changed", "free disk space")
	if got := current(t, db); string(got.Document) != "good" {
		t.Errorf("current is %+v", got)
	}
	exec(t, db, "PRAGMA max_page_count = 4000")
	save(t, db, 1, "better")
	checkIntegrity(t, db)
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := osexec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("only who may mount can have a small disk; TestFullDatabase stands in: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := osexec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	db, err := Open(t.Context(), "sqlite:"+filepath.Join(dir, "rules.db"), patient)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	save(t, db, 0, "good")
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 512<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = db.Save(t.Context(), Change{Base: 1, Author: "ann", Document: noise(700 << 10)})
	explained(t, err, "full")
	if got := current(t, db); string(got.Document) != "good" {
		t.Errorf("current is %+v", got)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	save(t, db, 1, "better")
	checkIntegrity(t, db)
}

func TestLockedDatabase(t *testing.T) {
	t.Parallel()
	lock := map[string]string{
		"sqlite":   "SELECT 1", // beginning is enough
		"postgres": "LOCK TABLE rule_versions IN SHARE MODE",
	}
	each(t, func(t *testing.T, source string) {
		db := openImpatient(t, source, 20*time.Millisecond)
		save(t, db, 0, "good")
		kind, _, _ := strings.Cut(source, ":")
		other, err := open(t, source).sql.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.ExecContext(t.Context(), lock[kind]); err != nil {
			t.Fatal(err)
		}
		_, err = db.Save(t.Context(), Change{Base: 1, Author: "ann"})
		explained(t, err, "lock", "nothing was changed", "20ms", "try again")
		if got := current(t, db); string(got.Document) != "good" {
			t.Errorf("reading needs no lock: %+v", got)
		}
		if err := other.Rollback(); err != nil {
			t.Fatal(err)
		}
		save(t, db, 1, "better")
	})
}

func TestEndedContext(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := db.Save(ctx, Change{Author: "ann"}); !errors.Is(err, context.Canceled) {
			t.Errorf("save: %v", err)
		}
		if _, err := db.Current(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("current: %v", err)
		}
		if _, err := Open(ctx, source, patient); !errors.Is(err, context.Canceled) {
			t.Errorf("open: %v", err)
		}
		save(t, db, 0, "a")
	})
}

func TestNotADatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.db")
	text := bytes.Repeat([]byte("rules: [] # a file of another kind\n"), 200)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), "sqlite:"+path, patient)
	explained(t, err, path, "not a rules database", "backup")
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, text) {
		t.Errorf("the file was changed: %v", err)
	}
}

// Whatever damage a file has, no version is read that differs from what was saved, and nothing panics. The damage
// is the same in every run except the long ones.
func TestDamagedFile(t *testing.T) {
	skipShort(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.db")
	db, err := Open(t.Context(), "sqlite:"+path, patient)
	if err != nil {
		t.Fatal(err)
	}
	for n := range int64(40) {
		if _, err := db.Save(t.Context(), numberedChange(n+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(1)
	if os.Getenv("PENSTOCK_TEST_LONG") == "1" {
		seed = rand.Uint64()
	}
	r := rand.New(rand.NewPCG(seed, 1))
	noticed := 0
	for range kills(100, 1000) {
		damaged := bytes.Clone(whole)
		at := r.IntN(len(damaged))
		switch r.IntN(3) {
		case 0:
			damaged = damaged[:at]
		case 1:
			clear(damaged[at:min(at+4096, len(damaged))])
		case 2:
			damaged[at] ^= byte(1 + r.IntN(255))
		}
		if readDamaged(t, damaged) {
			noticed++
		}
	}
	t.Logf("seed %d: %d damages were noticed; the others hit what is not read", seed, noticed)
}

// readDamaged reports whether an error revealed the damage.
func readDamaged(t *testing.T, file []byte) (noticed bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), "sqlite:"+path, patient)
	if err != nil {
		explained(t, err)
		return true
	}
	defer db.Close()
	for n := range int64(40) {
		got, err := db.Version(t.Context(), n+1)
		if err != nil {
			noticed = true
		} else if want := numberedChange(n + 1); !bytes.Equal(got.Document, want.Document) {
			t.Errorf("version %d came back damaged", n+1)
		}
	}
	return noticed
}

func TestDamagedVersionIsNotServed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		save(t, db, 0, "good")
		save(t, db, 1, "better")
		if strings.HasPrefix(source, "sqlite:") {
			exec(t, db, "DROP TRIGGER rule_versions_update")
		} else {
			exec(t, db, "ALTER TABLE rule_versions DISABLE TRIGGER USER")
		}
		exec(t, db, "UPDATE rule_versions SET document = $1 WHERE number = 2", []byte("bitter"))
		_, err := db.Current(t.Context())
		explained(t, err, "version 2", "backup", "roll back")
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("got %v", err)
		}
		if _, err := db.Rollback(t.Context(), 1, Change{Base: 2, Author: "ann"}); err != nil {
			t.Fatal(err)
		}
		if got := current(t, db); string(got.Document) != "good" {
			t.Errorf("current is %+v", got)
		}
	})
}

func TestUnusableDirectory(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "no", "such", "rules.db")
	_, err := Open(t.Context(), "sqlite:"+missing, patient)
	explained(t, err, missing, "create the directory")

	closed := t.TempDir()
	if err := os.Chmod(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if runtime.GOOS != "linux" {
			t.Skip("root may write anywhere")
		}
		closed = "/proc/self" // but there
	}
	path := filepath.Join(closed, "rules.db")
	_, err = Open(t.Context(), "sqlite:"+path, patient)
	explained(t, err, path)

	if err := os.MkdirAll(missing, 0o700); err != nil { // a directory where the file should be
		t.Fatal(err)
	}
	_, err = Open(t.Context(), "sqlite:"+missing, patient)
	explained(t, err, "is a directory")
}

func TestPostgresErrorsAreExplained(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	source := newDatabase(t, server)
	owner := open(t, source)
	save(t, owner, 0, "good")
	exec(t, owner, "CREATE ROLE guest LOGIN")

	_, err := Open(t.Context(), strings.Replace(source, "/test_", "/absent_", 1), patient)
	explained(t, err, "does not exist", "CREATE DATABASE")
	_, err = Open(t.Context(), strings.Replace(source, "user=penstock", "user=nobody&password=sesame", 1), patient)
	explained(t, err, "check the user")
	if strings.Contains(err.Error(), "sesame") {
		t.Errorf("the error tells the password: %v", err)
	}
	guest := strings.Replace(source, "user=penstock", "user=guest", 1)
	_, err = Open(t.Context(), guest, patient)
	explained(t, err, `grant "guest"`)

	// A user who may read and add needs no right to create tables.
	exec(t, owner, "GRANT SELECT ON "+schemaTable+" TO guest")
	exec(t, owner, "GRANT SELECT, INSERT ON rule_versions, rule_audit TO guest")
	save(t, open(t, guest), 1, "better")

	exec(t, owner, "ALTER ROLE guest SET default_transaction_read_only = on")
	_, err = open(t, guest).Save(t.Context(), Change{Base: 2, Author: "ann"})
	explained(t, err, "read-only", "primary")
}

func TestPostgresStoppedAndStarted(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	source := newDatabase(t, server)
	db := open(t, source)
	save(t, db, 0, "good")
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	_, err := db.Save(t.Context(), Change{Base: 1, Author: "ann"})
	explained(t, err, "save version 2", "try again")
	_, err = db.Current(t.Context())
	explained(t, err, "check that PostgreSQL is running")
	_, err = Open(t.Context(), source, Options{Patience: time.Second})
	explained(t, err, "check that PostgreSQL is running")
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	save(t, db, 1, "better") // the same DB, at once
}

// The server ends the transaction between its statements.
func TestPostgresEndsAConnection(t *testing.T) {
	t.Parallel()
	source := newPostgresSource(t)
	db, admin := open(t, source), open(t, source)
	for base := range int64(5) {
		save(t, db, base, "x")
		exec(t, admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	}
}
