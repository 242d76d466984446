package hot

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
)

func TestMeasureFillsEveryCell(t *testing.T) {
	s, err := Measure(t.Context(), Options{Cell: 0, Scarce: 20, Repeat: 2}) // with no time, every client sends one request
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Tables) != 4 || len(s.Goals) != 11 {
		t.Fatalf("%d tables and %d goals; want speed, waiting, costs and nodes, and 11", len(s.Tables), len(s.Goals))
	}
	for _, table := range s.Tables {
		for _, row := range table.Rows {
			for i, v := range row.Values {
				column := table.Columns[i].Name
				// Redis may have done nothing, or less than its clock can measure.
				free := slices.Contains([]string{asked, calls, redisCPU}, column)
				none := (column == fullest || column == emptiest) && row.Name != reached
				if !none && !(v > 0) && !(v == 0 && free) {
					t.Errorf("%s: %s, %s: %v", table.Title, row.Name, column, v)
				}
			}
		}
	}
	costs := s.Tables[2]
	if v := costs.Value(exact, 0); v != 1 {
		t.Errorf("Redis made %v of the exact decisions, want every one", v)
	}
	if v := costs.Value(oneEach, 1); v != 1 {
		t.Errorf("%v calls for a decision alone, want 1", v)
	}
}

// The check notices nodes that do not share their limit.
func TestCheckNoticesWhoDoesNotShare(t *testing.T) {
	server := redistest.Start(t)
	s, err := compile(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, shares := range []bool{true, false} {
		l := load{callers: 2 * members, path: deniedPath, user: fmt.Sprint("shares: ", shares), window: roomyWindow}
		for i := range members {
			o := redisstore.Options{Addresses: []string{server.Addr}}
			if !shares {
				o.KeyPrefix = fmt.Sprintf("node%d:", i)
			}
			n, err := openNode(o, s)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(n.close)
			l.nodes = append(l.nodes, n)
		}
		found, err := l.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := int64(1)
		if !shares {
			want = members
		}
		if found.admitted() != want || found.fullest() != want || found.decisions != 2*members || found.latency.TotalCount() != 2*members {
			t.Errorf("shares: %v: %d of %d passed, %d in a window, want %d", shares, found.admitted(), found.decisions, found.fullest(), want)
		}
		if err := found.check(1); (err == nil) != shares {
			t.Errorf("shares: %v: %v", shares, err)
		}
	}
}

func TestServedAddsUpWindows(t *testing.T) {
	a, b := newLoadResult(), newLoadResult()
	a.windows = map[penstock.Instant]int64{0: 3, 10: 4}
	b.windows = map[penstock.Instant]int64{10: 2, 20: 1}
	a.add(b)
	if a.fullest() != 6 || a.admitted() != 10 {
		t.Errorf("%d in a window and %d in all, want 6 and 11", a.fullest(), a.admitted())
	}
	if n := a.emptiest(); n != 6 { // of the middle window
		t.Errorf("%d in the emptiest whole window, want 6", n)
	}
	a.windows[15], a.windows[30] = 2, 0
	if n := a.emptiest(); n != 1 {
		t.Errorf("%d in the emptiest whole window, want 1", n)
	}
	if a.check(6) != nil || a.check(5) == nil {
		t.Error("a window with 6 calls is within 6 and beyond 5")
	}
}

// A replay decides the recorded requests.
func TestReplayDecides(t *testing.T) {
	server := redistest.Start(t)
	b := &bench{addr: server.Addr, options: Options{Scarce: 1}, progress: report.Begin(nil, "", 0)}
	defer b.close()
	if err := b.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	used := func() int64 {
		n, err := b.nodes[0].used(t.Context(), recorded)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const runs = connections * pipeline // with no time, each sends one pipeline
	if n := used(); n != rounds*(1+crowd) {
		t.Fatalf("%d were recorded, want %d", n, rounds*(1+crowd))
	}
	for _, name := range ceilings {
		before := used()
		if _, err := replay(t.Context(), server.Addr, b.runs[name], 0); err != nil {
			t.Fatal(err)
		}
		n := used() - before
		if n < runs || n%runs != 0 || name == oneEach && n != runs {
			t.Errorf("%s: %d decisions of %d runs", name, n, runs)
		}
	}
	if _, err := replay(t.Context(), server.Addr, []byte("*1\r\n$4\r\nNONE\r\n"), 0); err == nil || !strings.Contains(err.Error(), "NONE") {
		t.Errorf("got %v, want Redis' own words", err)
	}
}

func TestCommands(t *testing.T) {
	const sent = "*2\r\n$3\r\nget\r\n$2\r\n\r\n\r\n" + "*1\r\n$4\r\nPING\r\n" + "*2\r\n$3\r\nGET\r\n$1\r\na\r\n"
	for cut := range len(sent) + 1 {
		all, err := commands([]byte(sent[:cut]))
		if err != nil {
			t.Fatalf("%q: %v", sent[:cut], err)
		}
		var whole []byte
		for _, name := range slices.Sorted(maps.Keys(all)) {
			for _, text := range all[name] {
				whole = append(whole, text...)
			}
		}
		if len(whole) > cut || cut == len(sent) && (len(whole) != cut || len(all["GET"]) != 2 || len(all["PING"]) != 1) {
			t.Errorf("%q was read as %q", sent[:cut], all)
		}
	}
	for _, bad := range []string{"\n", "PING\r\n", "*x\r\n", "*-1\r\n", "*1\r\n*1\r\n", "*1\r\n$99999999999\r\n"} {
		if all, err := commands([]byte(bad)); err == nil {
			t.Errorf("%q was read as %q", bad, all)
		}
	}
}
