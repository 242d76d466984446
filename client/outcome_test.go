package client_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/httplimit"
)

// Middleware that asks a remote Penstock tells it how the requests ended.
func TestRemoteOutcomes(t *testing.T) {
	overBoth(t, func(t *testing.T, over transport) {
		c := over.connect(t, newEngine(t))
		l, err := httplimit.New(c, httplimit.Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
		if err != nil {
			t.Fatal(err)
		}
		answer := func(w http.ResponseWriter) {}
		h := l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
		for i, step := range []struct {
			answer func(w http.ResponseWriter)
			left   int64
		}{
			{func(w http.ResponseWriter) {}, 5},
			{func(w http.ResponseWriter) { w.WriteHeader(401) }, 4},
			{func(w http.ResponseWriter) { w.Header().Set("X-Cost", "1") }, 3},
			{func(w http.ResponseWriter) { w.WriteHeader(503) }, 3},
		} {
			answer = step.answer
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/login", nil))
			var v penstock.Verdict
			call := penstock.Call{Attributes: []penstock.Attribute{{Name: "path", Value: "/login"}}}
			if err := c.Decide(context.Background(), &call, &v); err != nil || v.Decision.Remaining != step.left {
				t.Errorf("%d: %d left, want %d (%v)", i, v.Decision.Remaining, step.left, err)
			}
		}
	})
}
