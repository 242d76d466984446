package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/penstock-io/penstock/internal/race"
	"github.com/penstock-io/penstock/internal/redistest"
)

// Penstock's own way takes part, and holds the limit.
func TestRace(t *testing.T) {
	var out, errOut bytes.Buffer
	a := &app{stdout: &out, stderr: &errOut}
	code := a.run(t.Context(), []string{"race", "--redis", redistest.Start(t).Addr, "--trials", "2", "--callers", "30", "--rtt", "0", "--contention", "", "--ways", "Penstock", "-o", "json"})
	var report race.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil || code != exitYes {
		t.Fatalf("exit %d, %v: %s%s", code, err, out.String(), errOut.String())
	}
	if len(report.Cells) != 1 || report.Cells[0].Admitted.Min != 10 || report.Cells[0].Admitted.Max != 10 {
		t.Errorf("got %+v", report.Cells)
	}
	for _, args := range [][]string{{"race"}, {"race", "--nonsense"}, {"race", "extra"}} {
		if code := a.run(t.Context(), args); code != exitUsage {
			t.Errorf("%q: exit %d, want %d", args, code, exitUsage)
		}
	}
}
