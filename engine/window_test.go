package engine_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/wire"
)

// A calendar limit reports the length of the current period to every client.
func TestCalendarWindow(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2026, 2, 10, 12, 0, 0, 0, time.UTC)
	for period, want := range map[string]time.Duration{"hour": time.Hour, "day": day, "week": 7 * day, "month": 28 * day, "year": 365 * day} {
		text := `rules: [{name: quota, key: [], limits: [{rate: 1/` + period + `, algorithm: fixed_window, timezone: UTC}]}]`
		e := newEngine(t, text, engine.Options{Now: func() penstock.Instant { return penstock.InstantOf(now) }})
		var v penstock.Verdict
		for range 2 {
			if err := e.Decide(t.Context(), &penstock.Call{Cost: 1}, &v); err != nil {
				t.Fatal(err)
			}
		}
		if got := v.Limits[0].Window; v.Allowed || got != want {
			t.Errorf("%s: allowed %v, window %v, want %v", period, v.Allowed, got, want)
		}
		seconds := strconv.FormatInt(int64(want/time.Second), 10)
		writer, err := httplimit.NewWriter(httplimit.WriterOptions{Headers: []string{"ietf"}})
		if err != nil {
			t.Fatal(err)
		}
		rw, name := httptest.NewRecorder(), "RateLimit-Policy" // as it is written, which net/http would not
		writer.Deny(rw, httptest.NewRequest(http.MethodGet, "/", nil), &v)
		if got, want := strings.Join(rw.Header()[name], " "), `"quota";q=1;w=`+seconds; got != want {
			t.Errorf("%s: RateLimit-Policy %s, want %s", period, got, want)
		}
		if body, want := rw.Body.String(), "1 request per "+seconds+" s"; !strings.Contains(body, want) {
			t.Errorf("%s: the body %s does not say %q", period, body, want)
		}
		if body, want := string(wire.AppendVerdict(nil, &v)), `"window_ms":`+seconds+"000,"; !strings.Contains(body, want) {
			t.Errorf("%s: the JSON %s does not say %q", period, body, want)
		}
	}
}

// Nothing remains for a banned client, however fresh its counters are.
func TestNothingRemainsWhileBanned(t *testing.T) {
	now := beginning
	e := newEngine(t, `rules: [{name: strict, key: [], limits: [{rate: 1/1s, algorithm: fixed_window}], penalty: {after: 1, within: 1m, bans: [1m]}}]`,
		engine.Options{Now: func() penstock.Instant { return now }})
	var v penstock.Verdict
	for _, after := range []time.Duration{0, 0, 10 * time.Second} {
		now = now.Add(after)
		if err := e.Decide(t.Context(), &penstock.Call{Cost: 1}, &v); err != nil {
			t.Fatal(err)
		}
	}
	if v.Reason != penstock.ReasonBanned || v.Decision.Remaining != 0 || v.Limits[0].Remaining != 0 {
		t.Errorf("%+v", v)
	}
}
