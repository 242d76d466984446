package race

import (
	"bytes"
	"encoding/xml"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/redistest"
)

// Every way does what the page about it says: some admit too many, some deny falsely, the others are exact, at the
// documented number of trips and commands.
func TestWays(t *testing.T) {
	server := redistest.Start(t)
	race := func(t *testing.T, w Way, callers int) *Cell {
		c, err := Run(t.Context(), server.Addr, w, Load{callers, time.Millisecond}, 5)
		if err != nil || c.GaveUp > 0 {
			t.Fatalf("%+v, %v", c, err)
		}
		return c
	}
	var cells []*Cell
	for i, w := range Ways() {
		t.Run(w.Name, func(t *testing.T) {
			alone, few, many := race(t, w, 1), race(t, w, 5), race(t, w, 50)
			cells = append(cells, few, many)
			if slices.Min(few.Admitted) != 5 {
				t.Errorf("%v of 5 callers pass", few.Admitted)
			}
			switch i {
			case 0: // check then add
				if slices.Min(many.Admitted) < limit.Calls || many.Over() == 0 {
					t.Errorf("%v of 50 pass: the race did not show", many.Admitted)
				}
			case 1: // four steps
				if many.Over() > 0 || many.FalselyDenied() == 0 || slices.Min(many.Logged) != 50 {
					t.Errorf("%v of 50 pass, %v are logged", many.Admitted, many.Logged)
				}
			case 2: // with a shared member
				if slices.Min(many.Admitted) != 50 || slices.Max(many.Logged) != 1 {
					t.Errorf("%v of 50 pass, %v are logged", many.Admitted, many.Logged)
				}
			default:
				if many.Over() > 0 || many.FalselyDenied() > 0 {
					t.Errorf("%v of 50 pass, want %d", many.Admitted, limit.Calls)
				}
			}
			if want := []float64{3, 4, 4, 1, 5, 2, 1, 1, 1}[i]; alone.TripsPerCall != want || alone.RetriesPerCall != 0 {
				t.Errorf("alone: %v trips, want %v; %v retries", alone.TripsPerCall, want, alone.RetriesPerCall)
			}
			if want := []float64{4, 4, 4, 6, 8, 7, 6, 6, 0}[i]; want > 0 && alone.CommandsPerCall != want {
				t.Errorf("alone: %v commands, want %v", alone.CommandsPerCall, want)
			}
		})
	}
	left, err := redistest.Command(server.Addr, "KEYS", "penstock-race:*")
	if err != nil || strings.TrimSpace(left) != "" {
		t.Errorf("%q keys left behind, %v", left, err)
	}
	var table bytes.Buffer
	dir := t.TempDir()
	if err := WriteTables(&table, cells, []Load{{50, time.Millisecond}}); err != nil {
		t.Fatal(err)
	}
	if err := WriteCharts(dir, cells, []int{5, 50}, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"race-admitted.svg", "race-p99.svg"} {
		svg, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		var any struct{}
		if err := xml.Unmarshal(svg, &any); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, w := range Ways() {
			if !bytes.Contains(svg, []byte(w.Name)) || !strings.Contains(table.String(), "| "+w.Name+" |") {
				t.Errorf("%s or the table lacks %q", name, w.Name)
			}
		}
	}
}

func TestCell(t *testing.T) {
	c := &Cell{Load: Load{Callers: 50}, Admitted: []int{12, 10, 7}, TripsPerCall: 8, RetriesPerCall: 2}
	c.finish([]time.Duration{4000, 3000, 2000, 1000}, 20)
	if c.Over() != 2 || c.FalselyDenied() != 3 || spread(c.Admitted) != "7–12 (10)" || c.P50 != 2000 || c.P99 != 4000 ||
		c.TripsPerCall != 2 || c.RetriesPerCall != 0.5 || c.CommandsPerCall != 5 {
		t.Errorf("%+v", c)
	}
	if few := (&Cell{Load: Load{Callers: 4}, Admitted: []int{1}}); few.FalselyDenied() != 3 {
		t.Errorf("1 of 4 admitted under a limit of 10: %d falsely denied, want 3", few.FalselyDenied())
	}
}
