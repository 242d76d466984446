package ruledb

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/pgtest"
	"github.com/penstock-io/penstock/rules/live"
)

// never is an interval longer than any test: whatever arrives was pushed.
const never = 24 * time.Hour

func TestAnnouncementsOutliveTheServer(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	source := newDatabase(t, server)
	n := startNode(t, origin(t, source), live.Options{Interval: never})
	other := open(t, source)
	for base := range int64(2) {
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		n.await(t, "no longer listens", func(s live.Status) bool { return s.PushErr != nil })
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		save(t, other, base, ruleSet("next"))
		n.awaitVersion(t, base+1)
		n.await(t, "listens again", func(s live.Status) bool { return s.PushErr == nil })
	}
}

func TestNodeOutlivesSilence(t *testing.T) {
	t.Parallel()
	source := newPostgresSource(t)
	other := open(t, source)
	save(t, other, 0, ruleSet("one"))
	options := live.Options{LastGood: filepath.Join(t.TempDir(), "last-good")}
	startNode(t, origin(t, source), options).Close()
	options.Interval, options.Timeout = time.Millisecond, 300*time.Millisecond // on a busy machine it starts from the copy
	n := startNode(t, origin(t, source), options)
	tx, err := other.sql.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "LOCK TABLE rule_versions IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	n.await(t, "the silence ended the read", func(s live.Status) bool { return errors.Is(s.Err, context.DeadlineExceeded) })
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	save(t, other, 1, ruleSet("two"))
	n.awaitVersion(t, 2)
}

func TestNodeGoesOnWhenReadsFail(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		save(t, db, 0, ruleSet("one"))
		n := startNode(t, origin(t, source), live.Options{Interval: time.Millisecond})
		exec(t, db, "ALTER TABLE rule_versions RENAME TO elsewhere")
		n.await(t, "the read failed", func(s live.Status) bool { return s.Err != nil })
		exec(t, db, "ALTER TABLE elsewhere RENAME TO rule_versions")
		save(t, db, 1, ruleSet("two"))
		n.awaitVersion(t, 2)
	})
}
