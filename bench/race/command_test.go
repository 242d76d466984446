package race

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/redistest"
)

// Every way runs on a named server, which is left as it was found.
func TestMainRacesOnANamedServerAndCleansUp(t *testing.T) {
	server := redistest.Start(t)
	var out bytes.Buffer
	dir := t.TempDir()
	args := []string{"--redis", server.Addr, "--trials", "1", "--callers", "3", "--rtt", "0", "--contention", "2,3", "--svg", dir}
	if err := Main(t.Context(), args, &out, nil); err != nil {
		t.Fatal(err)
	}
	for _, way := range append(Ways(), penstockWay) {
		if !strings.Contains(out.String(), "| "+way.Name+" |") {
			t.Errorf("the table lacks %q:\n%s", way.Name, out.String())
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "race-admitted.svg")); err != nil {
		t.Error(err)
	}
	left, err := redistest.Command(server.Addr, "KEYS", "penstock-race:*")
	if err != nil || strings.TrimSpace(left) != "" {
		t.Errorf("%q keys left behind, %v", left, err)
	}
}

func TestHelpTeachesEveryWay(t *testing.T) {
	var out bytes.Buffer
	if err := Main(t.Context(), []string{"--help"}, &out, nil); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
	for _, way := range append(Ways(), penstockWay) {
		if !strings.Contains(out.String(), way.Name) || !strings.Contains(out.String(), way.What) {
			t.Errorf("help lacks %q", way.Name)
		}
	}
	if strings.Contains(out.String(), "%!") {
		t.Errorf("help is malformed:\n%s", out.String())
	}
}

func TestMainRefusesWhatItCannotRead(t *testing.T) {
	for _, args := range [][]string{
		{"--nonsense"}, {"extra"}, {"--callers", "ten"}, {"--rtt", "5"}, {"--contention", "1,x"}, {"--ways", "hope"},
	} {
		var out bytes.Buffer
		if err := Main(t.Context(), args, &out, nil); err == nil || out.Len() > 0 {
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
