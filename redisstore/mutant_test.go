package redisstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
)

// TestMutants breaks the scripts in small ways, one at a time, and requires that every broken script is
// detected: by the traces of the contract's twin test, or by a check of expiry times, corrupt values and
// stale slots. It proves that these tests guard the scripts.
//
// By default it tries a sample. PENSTOCK_TEST_LONG=1 tries all, and PENSTOCK_TEST_MUTANTS those that match
// a regular expression.
func TestMutants(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the mutants are of the scripts, in which nothing runs concurrently")
	}
	traces := twinTraces(t, 20_000, 1)
	edges, err := edgeTraces()
	if err != nil {
		t.Fatal(err)
	}
	everywhere := append(mutants(redisstore.ScriptText()), mutants(redisstore.AmendScriptText())...)
	for _, e := range equivalents {
		for _, mistake := range e.mistakes {
			if !slices.ContainsFunc(everywhere, func(m mutant) bool { return m.line == e.line && m.mistake == mistake }) {
				t.Errorf("the scripts have no longer this line, or not this mistake: %q, %s", e.line, mistake)
			}
		}
	}
	t.Run("take", func(t *testing.T) {
		t.Parallel()
		// Most checks use tickets of a single limit. A mistake elsewhere is tried without the path for them.
		lab := newLaboratory(t, traces, edges)
		lab.take = redisstore.WithoutSinglePath(lab.take)
		lab.try(t, mutants(redisstore.ScriptText()), func(text string) { lab.take = redisstore.WithoutSinglePath(text) })
	})
	t.Run("amend", func(t *testing.T) {
		t.Parallel()
		lab := newLaboratory(t, traces, edges)
		lab.try(t, ownMutants(redisstore.AmendScriptText(), redisstore.ScriptText()), func(text string) { lab.amend = text })
	})
}

// try first makes sure that the checks pass without a mistake.
func (l *laboratory) try(t *testing.T, all []mutant, use func(text string)) {
	if by, err := l.examine(); err != nil {
		t.Fatalf("the scripts themselves are found faulty by %s: %v", by, err)
	}
	l.timeout = 5 * time.Second // from here on some never end
	whole := os.Getenv("PENSTOCK_TEST_LONG") == "1"
	if len(all) < 300 {
		t.Fatalf("only %d mutants: the mutator no longer understands the script", len(all))
	}
	if some := os.Getenv("PENSTOCK_TEST_MUTANTS"); some != "" {
		wanted := regexp.MustCompile(some)
		all = slices.DeleteFunc(all, func(m mutant) bool { return !wanted.MatchString(m.String()) })
	} else if !whole {
		r := rand.New(rand.NewPCG(5, 6))
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:25]
	}
	killed, excused := map[string]int{}, 0
	for _, m := range all {
		if !whole && equivalent(m) != "" { // nothing to find, by every check
			excused++
			continue
		}
		use(m.text)
		by, err := l.examine()
		switch {
		case err != nil:
			killed[by]++
		case equivalent(m) != "":
			excused++
		default:
			t.Errorf("survived: %v", m)
		}
	}
	t.Logf("%d mutants: killed by %v; %d change nothing that can be seen", len(all), killed, excused)
}

// A laboratory is a server on which broken scripts may do anything. Its checks are in the order of what they cost.
type laboratory struct {
	t           *testing.T
	server      *redistest.Server
	store       *redisstore.Store
	timeout     time.Duration
	take, amend string // the scripts
	twin, edges []trace
}

func newLaboratory(t *testing.T, twin, edges []trace) *laboratory {
	// A script that never ends is reported soon, so that the server can be replaced.
	server := redistest.Start(t, "--lua-time-limit", "100")
	const patience = time.Minute
	store := dial(t, redisstore.Options{Addresses: []string{server.Addr}, Timeout: patience})
	return &laboratory{t, server, store, patience, redisstore.ScriptText(), redisstore.AmendScriptText(), twin, edges}
}

// dial connects again.
func (l *laboratory) dial() {
	l.store.Close()
	l.store = dial(l.t, redisstore.Options{Addresses: []string{l.server.Addr}, Timeout: l.timeout, ConnectTimeout: time.Minute})
}

// examine looks for a fault in the scripts and returns which check found it.
func (l *laboratory) examine() (by string, fault error) {
	l.clean()
	l.dial() // something of the last mutant may still be undone
	l.store.UseScript(l.take)
	l.store.UseAmendScript(l.amend)
	for _, e := range []struct {
		by   string
		find func() error
	}{
		{"twin", func() error { return play(l.store, l.twin[:len(l.twin)/4]) }}, // finds most
		{"across", func() error { return acrossTickets(redisstore.Across{Store: l.store}, 1, 600) }},
		{"slots", func() error { return checkSlots(l.store, l.server.Addr) }},
		{"ends", func() error { return checkEnds(l.store, l.server.Addr) }},
		{"foreign", func() error { return checkForeign(l.store, l.server.Addr) }},
		{"quiet", func() error { return checkQuiet(l.store, l.server.Addr) }},
		{"misplaced", func() error { return checkMisplaced(l.store, l.server.Addr) }},
		{"logs", func() error { return checkLogs(l.store, l.server.Addr) }},
		{"leases", func() error { return checkLeases(l.store, l.server.Addr) }},
		{"dates", func() error { return checkDates(l.store) }},
		{"guards' ends", func() error { return checkGuardEnds(l.store, l.server.Addr) }},
		{"tidy", func() error { return checkTidy(l.store, l.server.Addr) }},
		{"foreign guards", func() error { return checkGuardForeign(l.store, l.server.Addr) }},
		{"undo", func() error { return checkUndo(l.store, l.server.Addr) }},
		{"give-backs", func() error { return checkGiveBack(l.store, l.server.Addr) }},
		{"debts", func() error { return checkDebt(l.store) }},
		{"refused", func() error { return checkRefused(l.store, l.server.Addr) }},
		{"closed", func() error { return checkClosed(l.store, l.server.Addr) }},
		{"extends", func() error { return checkExtends(l.store, l.server.Addr) }},
		{"settled dates", func() error { return checkSettleDates(l.store) }},
		{"lost", func() error { return checkLost(l.store, l.server.Addr) }},
		{"more twins", func() error { return play(l.store, l.twin[len(l.twin)/4:]) }},
		{"edges", func() error { return play(l.store, l.edges) }},
		{"late charges", func() error { return checkLate(l.store, l.server.Addr) }},
		{"lives", func() error { return redisstore.CheckLives(l.store, l.server.Addr, l.take) }},
	} {
		err := e.find()
		if errors.Is(err, context.DeadlineExceeded) && l.idle() { // the machine was slow, not the script
			l.clean()
			err = e.find()
		}
		if err != nil {
			return e.by, err
		}
	}
	return "", nil
}

// idle reports whether the server answers, so that no script is running there.
func (l *laboratory) idle() bool {
	_, err := redistest.Command(l.server.Addr, "PING")
	return err == nil
}

// clean empties the server, or replaces it if a script is still running there.
func (l *laboratory) clean() {
	l.t.Helper()
	_, err := redistest.Command(l.server.Addr, "FLUSHALL")
	if err == nil {
		return
	}
	if !strings.Contains(err.Error(), "BUSY") {
		l.t.Fatal(err)
	}
	if err := l.server.Restart(); err != nil {
		l.t.Fatal(err)
	}
}
