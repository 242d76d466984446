package race

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/redistest"
)

func TestCommandStartsAServerAndStopsIt(t *testing.T) {
	var out, errOut bytes.Buffer
	launched, stopped := 0, 0
	c := Command{Name: "race", Stdout: &out, Stderr: &errOut, Launch: func(ctx context.Context) (string, func() error, error) {
		launched++
		server, err := redistest.Launch(ctx)
		if err != nil {
			return "", nil, err
		}
		return server.Addr, func() error { stopped++; return server.Close() }, nil
	}}
	dir := t.TempDir()
	err := c.Run(t.Context(), strings.Fields("--trials 2 --callers 12 --rtt 0 --contention 2,12 --ways EVALSHA,MULTI/EXEC -o json --svg "+dir))
	if err != nil {
		t.Fatal(err)
	}
	if launched != 1 || stopped != 1 {
		t.Errorf("%d servers started, %d stopped", launched, stopped)
	}
	var report Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	if len(report.Cells) != 6 { // two ways at 12 callers and no delay, at 2 and 12 callers and 1 ms
		t.Errorf("%d cells:\n%s", len(report.Cells), out.String())
	}
	for _, cell := range report.Cells {
		if cell.Admitted.Min != min(cell.Callers, 10) || cell.Admitted.Max != min(cell.Callers, 10) {
			t.Errorf("%s admitted %+v of %d", cell.Way, cell.Admitted, cell.Callers)
		}
	}
	if want := "race-admitted.svg"; !strings.Contains(errOut.String(), want) {
		t.Errorf("stderr %q does not name %s", errOut.String(), want)
	}
	if strings.Contains(errOut.String(), "\r") {
		t.Error("progress was shown where there is no terminal")
	}
}

func TestCommandRacesOnANamedServerAndCleansUp(t *testing.T) {
	server := redistest.Start(t)
	var out bytes.Buffer
	c := Command{Name: "race", Stdout: &out, Stderr: &out}
	if err := c.Run(t.Context(), []string{"--redis", server.Addr, "--trials", "1", "--callers", "3", "--rtt", "0", "--contention", ""}); err != nil {
		t.Fatal(err)
	}
	for _, way := range Ways() {
		if !strings.Contains(out.String(), way.Name) {
			t.Errorf("the table lacks %q:\n%s", way.Name, out.String())
		}
	}
	if left, err := redistest.Command(server.Addr, "DBSIZE"); err != nil || strings.TrimSpace(left) != "0" {
		t.Errorf("%q keys left behind, %v", left, err)
	}
}

func TestCommandHelpTeachesEveryWay(t *testing.T) {
	var out bytes.Buffer
	extra := Way{Name: "mine", What: "my own"}
	err := Command{Name: "penstock race", Stdout: &out, Stderr: &out, Extra: []Way{extra}}.Run(t.Context(), []string{"--help"})
	if !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
	for _, way := range append(Ways(), extra) {
		if !strings.Contains(out.String(), way.Name) || !strings.Contains(out.String(), way.What) {
			t.Errorf("help lacks %q", way.Name)
		}
	}
	if strings.Contains(out.String(), "%!") {
		t.Errorf("help is malformed:\n%s", out.String())
	}
}

func TestCommandRefusesWhatItCannotRead(t *testing.T) {
	for _, args := range [][]string{
		{"--nonsense"},
		{"extra"},
		{"--callers", "ten"},
		{"--rtt", "5"},
		{"--contention", "1,x"},
		{"--ways", "hope"},
		{"-o", "poem"},
		{}, // no server, and none can be started
	} {
		var out bytes.Buffer
		err := Command{Name: "race", Stdout: &out, Stderr: &out}.Run(t.Context(), args)
		if err == nil || out.Len() > 0 {
			t.Errorf("%q: error %v, output %q", args, err, out.String())
		}
	}
}

func TestContentionJoinsTheLoadsOnce(t *testing.T) {
	loads := Options{
		Callers: []int{100, 50}, RoundTrips: []time.Duration{0, ContentionRoundTrip}, Contention: []int{2, 50},
	}.loads()
	if len(loads) != 2 || !slices.Equal(loads[0].callers, []int{50, 100}) || !slices.Equal(loads[1].callers, []int{2, 50, 100}) {
		t.Errorf("got %+v", loads)
	}
}
