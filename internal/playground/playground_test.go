package playground_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/playground"
	"github.com/penstock-io/penstock/memstore"
)

func newStore() (playground.Store, error) { return memstore.New(memstore.Options{MaxBytes: 1 << 20}) }

func play(t *testing.T, g *playground.Input) *playground.Result {
	t.Helper()
	played, err := playground.Play(t.Context(), g, newStore)
	if err != nil {
		t.Fatal(err)
	}
	return played
}

func lanes(limits ...string) (all []playground.LimitInput) {
	for _, l := range limits {
		all = append(all, playground.LimitInput{Limit: json.RawMessage(l)})
	}
	return all
}

func answers(l playground.LimitResult) string {
	var s strings.Builder
	for _, step := range l.Steps {
		s.WriteByte("-+"[b2i(step.Allowed)])
	}
	return s.String()
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The same arrivals get different answers: around the end of a minute a fixed window allows twice its limit.
func TestSideBySide(t *testing.T) {
	var arrivals []playground.Arrival
	for _, at := range []float64{58_000, 58_500, 59_000, 59_500, 60_000, 60_500, 61_000, 61_500} {
		arrivals = append(arrivals, playground.Arrival{At: at})
	}
	played := play(t, &playground.Input{Arrivals: arrivals, Lanes: lanes(
		`{"rate": "3/1m", "algorithm": "fixed_window"}`,
		`{"rate": "3/1m", "algorithm": "sliding_window_log"}`,
		`{"rate": "1/1s", "burst": 3, "algorithm": "token_bucket"}`,
		`"3/1m"`,
	)})
	want := []string{"+++-+++-", "+++-----", "+++++-+-", "+++-----"}
	for i, l := range played.Lanes {
		if got := answers(l); got != want[i] {
			t.Errorf("%s: %s, want %s", l.Algorithm, got, want[i])
		}
		if l.Allowed+l.Denied != len(arrivals) || l.Limit != 3 {
			t.Errorf("%s: %d allowed, %d denied of %d", l.Algorithm, l.Allowed, l.Denied, l.Limit)
		}
	}
	if bucket := played.Lanes[2].Curve; bucket[len(bucket)-1].Used != 0 {
		t.Errorf("six seconds after the last call %d coins are still missing", bucket[len(bucket)-1].Used)
	}
	fixed := played.Lanes[0]
	denied := fixed.Steps[3]
	if denied.RetryAfter == nil || *denied.RetryAfter != 500 || denied.Headers["RateLimit"] == "" || fixed.Steps[0].Used != 1 {
		t.Errorf("step %+v", denied)
	}
	if n := len(fixed.Curve); n != 301 || fixed.Curve[0].Used != 0 || fixed.Curve[n-1].Used != 3 || fixed.Curve[n-1].At != played.Span {
		t.Errorf("curve of %d points, %+v to %+v", n, fixed.Curve[0], fixed.Curve[n-1])
	}
}

// A leaky bucket holds requests, and under a concurrency limit requests end.
func TestHeldAndRunning(t *testing.T) {
	played := play(t, &playground.Input{
		Arrivals: []playground.Arrival{{}, {}, {}, {At: 1500}, {At: 1500, Who: "another"}},
		Hold:     1000,
		Lanes:    lanes(`{"rate": "1/1s", "algorithm": "leaky_bucket", "queue": 1}`, `{"concurrent": 2, "ttl": "1m"}`),
	})
	leaky, running := played.Lanes[0], played.Lanes[1]
	if got := answers(leaky); got != "++-++" || leaky.Steps[1].Delay != 1000 {
		t.Errorf("leaky: %s, the second held for %v ms", got, leaky.Steps[1].Delay)
	}
	if got := answers(running); got != "++-++" || running.Curve[len(running.Curve)-1].Used != 1 {
		t.Errorf("concurrency: %s, %+v", got, running.Curve[len(running.Curve)-1])
	}
}

func TestMistakes(t *testing.T) {
	good := playground.Input{Arrivals: []playground.Arrival{{}}, Lanes: lanes(`"3/1m"`)}
	for want, spoil := range map[string]func(*playground.Input){
		"lanes: 0":              func(g *playground.Input) { g.Lanes = nil },
		"lanes: 5":              func(g *playground.Input) { g.Lanes = lanes(`1`, `1`, `1`, `1`, `1`) },
		"arrivals: 0":           func(g *playground.Input) { g.Arrivals = nil },
		"arrivals[0].at_ms: -1": func(g *playground.Input) { g.Arrivals = []playground.Arrival{{At: -1}} },
		"arrivals[0].cost: -2":  func(g *playground.Input) { g.Arrivals = []playground.Arrival{{Cost: -2}} },
		"hold_ms: -1":           func(g *playground.Input) { g.Hold = -1 },
		"lane 1":                func(g *playground.Input) { g.Lanes = lanes(`"3/1mn"`) },
	} {
		g := good
		spoil(&g)
		if _, err := playground.Play(t.Context(), &g, newStore); !errors.Is(err, penstock.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want one that says %q", err, want)
		}
	}
}
