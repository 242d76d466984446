package ruledb

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func minutes(t *testing.T, db *DB, from, to int64) (found []TrafficMinute) {
	t.Helper()
	err := db.Traffic(t.Context(), from, to, func(m TrafficMinute) error {
		found = append(found, m)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Minutes of several nodes are returned in order. A minute that is saved again replaces what was saved, and old ones
// can be deleted.
func TestTraffic(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		same := func(a, b TrafficMinute) bool {
			return a.Minute == b.Minute && a.Node == b.Node && a.Name == b.Name && string(a.Counts) == string(b.Counts)
		}
		all := []TrafficMinute{
			{100, "A", "north", []byte("first")}, {101, "A", "north", []byte("half")}, {101, "B", "south", []byte{0, 1, 0xff}},
		}
		for _, save := range [][]TrafficMinute{{all[2]}, all[:2]} {
			if err := db.SaveTraffic(t.Context(), save...); err != nil {
				t.Fatal(err)
			}
		}
		all[1].Counts = []byte("whole")
		if err := db.SaveTraffic(t.Context(), all[1]); err != nil {
			t.Fatal(err)
		}
		if got := minutes(t, db, 0, 200); !slices.EqualFunc(got, all, same) {
			t.Errorf("got %v, want %v", got, all)
		}
		if got := minutes(t, db, 101, 102); len(got) != 2 {
			t.Errorf("in one minute %v", got)
		}
		if err := db.ForgetTraffic(t.Context(), time.Unix(101*60, 0)); err != nil {
			t.Fatal(err)
		}
		if got := minutes(t, db, 0, 200); !slices.EqualFunc(got, all[1:], same) {
			t.Errorf("later than a time: %v", got)
		}
		if err := db.SaveTraffic(t.Context(), TrafficMinute{Minute: 1, Node: strings.Repeat("x", 65)}); err == nil || !strings.Contains(err.Error(), "must be at most 64") {
			t.Errorf("a node with a long ID: %v", err)
		}
	})
}
