package hot

import (
	"fmt"
	"slices"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
)

func TestMeasureFillsEveryCell(t *testing.T) {
	s, err := Measure(t.Context(), Options{Cell: 0, Scarce: 20, Repeat: 2}) // with no time, every client sends one request
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Tables) != 4 || len(s.Goals) != 9 {
		t.Fatalf("%d tables and %d goals; want speed, waiting, costs and nodes, and 9", len(s.Tables), len(s.Goals))
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
		t.Errorf("%d in a window and %d in all, want 6 and 9", a.fullest(), a.admitted())
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
