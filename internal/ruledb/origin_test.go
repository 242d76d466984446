package ruledb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock-io/penstock/internal/pgtest"
	"github.com/penstock-io/penstock/rules/live"
)

func origin(t *testing.T, source string) *Origin {
	t.Helper()
	o, err := NewOrigin(source, patient)
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

// A node is a Live that reports changes.
type node struct {
	*live.Rules
	told chan struct{}
}

func startNode(t *testing.T, o live.Origin, options live.Options) *node {
	t.Helper()
	n := &node{told: make(chan struct{}, 1)}
	options.Changed = func(live.Status) {
		select {
		case n.told <- struct{}{}:
		default:
		}
	}
	options.Timeout = cmp.Or(options.Timeout, time.Minute) // a machine may be slow
	var err error
	if n.Rules, err = live.Follow(t.Context(), o, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

func (n *node) await(t *testing.T, what string, is func(live.Status) bool) {
	t.Helper()
	giveUp := time.After(time.Minute)
	for !is(n.Status()) {
		select {
		case <-n.told:
		case <-giveUp:
			t.Fatalf("not yet: %s; %+v", what, n.Status())
		}
	}
}

func (n *node) awaitVersion(t *testing.T, version int64) {
	t.Helper()
	n.await(t, fmt.Sprint("version ", version), func(s live.Status) bool { return s.Version == version })
	if got := n.Load().Version; got != version {
		t.Errorf("version %d is served", got)
	}
}

func ruleSet(name string) string {
	return fmt.Sprintf("rules:\n  - name: %s\n    key: [ip]\n    limits: [100/1m]\n", name)
}

// Three nodes, each with its own connections, learn about a change: notified by PostgreSQL, or by polling if
// there are no notifications.
func TestNodesLearnOfVersions(t *testing.T) {
	for _, test := range []struct {
		name     string
		source   func(*testing.T) string
		interval time.Duration
	}{
		{"postgres, told", newPostgresSource, never},
		{"postgres, asking", newPostgresSource, 20 * time.Millisecond},
		{"sqlite, asking", newSQLiteSource, 20 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			source := test.source(t)
			db := open(t, source)
			save(t, db, 0, ruleSet("one"))
			var nodes []*node
			for range 3 {
				o := origin(t, source)
				if test.interval == never {
					nodes = append(nodes, startNode(t, o, live.Options{Interval: never}))
					continue
				}
				nodes = append(nodes, startNode(t, silentOrigin{o}, live.Options{Interval: test.interval}))
			}
			for version := int64(2); version <= 4; version++ {
				save(t, db, version-1, ruleSet(fmt.Sprint("v", version)))
				for _, n := range nodes {
					n.awaitVersion(t, version)
				}
			}
			save(t, db, 4, "rules: [}")
			for _, n := range nodes {
				n.await(t, "refused", func(s live.Status) bool { return s.Refused != nil && s.Refused.Version == 5 })
				if got := n.Load().Version; got != 4 {
					t.Errorf("version %d replaced a good one", got)
				}
			}
		})
	}
}

// silentOrigin is an origin without notifications.
type silentOrigin struct{ *Origin }

func (silentOrigin) Watch(ctx context.Context, _ func(), _ func(error)) { <-ctx.Done() }

// A process learns about its own saves at once, with SQLite too.
func TestOwnSaveIsToldAtOnce(t *testing.T) {
	each(t, func(t *testing.T, source string) {
		o := origin(t, source)
		n, second := startNode(t, o, live.Options{Interval: never}), startNode(t, o, live.Options{Interval: never})
		if s := n.Status(); !errors.Is(s.Err, live.ErrNoRules) || len(n.Load().Rules) != 0 {
			t.Errorf("an empty database is served as %+v", s)
		}
		db, err := o.DB(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		save(t, db, 0, ruleSet("one"))
		n.awaitVersion(t, 1)
		second.awaitVersion(t, 1)
		if s := n.Status(); s.Published.IsZero() || s.Err != nil {
			t.Errorf("status %+v", s)
		}
	})
}

func TestOriginReadsADocumentOnce(t *testing.T) {
	each(t, func(t *testing.T, source string) {
		o := origin(t, source)
		db := open(t, source)
		read := func() *live.Text {
			text, err := o.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		save(t, db, 0, ruleSet("one"))
		first := read()
		if read() != first {
			t.Error("the same version was fetched again")
		}
		save(t, db, 1, ruleSet("two"))
		if second := read(); second.Version != 2 || string(second.Files[0].Data) != ruleSet("two") {
			t.Errorf("version %d", second.Version)
		}
	})
}

// The server is down when the node starts, then starts, stops and starts again.
func TestNodeOutlivesItsServer(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	source := newDatabase(t, server)
	lastGood := filepath.Join(t.TempDir(), "last-good")
	options := live.Options{LastGood: lastGood, Interval: 50 * time.Millisecond}
	save(t, open(t, source), 0, ruleSet("one"))
	startNode(t, origin(t, source), options).Close()

	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := live.Follow(t.Context(), origin(t, source), live.Options{}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("started from nothing: %v", err)
	}
	n := startNode(t, origin(t, source), options)
	if s := n.Status(); !s.FromCopy || s.Version != 1 || !errors.Is(s.Err, ErrUnavailable) {
		t.Fatalf("status %+v", s)
	}
	for version := int64(2); version <= 3; version++ {
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		save(t, open(t, source), version-1, ruleSet("next"))
		n.awaitVersion(t, version)
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		n.await(t, "noticed", func(s live.Status) bool { return s.Err != nil })
	}
	if got := n.Load().Version; got != 3 {
		t.Errorf("version %d is served", got)
	}
}

func TestOriginEnds(t *testing.T) {
	source := newPostgresSource(t)
	save(t, open(t, source), 0, ruleSet("one"))
	before := goleak.IgnoreCurrent()
	o := origin(t, source)
	n := startNode(t, o, live.Options{Interval: never})
	n.Close()
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	// Find waits a little itself, but a busy machine needs longer.
	for end := time.Now().Add(time.Minute); goleak.Find(before) != nil && time.Now().Before(end); {
	}
	goleak.VerifyNone(t, before)
	if _, err := o.Read(t.Context()); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "closed") {
		t.Errorf("read after Close: %v", err)
	}
}

func TestOriginIsNamedProperly(t *testing.T) {
	for _, source := range []string{"", "mysql://host", "postgres:", "sqlite:"} {
		if _, err := NewOrigin(source, patient); err == nil {
			t.Errorf("%q was accepted", source)
		}
	}
}

// A version that was saved while Read asked for the number of the current one is kept by the next Read, compiled as it
// is.
func TestReadDuringSave(t *testing.T) {
	o := origin(t, "sqlite:"+filepath.Join(t.TempDir(), "rules.db"))
	db, err := o.DB(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	document := []byte("rules: []\n")
	o.Offer(TextOf(1, document))
	if _, err := db.Save(t.Context(), Change{Author: "ann", Document: document}); err != nil {
		t.Fatal(err)
	}
	first, err := o.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.digest = nil // as if the number had been asked for before the version was saved
	for range 2 {
		if again, err := o.Read(t.Context()); again != first || err != nil {
			t.Errorf("read %+v, which is not the text that was offered: %v", again, err)
		}
	}
}
