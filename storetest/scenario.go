package storetest

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

//go:embed testdata/*.scenario
var scenarioFiles embed.FS

// Scenarios plays every file of testdata: examples of the algorithms and their edge cases. The package
// comment describes the format.
func (s Suite) Scenarios(t *testing.T) {
	nodes := s.open(t, 2)
	files, err := fs.Glob(scenarioFiles, "testdata/*.scenario")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := path.Base(file)
		text, err := scenarioFiles.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sc, err := parseScenario(name, string(text))
		if err != nil {
			t.Fatal(err)
		}
		if sc.able() && s.Plain {
			continue
		}
		t.Run(strings.TrimSuffix(name, ".scenario"), func(t *testing.T) {
			if err := sc.play(nodes); err != nil {
				t.Error(err)
			}
		})
	}
}

// A scenario is a sequence of events for one subject.
type scenario struct {
	events []event
}

// able reports whether the scenario needs more than decisions.
func (sc *scenario) able() bool {
	return slices.ContainsFunc(sc.events, func(e event) bool { return e.around != nil })
}

// An event is one line: a limit or a guard appears or changes, requests are made, or another operation is
// done.
type event struct {
	line   string // file:line
	limit  *limitEvent
	guard  func(g *storage.Group)
	calls  *callsEvent
	around *operationEvent
}

type limitEvent struct {
	index int // of the limit among all limits
	meter *algorithm.Meter
	alone bool
}

type callsEvent struct {
	at       algorithm.Instant
	count    int
	cost     int64
	maxDelay time.Duration
	nonce    uint64 // 0: each request has its own
	id       string // "": none
	overdraw bool
	pass     bool
	expect   []expectation
}

// An expectation is checked against the answer to the last request.
type expectation struct {
	text  string
	limit int                                                              // index, or everyLimit
	check func(ds []algorithm.Decision) (got any, ok bool)                 // of the limits, or
	group func(o *storage.GroupOutcome, now algorithm.Instant) (any, bool) // of the group
}

const everyLimit = -1

// check compares an answer with expectations. Without a group, expectations about the group are skipped.
func check(expect []expectation, decisions []algorithm.Decision, group *storage.GroupOutcome, now algorithm.Instant) error {
	for _, x := range expect {
		var got any
		var ok bool
		switch {
		case x.group != nil && group == nil:
			return fmt.Errorf("%q says nothing here", x.text)
		case x.group != nil:
			got, ok = x.group(group, now)
		case x.limit != everyLimit:
			got, ok = x.check(decisions[x.limit : x.limit+1])
		default:
			got, ok = x.check(decisions)
		}
		if !ok {
			return fmt.Errorf("want %q, got %v: %+v %+v", x.text, got, decisions, group)
		}
	}
	return nil
}

// A scenarioPlayer plays a scenario on a store, moving from node to node.
type scenarioPlayer struct {
	nodes   []storage.Store
	subject storage.Subject
	limits  []limitEvent
	guards  []func(g *storage.Group)
	nonce   uint64
	made    int
}

func (sc *scenario) play(nodes []storage.Store) error {
	n := scenarioPlayer{nodes: nodes, subject: newSubject(), nonce: 1 << 32} // above those a scenario names
	for _, e := range sc.events {
		if err := n.tell(&e); err != nil {
			return fmt.Errorf("%s: %w", e.line, err)
		}
	}
	return nil
}

func (n *scenarioPlayer) tell(e *event) error {
	switch {
	case e.limit != nil:
		if e.limit.index == len(n.limits) {
			n.limits = append(n.limits, *e.limit)
		}
		n.limits[e.limit.index].meter = e.limit.meter
		return nil
	case e.guard != nil:
		n.guards = append(n.guards, e.guard)
		return nil
	case e.around != nil:
		return e.around.play(n.next().(CompleteStore), n.ticket(&callsEvent{}).Groups[0])
	}
	var out storage.Outcome
	for i := range e.calls.count {
		if err := n.next().Take(context.Background(), n.ticket(e.calls), &out); err != nil {
			return fmt.Errorf("call %d: %w", i+1, err)
		}
		if out.Allowed != e.calls.pass {
			return fmt.Errorf("call %d: pass is %v, want %v: %+v %+v", i+1, out.Allowed, e.calls.pass, out.Decisions, out.Groups)
		}
	}
	return check(e.calls.expect, out.Decisions, &out.Groups[0], out.Now)
}

func (n *scenarioPlayer) next() storage.Store {
	n.made++
	return n.nodes[n.made%len(n.nodes)]
}

// ticket puts the limits that are decided together into one group, and each independent limit into its own
// group after it, so that decisions come in the order of the limits. The guards belong to the first group.
func (n *scenarioPlayer) ticket(c *callsEvent) *storage.Ticket {
	t := &storage.Ticket{Now: c.at, MaxDelay: c.maxDelay, Nonce: c.nonce}
	if t.Nonce == 0 {
		n.nonce++
		t.Nonce = n.nonce
	}
	for _, l := range n.limits {
		charge := algorithm.Charge{Meter: l.meter, Cost: c.cost, Overdraw: c.overdraw}
		if last := len(t.Groups) - 1; last >= 0 && !l.alone {
			t.Groups[last].Charges = append(t.Groups[last].Charges, charge)
		} else {
			t.Groups = append(t.Groups, storage.Group{Subject: n.subject, Charges: []algorithm.Charge{charge}, Alone: l.alone})
		}
	}
	for _, guard := range n.guards {
		guard(&t.Groups[0])
	}
	if c.id != "" {
		t.Groups[0].Call = hasher.Call(c.id)
	}
	return t
}
