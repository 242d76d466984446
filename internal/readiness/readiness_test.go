package readiness_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/penstock-io/penstock/internal/readiness"
)

func TestWrite(t *testing.T) {
	const degraded = "ready, but the store does not answer: rules decide by their on_store_error\n"
	for name, test := range map[string]struct {
		state  readiness.State
		status int
		text   string
	}{
		"ready":                  {readiness.State{}, http.StatusOK, "ready\n"},
		"degraded":               {readiness.State{Degraded: true}, http.StatusOK, degraded},
		"not ready":              {readiness.State{NotReady: errors.New("draining")}, http.StatusServiceUnavailable, "not ready: draining\n"},
		"not ready and degraded": {readiness.State{NotReady: errors.New("draining"), Degraded: true}, http.StatusServiceUnavailable, "not ready: draining\n"},
	} {
		w := httptest.NewRecorder()
		readiness.Write(w, test.state)
		if w.Code != test.status || w.Body.String() != test.text {
			t.Errorf("%s: %d %q, want %d %q", name, w.Code, w.Body, test.status, test.text)
		}
		if w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: a proxy may cache it", name)
		}
	}
}
