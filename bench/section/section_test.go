package section

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/limiter"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/redisstore"
)

func TestMain(m *testing.M) {
	lab.ServeIfChild(map[string]func([]string) error{limiter.Role: limiter.Serve})
	os.Exit(m.Run())
}

func TestContestantsThatNeedTooMuchAreLeftOut(t *testing.T) {
	defer func(before int64) { mostWeight = before }(mostWeight)
	mostWeight = 1
	var s report.Section
	err := lab.Bench{Context: t.Context(), Divisor: 500}.Run(func(b *lab.Bench) { s = Keys(b) })
	if err != nil {
		t.Fatal(err)
	}
	if want := len(limiter.InMemory); len(s.Notes) != want || !strings.HasPrefix(s.Notes[0], "Left out: ") {
		t.Errorf("%d notes (%q), want one about each of %d contestants", len(s.Notes), s.Notes, want)
	}
	for _, g := range s.Goals {
		if g.Verdict != "not measured" {
			t.Errorf("goal %q is %s", g.Name, g.Verdict)
		}
	}
	err = lab.Bench{Context: t.Context(), HugeKeys: 1 << 57}.Run(func(b *lab.Bench) { Huge(b) })
	if err == nil || !strings.Contains(err.Error(), "choose fewer with -keys") {
		t.Errorf("more keys than there is memory for: %v", err)
	}
}

// The check notices nodes that do not share their limit.
func TestCheckNoticesWhoDoesNotShare(t *testing.T) {
	for _, shares := range []bool{true, false} {
		var found nodeResult
		err := lab.Bench{Context: t.Context()}.Run(func(b *lab.Bench) {
			server, s := b.Redis(), hotRules(1)
			l := nodeLoad{callers: 2 * members, path: deniedPath, user: "user", window: roomyWindow}
			for i := range members {
				o := redisstore.Options{Addresses: []string{server.Addr}}
				if !shares {
					o.KeyPrefix = fmt.Sprintf("node%d:", i)
				}
				l.nodes = append(l.nodes, openNode(b, o, s))
			}
			found = l.run(b, server)
		})
		if err != nil {
			t.Fatal(err)
		}
		want := map[bool]int64{true: 1, false: members}[shares]
		if w := found.windows; w.admitted() != want || w.fullest() != want || found.Decisions != 2*members || (w.check(1) == nil) != shares {
			t.Errorf("shares: %v: %d of %d passed, %d in a window, want %d; %v", shares, w.admitted(), found.Decisions, w.fullest(), want, w.check(1))
		}
	}
}

func TestWindows(t *testing.T) {
	w := windows{0: 3, 10: 6, 20: 1}
	if w.fullest() != 6 || w.admitted() != 10 || w.emptiest() != 6 { // of the middle window
		t.Errorf("%d in a window, %d in all, %d in the emptiest whole window; want 6, 10 and 6", w.fullest(), w.admitted(), w.emptiest())
	}
	w[15], w[30] = 2, 0
	if n := w.emptiest(); n != 1 {
		t.Errorf("%d in the emptiest whole window, want 1", n)
	}
	if w.check(6) != nil || w.check(5) == nil {
		t.Error("a window with 6 calls is within 6 and beyond 5")
	}
}
