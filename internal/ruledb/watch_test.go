package ruledb

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/pgtest"
)

// never is an interval no test lives to see the end of: what arrives was pushed.
const never = 24 * time.Hour

// watch runs a Watch for as long as the test, and returns where its numbers and failures arrive.
func watch(t *testing.T, db *DB, interval time.Duration) (<-chan int64, <-chan error) {
	numbers, failures := make(chan int64, 100), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		db.Watch(ctx, Watch{
			Interval: interval,
			Changed:  func(number int64) { numbers <- number },
			Failed: func(err error) {
				select {
				case failures <- err:
				default:
				}
			},
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return numbers, failures
}

// await reads numbers until the wanted one, which must be the newest so far.
func await(t *testing.T, numbers <-chan int64, want int64) {
	t.Helper()
	for got := range numbers {
		if got == want {
			return
		}
		if got > want {
			t.Fatalf("heard of version %d, want %d", got, want)
		}
	}
}

func TestWatchPolls(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		numbers, _ := watch(t, open(t, source), time.Millisecond)
		await(t, numbers, 0)
		other := open(t, source)
		if strings.HasPrefix(source, "postgres:") { // so that nothing is announced
			exec(t, other, "DROP TRIGGER rule_versions_saved ON rule_versions")
		}
		for base := range int64(5) {
			save(t, other, base, "x")
			await(t, numbers, base+1)
		}
	})
}

func TestWatchHearsOfOwnVersions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		save(t, db, 0, "x")
		first, _ := watch(t, db, never)
		second, _ := watch(t, db, never)
		for base := int64(1); base < 5; base++ {
			await(t, first, base)
			await(t, second, base)
			save(t, db, base, "x")
		}
	})
}

func TestPostgresAnnounces(t *testing.T) {
	t.Parallel()
	source := newPostgresSource(t)
	numbers, _ := watch(t, open(t, source), never)
	await(t, numbers, 0)
	other := open(t, source)
	for base := range int64(10) {
		save(t, other, base, "x")
		await(t, numbers, base+1)
	}
}

func TestWatchOutlivesTheServer(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	source := newDatabase(t, server)
	numbers, failures := watch(t, open(t, source), never)
	await(t, numbers, 0)
	other := open(t, source)
	for base := range int64(2) {
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		<-failures // says that it no longer listens
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		save(t, other, base, "x")
		await(t, numbers, base+1)
	}
}

func TestWatchOutlivesSilence(t *testing.T) {
	t.Parallel()
	source := newPostgresSource(t)
	numbers, failures := watch(t, openImpatient(t, source, 300*time.Millisecond), time.Millisecond)
	await(t, numbers, 0)
	other := open(t, source)
	tx, err := other.sql.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "LOCK TABLE rule_versions IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	if err := <-failures; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	save(t, other, 0, "x")
	await(t, numbers, 1)
}

func TestWatchGoesOnWhenPollsFail(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		numbers, failures := watch(t, db, time.Millisecond)
		await(t, numbers, 0)
		exec(t, db, "ALTER TABLE rule_versions RENAME TO elsewhere")
		<-failures
		exec(t, db, "ALTER TABLE elsewhere RENAME TO rule_versions")
		save(t, db, 0, "x")
		await(t, numbers, 1)
	})
}
