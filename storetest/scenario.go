package storetest

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
)

//go:embed testdata/*.scenario
var scenarioFiles embed.FS

// Scenarios plays every file of testdata: the algorithms and their edges as a person would tell
// them. The format is described in the package comment.
func (s Suite) Scenarios(t *testing.T) {
	nodes := s.Open(t, 2)
	files, err := fs.Glob(scenarioFiles, "testdata/*.scenario")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := path.Base(file)
		t.Run(strings.TrimSuffix(name, ".scenario"), func(t *testing.T) {
			text, err := scenarioFiles.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sc, err := parseScenario(name, string(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := sc.play(nodes); err != nil {
				t.Error(err)
			}
		})
	}
}

// A scenario is a story of one subject.
type scenario struct {
	events []event
}

// An event is one line: a limit appears or changes, or calls are made.
type event struct {
	line  string // file:line
	limit *limitEvent
	calls *callsEvent
}

type limitEvent struct {
	index int // of the limit among all
	meter *penstock.Meter
	alone bool
}

type callsEvent struct {
	at       penstock.Instant
	count    int
	cost     int64
	maxDelay time.Duration
	nonce    uint64 // 0: each call its own
	pass     bool
	expect   []expectation
}

// An expectation is checked on the answer to the last of the calls.
type expectation struct {
	text  string
	limit int // index, or everyLimit
	check func(ds []penstock.Decision) (got any, ok bool)
}

const everyLimit = -1

// play tells the story to the store, from node to node.
func (sc *scenario) play(nodes []penstock.Store) error {
	subject := newcomer()
	var limits []limitEvent
	nonce := uint64(1 << 32) // above those a scenario names
	made := 0
	for _, e := range sc.events {
		if e.limit != nil {
			if e.limit.index == len(limits) {
				limits = append(limits, *e.limit)
			}
			limits[e.limit.index].meter = e.limit.meter
			continue
		}
		var out penstock.Outcome
		for i := range e.calls.count {
			t := e.calls.ticket(subject, limits)
			if t.Nonce == 0 {
				nonce++
				t.Nonce = nonce
			}
			made++
			if err := nodes[made%len(nodes)].Take(context.Background(), t, &out); err != nil {
				return fmt.Errorf("%s: call %d: %w", e.line, i+1, err)
			}
			if out.Allowed != e.calls.pass {
				return fmt.Errorf("%s: call %d: pass is %v, want %v: %+v", e.line, i+1, out.Allowed, e.calls.pass, out.Decisions)
			}
		}
		for _, x := range e.calls.expect {
			decisions := out.Decisions
			if x.limit != everyLimit {
				decisions = out.Decisions[x.limit : x.limit+1]
			}
			if got, ok := x.check(decisions); !ok {
				return fmt.Errorf("%s: want %q, got %v: %+v", e.line, x.text, got, out.Decisions)
			}
		}
	}
	return nil
}

// ticket puts the limits that stand together into one group, and each that is alone into its own,
// behind it: so decisions come in the order of the limits.
func (c *callsEvent) ticket(subject penstock.Subject, limits []limitEvent) *penstock.Ticket {
	t := &penstock.Ticket{Now: c.at, MaxDelay: c.maxDelay, Nonce: c.nonce}
	for _, l := range limits {
		charge := penstock.Charge{Meter: l.meter, Cost: c.cost}
		if last := len(t.Groups) - 1; last >= 0 && !l.alone {
			t.Groups[last].Charges = append(t.Groups[last].Charges, charge)
		} else {
			t.Groups = append(t.Groups, penstock.Group{Subject: subject, Charges: []penstock.Charge{charge}, Alone: l.alone})
		}
	}
	return t
}
