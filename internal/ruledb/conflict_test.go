package ruledb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestConflictShowsWhatChanged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		ann, bob := open(t, source), open(t, source)
		base := save(t, ann, 0, "limit: 10\n").Number
		save(t, ann, base, "limit: 20\n")
		_, err := bob.Save(t.Context(), Change{Base: base, Author: "bob", Document: []byte("limit: 30\n")})
		var conflict *Conflict
		if !errors.As(err, &conflict) {
			t.Fatalf("got %v", err)
		}
		if c := conflict.Current; c.Number != 2 || c.Author != "ann" || c.Message != "change 2" || c.At.IsZero() || string(c.Document) != "limit: 20\n" {
			t.Errorf("current: %+v", c)
		}
		if diff := conflict.Diff(); !strings.Contains(diff, "-limit: 10\n+limit: 20\n") {
			t.Errorf("diff:\n%s", diff)
		}
		for _, part := range []string{"version 1", "ann saved version 2", `"change 2"`, "make yours again"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error does not say %q: %v", part, err)
			}
		}
		if got := current(t, bob); string(got.Document) != "limit: 20\n" {
			t.Errorf("overwritten: %+v", got)
		}
	})
}

// A database restored from a backup is older than what an editor has seen.
func TestConflictWithAVersionThatIsGone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		save(t, db, 0, "a")
		_, err := db.Save(t.Context(), Change{Base: 7, Author: "ann"})
		var conflict *Conflict
		if !errors.As(err, &conflict) || conflict.Base.Number != 7 || conflict.Current.Number != 1 || !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("got %v", err)
		}
	})
}

// A change whose response was lost is sent again: it is saved once, and the conflict shows that.
func TestRepeatedSaveConflictsWithItself(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		save(t, db, 0, "a")
		_, err := db.Save(t.Context(), Change{Author: "ann", Document: []byte("a")})
		var conflict *Conflict
		if !errors.As(err, &conflict) || string(conflict.Current.Document) != "a" || conflict.Diff() == "" {
			t.Errorf("got %v", err)
		}
	})
}

func TestTwoEditors(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		editors := []*DB{open(t, source), open(t, source)}
		for base := range int64(25) {
			errs := make([]error, len(editors))
			documents := []string{fmt.Sprint("ann's ", base), fmt.Sprint("bob's ", base)}
			var both sync.WaitGroup
			for i, db := range editors {
				both.Go(func() {
					_, errs[i] = db.Save(t.Context(), Change{Base: base, Author: "ann", Document: []byte(documents[i])})
				})
			}
			both.Wait()
			winner := 0
			if errs[0] != nil {
				winner = 1
			}
			var conflict *Conflict
			if errs[winner] != nil || !errors.As(errs[1-winner], &conflict) {
				t.Fatalf("from version %d: %v, %v", base, errs[0], errs[1])
			}
			if got := string(conflict.Current.Document); got != documents[winner] {
				t.Errorf("the conflict shows %q, the winner saved %q", got, documents[winner])
			}
			if got := current(t, editors[1-winner]); got.Number != base+1 || string(got.Document) != documents[winner] {
				t.Errorf("current is %+v, want %q", got, documents[winner])
			}
		}
	})
}

func TestWritersLoseNoIncrement(t *testing.T) {
	t.Parallel()
	const writers, times = 20, 5
	each(t, func(t *testing.T, source string) {
		errs := make([]error, writers)
		var all sync.WaitGroup
		for i := range writers {
			db := open(t, source)
			all.Go(func() {
				for range times {
					errs[i] = errors.Join(errs[i], increment(t.Context(), db))
				}
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		db := open(t, source)
		if got := current(t, db); string(got.Document) != fmt.Sprint(writers*times) || got.Number != writers*times {
			t.Errorf("version %d counts %s, want %d", got.Number, got.Document, writers*times)
		}
		if audit, err := db.Audit(t.Context(), 0, maxPage); err != nil || len(audit) != writers*times {
			t.Errorf("the audit has %d events, %v", len(audit), err)
		}
	})
}

// increment adds one to the number in the document, like an editor who retries until it succeeds.
func increment(ctx context.Context, db *DB) error {
	for {
		v, err := db.Current(ctx)
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(string(v.Document)) // 0 before the first version
		_, err = db.Save(ctx, Change{Base: v.Number, Author: "ann", Document: []byte(strconv.Itoa(n + 1))})
		if conflict := (*Conflict)(nil); !errors.As(err, &conflict) {
			return err
		}
	}
}
