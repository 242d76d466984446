package trafficdb_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/internal/trafficdb"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

const document = `
rules:
  - {name: search, match: {path: /search}, key: [user], limits: [{rate: 2/1h, algorithm: fixed_window}]}
  - {name: tried, match: {path: /search}, key: [user], limits: [{rate: 1/1h, algorithm: fixed_window}], mode: shadow}
`

// A node decides in memory and records its minutes.
type node struct {
	*engine.Engine
	*trafficdb.Recorder
	traffic *traffic.Traffic
	store   *memstore.Store
}

func startNode(t *testing.T, id string, database func(context.Context) (*ruledb.DB, error)) *node {
	t.Helper()
	snapshot, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(document)}}, rules.Options{Secret: "of the tests", Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{traffic: traffic.New()}
	if n.store, err = memstore.New(memstore.Options{}); err != nil {
		t.Fatal(err)
	}
	n.Engine, err = engine.New(engine.Options{
		Store: n.store, Rules: engine.Fixed(snapshot), Observe: n.traffic.Observe,
		Now: func() penstock.Instant { return penstock.InstantOf(time.Now()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Recorder = trafficdb.Start(trafficdb.Options{Traffic: n.traffic, Database: database, Node: id, Name: "node-" + id, Log: slog.New(slog.DiscardHandler)})
	return n
}

func (n *node) end() {
	n.Recorder.Close()
	n.traffic.Close()
	n.store.Close()
}

func (n *node) calls(t *testing.T, times int) {
	t.Helper()
	for range times {
		c := penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "path", Value: "/search"}, {Name: "user", Value: "u1"}}}
		if err := n.Decide(context.Background(), &c, new(penstock.Verdict)); err != nil {
			t.Error(err)
		}
	}
}

// told describes the history of the last minutes: each node with allowed/denied/shadow of each step, "-" where it was
// not running.
func (n *node) told(t *testing.T, last time.Duration) string {
	t.Helper()
	found, err := n.Read(t.Context(), trafficdb.Between(time.Now().Add(-last), time.Now()), nil)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range found {
		text := p.Name
		for i, known := range p.Known {
			if c := p.Series[i]; known {
				text += fmt.Sprintf(" %d/%d/%d", c.Allowed, c.Denied, c.Shadow)
			} else {
				text += " -"
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// Minutes are kept over restarts. The time without a node is unknown, not zero, and marks say what happened.
func TestHistorySurvivesRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		origin := newDatabase(t)
		a := startNode(t, "A", origin.DB)
		time.Sleep(time.Second) // the current minute has begun
		a.traffic.Mark(traffic.MarkStart, "version 1")
		a.calls(t, 3)
		time.Sleep(2 * time.Minute)
		a.calls(t, 1)
		if got, want := a.told(t, 3*time.Minute), "node-A - 2/1/2 0/0/0 0/1/1"; got != want {
			t.Errorf("while it runs %q, want %q", got, want)
		}
		a.end() // in the middle of a minute
		time.Sleep(3 * time.Minute)
		b := startNode(t, "B", origin.DB)
		b.calls(t, 1)
		time.Sleep(time.Second)
		if got, want := b.told(t, 5*time.Minute), "node-A 2/1/2 0/0/0 0/1/1 - - -; node-B - - - - - 1/0/0"; got != want {
			t.Errorf("after a restart %q, want %q", got, want)
		}
		found, err := b.Read(t.Context(), trafficdb.Between(time.Now().Add(-5*time.Minute), time.Now()), nil)
		if err != nil || len(found) != 2 {
			t.Fatal(found, err)
		}
		if m := found[0].Marks; len(m) != 2 || m[0].Kind != traffic.MarkStart || m[0].Text != "version 1" || m[1].Kind != traffic.MarkStop {
			t.Errorf("marks %+v", m)
		}
		if c := found[0].Rules["tried"][0]; c.Denied != 0 || c.Shadow != 2 || c.Allowed != 1 {
			t.Errorf("a shadow rule counts %+v", c)
		}
		only, err := b.Read(t.Context(), trafficdb.Query{From: found0(), To: found0().Add(10 * time.Minute), Step: time.Minute, Rule: "search"}, map[string]int64{"A": found[0].Last})
		if err != nil || len(only) != 1 || only[0].Node != "B" || len(only[0].Rules) != 1 {
			t.Errorf("what is new of one rule: %+v, %v", only, err)
		}
		b.end()
		origin.Close()
	})
}

// found0 is the start of the bubble's clock.
func found0() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// While the database fails, minutes wait in memory, and are saved when it is back.
func TestDatabaseFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		origin := newDatabase(t)
		var fails atomic.Bool
		fails.Store(true)
		a := startNode(t, "A", func(ctx context.Context) (*ruledb.DB, error) {
			if fails.Load() {
				return nil, errors.New("no database")
			}
			return origin.DB(ctx)
		})
		a.calls(t, 3)
		time.Sleep(10*time.Minute + time.Second)
		found, err := a.Read(t.Context(), trafficdb.Between(time.Now().Add(-time.Hour), time.Now()), nil)
		if err == nil || a.Problem() == nil || len(found) != 1 || found[0].Series[len(found[0].Series)-11].Denied != 1 {
			t.Errorf("without a database: %v, %+v", err, found)
		}
		fails.Store(false)
		time.Sleep(time.Minute)
		if a.Problem() != nil {
			t.Error(a.Problem())
		}
		a.end()
		b := startNode(t, "B", origin.DB)
		if got := b.told(t, 12*time.Minute); !strings.Contains(got, "node-A - 2/1/2 0/0/0 ") {
			t.Errorf("what was counted without the database is %q", got)
		}
		b.end()
		origin.Close()
	})
}

// What is older than two days is deleted.
func TestHistoryIsPruned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		origin := newDatabase(t)
		db, err := origin.DB(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now().Unix() / 60
		if err := db.SaveTraffic(t.Context(), ruledb.TrafficMinute{Minute: now - 49*60, Node: "OLD", Counts: []byte{}}, ruledb.TrafficMinute{Minute: now - 47*60, Node: "RECENT", Counts: []byte{}}); err != nil {
			t.Fatal(err)
		}
		a := startNode(t, "A", origin.DB)
		time.Sleep(2 * time.Minute)
		found := ""
		if err := db.Traffic(t.Context(), 0, now, func(m ruledb.TrafficMinute) error { found += m.Node; return nil }); err != nil || found != "RECENT" {
			t.Errorf("it keeps %q: %v", found, err)
		}
		a.end()
		origin.Close()
	})
}

func newDatabase(t *testing.T) *ruledb.Origin {
	t.Helper()
	origin, err := ruledb.NewOrigin("sqlite:"+filepath.Join(t.TempDir(), "history.db"), ruledb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return origin
}

// A period has at most about 200 steps, of whole minutes.
func TestBetween(t *testing.T) {
	at := time.Date(2026, 1, 31, 3, 7, 31, 0, time.UTC)
	for last, want := range map[time.Duration]string{
		time.Hour: "1m0s 61", 6 * time.Hour: "2m0s 181", 24 * time.Hour: "10m0s 145", 48 * time.Hour: "15m0s 193", time.Second: "1m0s 1",
	} {
		q := trafficdb.Between(at.Add(-last), at)
		if got := fmt.Sprint(q.Step, " ", q.Steps()); got != want || !trafficdb.Valid(&q) {
			t.Errorf("%v has steps %s, want %s", last, got, want)
		}
	}
}
