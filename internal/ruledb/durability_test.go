package ruledb

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/pgtest"
)

// writerEnv makes this test binary save versions in the database it names until it is killed.
const writerEnv = "PENSTOCK_TEST_RULEDB_WRITER"

// writeUntilKilled prints the number of each version once Save has acknowledged it.
func writeUntilKilled(source string) {
	ctx := context.Background()
	db, err := Open(ctx, source, patient)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for {
		number, _, err := db.currentDigest(ctx)
		if err == nil {
			_, err = db.Save(ctx, numberedChange(number+1))
		}
		if conflict := (*Conflict)(nil); errors.As(err, &conflict) {
			continue // the server has just committed what a killed writer sent
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(number + 1)
	}
}

// numberedChange returns the change that becomes this version. Its content follows from its number, so that a
// partial one, or one under another number, is detected. Its length varies from a line to many pages.
func numberedChange(number int64) Change {
	lines := 1 + number*number%97
	if number%16 == 0 {
		lines *= 20
	}
	line := fmt.Appendf(nil, "version %d: rules with ten times ten limits\n", number)
	return Change{Base: number - 1, Author: fmt.Sprint("writer of ", number), Message: fmt.Sprint("change ", number), Document: bytes.Repeat(line, int(lines))}
}

// kills returns how often a test kills: a few times, or often in the long suite.
func kills(few, many int) int {
	if os.Getenv("PENSTOCK_TEST_LONG") == "1" {
		return many
	}
	return few
}

// skipShort skips a test of damage to files or processes, in which the race detector has nothing to find.
func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("kills or damages, which the full suite does")
	}
}

// ledger records the acknowledged versions, and those read back.
type ledger struct {
	acknowledged int64
	checked      int64
}

// check reads every version since the last check: all acknowledged versions must exist, and all existing ones
// must be intact.
func (l *ledger) check(t *testing.T, db *DB) {
	t.Helper()
	// One statement, because a server may still commit what a killed writer sent.
	var last, events, least, most int64
	err := db.sql.QueryRowContext(t.Context(), `
		SELECT (SELECT coalesce(max(number), 0) FROM rule_versions), count(*), coalesce(min(version), 0), coalesce(max(version), 0)
		FROM rule_audit`).Scan(&last, &events, &least, &most)
	if err != nil || events != last || last > 0 && (least != 1 || most != last) {
		t.Fatalf("%d versions, but %d events about versions %d to %d, %v", last, events, least, most, err)
	}
	if last < l.acknowledged {
		t.Fatalf("version %d was acknowledged, the last one found is %d", l.acknowledged, last)
	}
	for l.checked < last {
		l.checked++
		want := numberedChange(l.checked)
		got, err := db.Version(t.Context(), l.checked)
		if err != nil {
			t.Fatal(err)
		}
		if got.Author != want.Author || got.Message != want.Message || !bytes.Equal(got.Document, want.Document) {
			t.Fatalf("version %d is not what was saved: %s, %q, %d bytes", l.checked, got.Author, got.Message, got.Size)
		}
	}
}

func TestAcknowledgedVersionsSurviveTheWriter(t *testing.T) {
	skipShort(t)
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		var l ledger
		if _, err := Open(t.Context(), source, patient); err != nil { // never closed: it dies with us
			t.Fatal(err)
		}
		n := kills(20, 1000)
		for i := range n {
			// Every fourth may die before it has written, while it opens the database that the previous one left.
			l.acknowledged = max(l.acknowledged, killedWriter(t, source, i%4 != 0))
			db, err := Open(t.Context(), source, patient)
			if err != nil {
				t.Fatal(err)
			}
			l.check(t, db)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if strings.HasPrefix(source, "sqlite:") {
			checkIntegrity(t, open(t, source))
		}
		t.Logf("%d kills, %d versions acknowledged, %d found whole", n, l.acknowledged, l.checked)
	})
}

// A process that is killed while it creates the database leaves one that the next can open.
func TestKilledWhileCreating(t *testing.T) {
	skipShort(t)
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		for range kills(10, 200) {
			if strings.HasPrefix(source, "sqlite:") {
				source = newSQLiteSource(t)
			} else {
				source = newPostgresSource(t)
			}
			l := ledger{acknowledged: killedWriter(t, source, false)}
			db, err := Open(t.Context(), source, patient)
			if err != nil {
				t.Fatal(err)
			}
			l.check(t, db)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// killedWriter runs a writer, kills it at a random moment, after its first write if onceItWrites is set, and
// returns its last acknowledged version.
func killedWriter(t *testing.T, source string, onceItWrites bool) (last int64) {
	t.Helper()
	cmd := osexec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerEnv+"="+source)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() {
		time.AfterFunc(rand.N(40*time.Millisecond), func() { _ = cmd.Process.Kill() })
	}
	if !onceItWrites {
		kill()
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil { // the writer is dead, and a line without its end was not acknowledged to us
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
		number, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if last == 0 && onceItWrites {
			kill()
		}
		last = number
	}
	_ = cmd.Wait()
	if complaints.Len() > 0 {
		t.Fatal(complaints.String())
	}
	return last
}

func checkIntegrity(t *testing.T, db *DB) {
	t.Helper()
	var verdict string
	if err := db.sql.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("%s, %v", verdict, err)
	}
}

// The server is killed, all its processes at once, while a writer writes. The same DB then continues.
func TestAcknowledgedVersionsSurviveTheServer(t *testing.T) {
	skipShort(t)
	t.Parallel()
	// A server that does not wait for its disk at a commit must do so for ours: otherwise its crash would lose
	// versions.
	server := pgtest.Start(t, "fsync=on", "full_page_writes=on", "synchronous_commit=off", "wal_writer_delay=10s")
	db := open(t, newDatabase(t, server))
	var l ledger
	n := kills(5, 100)
	for range n {
		failed := make(chan error, 1)
		started := make(chan struct{})
		go func() {
			for first := true; ; first = false {
				_, err := db.Save(t.Context(), numberedChange(l.acknowledged+1))
				if err != nil {
					failed <- err
					return
				}
				l.acknowledged++
				if first {
					close(started)
				}
			}
		}()
		select {
		case <-started:
		case err := <-failed:
			t.Fatal(err)
		}
		time.Sleep(rand.N(40 * time.Millisecond)) // a moment to kill at, not one to rely on
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := <-failed; !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "try again") {
			t.Errorf("the error does not say what to do: %v", err)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		l.check(t, db)
		l.acknowledged = l.checked // a save without an answer may have been saved anyway
	}
	t.Logf("%d kills, %d versions found whole", n, l.checked)
}
