package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
)

// A fault is one thing that breaks.
type fault struct {
	name  string
	short bool // run always, in a short form

	lives   int  // as in bound
	unheard bool // as in bound

	// silent is a fault during which Redis does not answer, or later than it did before: requests then
	// wait up to the timeout.
	silent bool

	// balanced is a load whose requests go to another node when one is gone. Those in flight may then be charged
	// twice.
	balanced bool

	arrange func(t *testing.T) faultSetup
}

// A faultSetup is what a fault needs: servers, how nodes use them, and how to break them.
type faultSetup struct {
	store  string              // what nodes are configured with
	rules  func(string) string // and where the text of rules goes; nil: to a file
	inject func(s *faultStage) // breaks it, and returns when it is mended
}

// A faultStage is where a fault is tried.
type faultStage struct {
	*testing.T
	faultSetup
	nodes []*node
	watch *watch
	load  *load
}

// hold lets the fault last.
func (s *faultStage) hold() { time.Sleep(run.lasting) }

// A scale is how large a run is.
type scale struct {
	nodes, rate            int           // requests per second
	before, lasting, after time.Duration // the fault
}

var run = func() scale {
	if long {
		return scale{3, 600, 2 * time.Second, 3 * time.Second, 3 * time.Second}
	}
	return scale{2, 300, 700 * time.Millisecond, time.Second, 800 * time.Millisecond}
}()

func TestFaults(t *testing.T) {
	for _, f := range slices.Concat(redisFaults, linkFaults, sentinelFaults, clusterFaults, otherFaults) {
		if !f.short && !long {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			besideOthers(t)
			f.try(t)
		})
	}
}

func (f *fault) try(t *testing.T) {
	s := f.stage(t)
	time.Sleep(run.before)
	var during span
	during.from = s.load.now()
	s.inject(s)
	during.to = s.load.now()
	time.Sleep(run.after)
	answers := s.load.stop()
	for i, n := range s.nodes {
		eventually(t, fmt.Sprintf("node %d decides in Redis again", i), func() bool { return n.decidesExactly(i) })
	}
	for i, n := range s.nodes {
		eventually(t, fmt.Sprintf("node %d has charged Redis with what it admitted", i), func() bool { return n.process.Exited() || n.booksAreBalanced() })
	}
	figures := judge(answers, during, bound{run.nodes, f.lives, f.unheard})
	figures.fault, figures.goal = f.name, f.goal()
	figures.countHoldings(s.watch.end(s.load.most, patient))
	figures.publish()
	figures.check(t)
	t.Logf("longest answer %v, %d sent again; a node held %+v at most, %d calls were under way\n%s",
		figures.max, figures.retried, figures.held, s.load.most, figures.row())
}

// stage starts the nodes, and the load on them.
func (f *fault) stage(t *testing.T) *faultStage {
	s := &faultStage{T: t, faultSetup: f.arrange(t)}
	slack := 1
	if f.balanced {
		slack = 2
	}
	rules := s.rules
	if rules == nil {
		rules = func(text string) string { return rulesFile(t, text) }
	}
	from := rules(rulesText(slack))
	var deciders []penstock.Decider
	for range run.nodes {
		n := startNode(t, t.TempDir(), s.store+fmt.Sprintf("\nnodes: %d", run.nodes), from)
		eventually(t, "the node is connected to Redis", n.connected)
		s.nodes, deciders = append(s.nodes, n), append(deciders, n)
	}
	s.watch = startWatch(t, s.nodes)
	s.load = startLoad(t, &load{nodes: deciders, perSecond: run.rate, retry: f.balanced})
	return s
}

// rulesFile configures rules from a new file.
func rulesFile(t *testing.T, text string) (config string) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	return "rules: {file: '" + file + "'}"
}

// onRedis configures a store.
func onRedis(mode string, addresses ...string) (config string) {
	return fmt.Sprintf("store: {redis: {mode: %s, addresses: ['%s']}}", mode, strings.Join(addresses, "', '"))
}

// decidesExactly reports whether the node decides a new client's request in the shared store.
func (n *node) decidesExactly(i int) bool {
	if n.process.Exited() {
		return true // it was the one that broke
	}
	var v penstock.Verdict
	stranger := caller{&kinds[0], i, int(time.Now().UnixNano())}
	err := n.Decide(context.Background(), stranger.call(), &v)
	return err == nil && v.Allowed && v.Quality == penstock.QualityExact
}
