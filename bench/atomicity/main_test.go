package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/internal/redistest"
)

// Every way does what the page about it says: some admit too many, some deny falsely, the others are exact, at the
// documented number of trips and commands.
func TestWays(t *testing.T) {
	server := redistest.Start(t)
	var cells []*cell
	for i, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			raced, err := lab.Run(lab.Bench{Context: t.Context()}, func(b *lab.Bench) (all []*cell) {
				for _, callers := range []int{1, 5, 50} {
					all = append(all, race(b, server.Addr, w, load{callers, time.Millisecond}, 5))
				}
				return all
			})
			if err != nil || raced[0].gaveUp+raced[1].gaveUp+raced[2].gaveUp > 0 {
				t.Fatalf("%+v, %v", raced, err)
			}
			alone, few, many := raced[0], raced[1], raced[2]
			cells = append(cells, many)
			if slices.Min(few.admitted) != 5 {
				t.Errorf("%v of 5 callers pass", few.admitted)
			}
			switch i {
			case 0: // check then add
				if slices.Min(many.admitted) < int(limit.Count) || many.over() == 0 {
					t.Errorf("%v of 50 pass: the race did not show", many.admitted)
				}
			case 1: // four steps
				if many.over() > 0 || many.falselyDenied() == 0 || slices.Min(many.logged) != 50 {
					t.Errorf("%v of 50 pass, %v are logged", many.admitted, many.logged)
				}
			case 2: // with a shared member
				if slices.Min(many.admitted) != 50 || slices.Max(many.logged) != 1 {
					t.Errorf("%v of 50 pass, %v are logged", many.admitted, many.logged)
				}
			default:
				if many.over() > 0 || many.falselyDenied() > 0 {
					t.Errorf("%v of 50 pass, want %d", many.admitted, limit.Count)
				}
			}
			if want := []float64{3, 4, 4, 1, 5, 2, 1, 1, 1}[i]; alone.tripsPerCall != want || alone.retriesPerCall != 0 {
				t.Errorf("alone: %v trips, want %v; %v retries", alone.tripsPerCall, want, alone.retriesPerCall)
			}
			if want := []float64{4, 4, 4, 6, 8, 7, 6, 6, 0}[i]; want > 0 && alone.commandsPerCall != want {
				t.Errorf("alone: %v commands, want %v", alone.commandsPerCall, want)
			}
		})
	}
	left, err := redistest.Command(server.Addr, "KEYS", "penstock-race:*")
	if err != nil || strings.TrimSpace(left) != "" {
		t.Errorf("%q keys left behind, %v", left, err)
	}
	var table bytes.Buffer
	writeTables(&table, cells)
	for _, w := range ways {
		if !strings.Contains(table.String(), "| "+w.name+" ") {
			t.Errorf("the table lacks %q:\n%s", w.name, table.String())
		}
	}
}

func TestCell(t *testing.T) {
	c := &cell{load: load{callers: 50}, admitted: []int{12, 10, 7}, logged: []int{1}, tripsPerCall: 8, retriesPerCall: 2, took: []time.Duration{4e6, 3e6, 2e6, 1e6}}
	c.finish(20)
	want := []string{"", "7–12 (10)", "2", "3", "1", "2", "0.5", "5", "2.0 ms", "4.0 ms"}
	if row := c.row(); !slices.Equal(row, want) {
		t.Errorf("%q, want %q", row, want)
	}
	if few := (&cell{load: load{callers: 4}, admitted: []int{1}}); few.falselyDenied() != 3 {
		t.Errorf("1 of 4 admitted under a limit of 10: %d falsely denied, want 3", few.falselyDenied())
	}
}
