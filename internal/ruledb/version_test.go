package ruledb

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/racetest"
)

func TestEmptyDatabase(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		if got := current(t, db); !cmp.Equal(got, Version{}) {
			t.Errorf("current: %+v", got)
		}
		for _, number := range []int64{-1, 0, 1} {
			if _, err := db.Version(t.Context(), number); !errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnavailable) {
				t.Errorf("version %d: %v", number, err)
			}
		}
		if history, err := db.History(t.Context(), 0, 10); len(history) != 0 || err != nil {
			t.Errorf("history: %v, %v", history, err)
		}
		if audit, err := db.Audit(t.Context(), 0, 10); len(audit) != 0 || err != nil {
			t.Errorf("audit: %v, %v", audit, err)
		}
	})
}

func TestSavedVersionsAreRead(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		before := time.Now().Truncate(time.Microsecond)
		first := save(t, db, 0, "rules: []\n")
		second := save(t, db, 1, "")
		if first.Number != 1 || second.Number != 2 || first.At.Before(before) || first.At.After(time.Now()) {
			t.Errorf("saved %+v, %+v", first, second)
		}
		again := open(t, source) // as another process would
		for _, want := range []Version{first, second} {
			if got, err := again.Version(t.Context(), want.Number); err != nil || !cmp.Equal(got, want) {
				t.Errorf("version %d: %v\n%s", want.Number, err, cmp.Diff(want, got))
			}
		}
		if got := current(t, again); !cmp.Equal(got, second) {
			t.Error(cmp.Diff(second, got))
		}
	})
}

func TestHistoryIsPaged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		const versions, page = 25, 10
		for n := range int64(versions) {
			save(t, db, n, strings.Repeat("x", int(n)))
		}
		next := int64(versions)
		for before := int64(0); next > 0; {
			history, err := db.History(t.Context(), before, page)
			if err != nil {
				t.Fatal(err)
			}
			if want := min(page, int(next)); len(history) != want {
				t.Fatalf("before %d: %d versions, want %d", before, len(history), want)
			}
			for _, v := range history {
				if v.Number != next || v.Author != "ann" || v.Message != fmt.Sprint("change ", next) || v.Size != int(next-1) || v.Document != nil {
					t.Errorf("want version %d, got %+v", next, v)
				}
				next--
			}
			before = history[len(history)-1].Number
		}
		if history, err := db.History(t.Context(), 1, page); len(history) != 0 || err != nil {
			t.Errorf("before the first: %v, %v", history, err)
		}
		for _, bounds := range []struct {
			before int64
			limit  int
		}{{0, 0}, {0, -1}, {0, maxPage + 1}, {-1, 1}} {
			if _, err := db.History(t.Context(), bounds.before, bounds.limit); !errors.Is(err, penstock.ErrInvalid) {
				t.Errorf("%+v: %v", bounds, err)
			}
			if _, err := db.Audit(t.Context(), bounds.before, bounds.limit); !errors.Is(err, penstock.ErrInvalid) {
				t.Errorf("%+v: %v", bounds, err)
			}
		}
	})
}

func TestRollbackIsANewVersion(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		save(t, db, 0, "good")
		save(t, db, 1, "bad")
		change := Change{Base: 2, Author: "bob", Message: "bad broke login"}
		v, err := db.Rollback(t.Context(), 1, change)
		if err != nil {
			t.Fatal(err)
		}
		want := Version{Number: 3, At: v.At, Author: "bob", Message: "bad broke login", Restores: 1, Size: 4, Document: []byte("good")}
		if !cmp.Equal(v, want) {
			t.Error(cmp.Diff(want, v))
		}
		if got := current(t, db); !cmp.Equal(got, want) {
			t.Error(cmp.Diff(want, got))
		}
		var conflict *Conflict
		if _, err := db.Rollback(t.Context(), 1, change); !errors.As(err, &conflict) || conflict.Current.Number != 3 {
			t.Errorf("on an old base: %v", err)
		}
		change.Base = 3
		if _, err := db.Rollback(t.Context(), 9, change); !errors.Is(err, ErrNotFound) {
			t.Errorf("to a version that never was: %v", err)
		}
		change.Document = []byte("other")
		if _, err := db.Rollback(t.Context(), 1, change); !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("with a document: %v", err)
		}
		audit, err := db.Audit(t.Context(), 0, 10)
		if err != nil || len(audit) != 3 || audit[0].Action != ActionRollback || audit[0].Actor != "bob" || audit[0].Version != 3 || audit[1].Action != ActionSave {
			t.Errorf("audit: %+v, %v", audit, err)
		}
	})
}

func TestBigDocuments(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		for base, size := range []int{1 << 20, MaxDocument} {
			line := []byte("- name: größe '); DROP TABLE\n")
			document := bytes.Repeat(line, size/len(line))
			document = append(document, bytes.Repeat([]byte("x"), size-len(document))...)
			if _, err := db.Save(t.Context(), Change{Base: int64(base), Author: "ann", Document: document}); err != nil {
				t.Fatal(err)
			}
			if got := current(t, db); !bytes.Equal(got.Document, document) || got.Size != size {
				t.Errorf("%d bytes came back as %d others", size, len(got.Document))
			}
		}
		_, err := db.Save(t.Context(), Change{Base: 2, Author: "ann", Document: make([]byte, MaxDocument+1)})
		if !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("a byte too many: %v", err)
		}
	})
}

func TestHostileTextIsKeptAsItIs(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	texts := []string{
		`'; DROP TABLE rule_versions; --`, `" OR ""="`, `$1 ?1 :a @b %s %n`, `\'; \x00 \\`, "`x`", "$$ $tag$ $$",
		"/* -- */", "ünï ☃ 🐘 \u202e", "%_", "NULL", "E'\\000'", "{{.}} ${x}",
	}
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		for i, text := range texts {
			saved, err := db.Save(t.Context(), Change{Base: int64(i), Author: text, Message: text + "\n\t" + text, Document: []byte(text + "\x00" + text)})
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if got := current(t, db); !cmp.Equal(got, saved) {
				t.Errorf("%q: %s", text, cmp.Diff(saved, got))
			}
			if err := db.Record(t.Context(), Event{Actor: text, Action: "look", Detail: text}); err != nil {
				t.Errorf("%q: %v", text, err)
			}
			audit, err := db.Audit(t.Context(), 0, 1)
			if err != nil || len(audit) != 1 || audit[0].Actor != text || audit[0].Detail != text {
				t.Errorf("%q: %+v, %v", text, audit, err)
			}
		}
	})
}

func TestInvalidChanges(t *testing.T) {
	t.Parallel()
	good := Change{Author: "ann", Message: "why", Document: []byte("rules: []")}
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		for name, spoil := range map[string]func(*Change){
			"base must be":                  func(c *Change) { c.Base = -1 },
			"author must not be empty":      func(c *Change) { c.Author = " \t" },
			"author may have at most 200":   func(c *Change) { c.Author = strings.Repeat("a", MaxAuthor+1) },
			"author must be valid UTF-8":    func(c *Change) { c.Author = "a\xff" },
			"author must be one line":       func(c *Change) { c.Author = "a\nb" },
			"message may have at most 4000": func(c *Change) { c.Message = strings.Repeat("a", MaxMessage+1) },
			"message must be valid UTF-8":   func(c *Change) { c.Message = "\xc3\x28" },
			"message must have no control":  func(c *Change) { c.Message = "a\x00b" },
			"document must be valid UTF-8":  func(c *Change) { c.Document = []byte("rules: \xff") },
		} {
			c := good
			spoil(&c)
			if _, err := db.Save(t.Context(), c); !errors.Is(err, penstock.ErrInvalid) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		_, err := db.Save(t.Context(), Change{Base: -1, Message: "\x00"})
		for _, part := range []string{"base", "author", "message"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("not every mistake is reported: %v", err)
			}
		}
		if v := current(t, db); v.Number != 0 {
			t.Errorf("an invalid change was saved: %+v", v)
		}
	})
}

// What others wrote into the database is read only as far as it could have been saved.
func TestOversizedRows(t *testing.T) {
	t.Parallel()
	db := open(t, "sqlite:"+t.TempDir()+"/rules.db")
	save(t, db, 0, "rules: []\n")
	if _, err := db.sql.ExecContext(t.Context(), `
		INSERT INTO rule_versions (number, at, author, message, digest, document) VALUES (2, 0, hex(zeroblob(100000)), '', zeroblob(100000), zeroblob($1))`, maxDocument+1); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Current(t.Context()); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), fmt.Sprint(maxDocument)) {
		t.Errorf("error %v", err)
	}
	if history, err := db.History(t.Context(), 0, 1); err != nil || len(history[0].Author) > maxLine || history[0].Size != maxDocument+1 {
		t.Errorf("history %.100v, error %v", history, err)
	}
}
