package ruledb

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestMigrateFromEverySchema fills each past schema with what its Penstock would have written, testdata/schema/*/N.sql,
// and opens it with this one.
func TestMigrateFromEverySchema(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		scratch := open(t, source)
		for _, schema := range append([]int64{0}, schemas(t, scratch)...) {
			t.Run(fmt.Sprint("from ", schema), func(t *testing.T) {
				source := newSQLiteSource(t)
				if strings.HasPrefix(scratch.String(), "postgres") {
					source = newPostgresSource(t)
				}
				fillPast(t, source, schema)
				db := open(t, source)
				if schema == 0 {
					if v := current(t, db); v.Number != 0 {
						t.Errorf("a new database has %+v", v)
					}
					return
				}
				checkPast(t, db)
			})
		}
	})
}

// schemas returns the numbers of all schemas, in order.
func schemas(t *testing.T, db *DB) (numbers []int64) {
	t.Helper()
	provider, err := db.migrationProvider()
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range provider.ListSources() {
		numbers = append(numbers, source.Version)
	}
	return numbers
}

// newestSchema returns the number of the schema that this Penstock makes.
func newestSchema(t *testing.T, db *DB) int64 {
	t.Helper()
	return slices.Max(schemas(t, db))
}

// fillPast makes a database with a past schema.
func fillPast(t *testing.T, source string, schema int64) {
	t.Helper()
	e, err := engineOf(source, Options{Patience: never})
	if err != nil {
		t.Fatal(err)
	}
	past := &DB{engine: e}
	if past.sql, err = e.open(); err != nil {
		t.Fatal(err)
	}
	defer past.sql.Close()
	provider, err := past.migrationProvider()
	if err != nil {
		t.Fatal(err)
	}
	if schema == 0 {
		return
	}
	if _, err := provider.UpTo(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	kind, _, _ := strings.Cut(source, ":")
	rows, err := os.ReadFile(fmt.Sprintf("testdata/schema/%s/%d.sql", kind, schema))
	if err != nil {
		t.Fatalf("each schema needs rows of its time: %v", err)
	}
	for statement := range strings.SplitSeq(string(rows), ";\n") {
		if strings.TrimSpace(statement) != "" {
			exec(t, past, statement)
		}
	}
}

// checkPast checks that the rows of every schema mean the same two versions.
func checkPast(t *testing.T, db *DB) {
	t.Helper()
	all := contents(t, db)
	if len(all.Versions) != 2 || len(all.Audit) != 2 {
		t.Fatalf("%+v", all)
	}
	if v := all.Versions[1]; v.Number != 1 || v.Author != "ann" || v.Message != "first" || v.At.Unix() != 1700000000 || string(v.Document) != "rules: []" {
		t.Errorf("%+v", v)
	}
	if v := all.Versions[0]; v.Number != 2 || v.Author != "bob" || v.Restores != 1 || string(v.Document) != "rules: []" {
		t.Errorf("%+v", v)
	}
	if e := all.Audit[0]; e.Actor != "bob" || e.Action != ActionRollback || e.Version != 2 {
		t.Errorf("%+v", e)
	}
	save(t, db, 2, "rules: [] # more")
}

// TestMigrationsNeverChange checks that released migrations are not edited, which the past schemas above rely on.
func TestMigrationsNeverChange(t *testing.T) {
	sums, err := os.ReadFile("testdata/schema/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	files, err := fs.Glob(migrationFiles, "migrations/*/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, name := range files {
		text, err := migrationFiles.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if line := fmt.Sprintf("%x  %s\n", sha256.Sum256(text), name); !strings.Contains(string(sums), line) {
			t.Errorf("%s is not as testdata/schema/SHA256SUMS has it. Databases exist that it made: add a migration instead. If it is new, add the line\n%s", name, line)
		}
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		save(t, db, 0, "a")
		exec(t, db, `INSERT INTO `+schemaTable+` (version_id, is_applied) VALUES (99, $1)`, true)
		_, err := Open(t.Context(), source, patient)
		if !errors.Is(err, ErrNewerSchema) || !errors.Is(err, ErrUnavailable) {
			t.Fatalf("got %v", err)
		}
		for _, part := range []string{"schema 99", fmt.Sprint("up to ", newestSchema(t, db)), "or a later one"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error does not say %q: %v", part, err)
			}
		}
	})
}

// Opening a database only to read it does not migrate it.
func TestOlderSchemaAsItIs(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		save(t, db, 0, "a")
		newest := slices.Max(schemas(t, db))
		exec(t, db, `DELETE FROM `+schemaTable+` WHERE version_id >= $1`, newest)
		_, err := Open(t.Context(), source, Options{AsItIs: true, Patience: patient.Patience})
		if !errors.Is(err, ErrOlderSchema) || !errors.Is(err, ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		exec(t, db, `INSERT INTO `+schemaTable+` (version_id, is_applied) VALUES ($1, $2)`, newest, true)
		same, err := Open(t.Context(), source, Options{AsItIs: true, Patience: patient.Patience})
		if err != nil {
			t.Fatal(err)
		}
		defer same.Close()
		if v := current(t, same); v.Number != 1 {
			t.Errorf("got version %d", v.Number)
		}
	})
}

func TestSeveralCreateOneDatabase(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		const openers = 8
		errs := make([]error, openers)
		var all sync.WaitGroup
		for i := range openers {
			all.Go(func() {
				db, err := Open(t.Context(), source, patient)
				if errs[i] = err; err == nil {
					errs[i] = db.Close()
				}
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
		save(t, open(t, source), 0, "a")
	})
}

func TestSourceNames(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"", "rules.db", "sqlite:", "mysql://x", "postgres:rules", "file:rules.db", "postgres://u:secret@h:notaport/d"} {
		_, err := Open(t.Context(), source, patient)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", source, err)
		}
	}
	// A path is taken literally, whatever it means as a SQLite file name.
	for _, name := range []string{"a?mode=ro", "b%20c", "d#e", ":memory:", "ö f", "g&_txlock=x"} {
		path := filepath.Join(t.TempDir(), name)
		save(t, open(t, "sqlite:"+path), 0, "a")
		info, err := os.Stat(path)
		if err != nil {
			t.Errorf("%q: %v", name, err)
		} else if info.Mode().Perm() != 0o600 {
			t.Errorf("%q: others may read it: %v", name, info.Mode())
		}
	}
}
