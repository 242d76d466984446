package rls_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/penstock-io/penstock/internal/rls"
)

func TestJSON(t *testing.T) {
	s := newServer(t, byFile(t, limits, testServer{Store: newMemory(t)}), noRules)
	server := httptest.NewServer(http.HandlerFunc(s.JSON))
	defer server.Close()
	const body = `{"domain": "mesh", "descriptors": [{"entries": [{"key": "month", "value": "1"}]}], "hitsAddend": 1}`
	for i, want := range []struct {
		status int
		brief  string
	}{
		{http.StatusOK, "OK | OK  1/MONTH 0 left for 132h0m0s"},
		{http.StatusTooManyRequests, "OVER_LIMIT | OVER_LIMIT  1/MONTH 0 left for 132h0m0s"},
	} {
		status, text := post(t, server.URL, body)
		var r rlsv3.RateLimitResponse
		if err := protojson.Unmarshal([]byte(text), &r); err != nil || status != want.status || brief(&r) != want.brief {
			t.Errorf("%d: got %d %s (%v), want %d %s", i, status, brief(&r), err, want.status, want.brief)
		}
	}
	for body, want := range map[string]struct {
		status int
		text   string
	}{
		"":                   {http.StatusBadRequest, "the body is not a RateLimitRequest"},
		"{}":                 {http.StatusBadRequest, "domain: has 0 bytes"},
		`{"domian": "mesh"}`: {http.StatusBadRequest, "domian"},
	} {
		if status, text := post(t, server.URL, body); status != want.status || !strings.Contains(text, want.text) {
			t.Errorf("%.30q: got %d %s, want %d %s", body, status, text, want.status, want.text)
		}
	}
	// Without a network: a client on a network may still be sending when the response arrives, and not see it.
	w := httptest.NewRecorder()
	long := strings.NewReader(strings.Repeat(" ", 2<<20))
	if s.JSON(w, jsonRequest(long)); w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "more than 1 MiB") {
		t.Errorf("2 MiB: %d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	if s.JSON(w, httptest.NewRequest(http.MethodGet, "/json", nil)); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" {
		t.Errorf("GET: %d %v", w.Code, w.Header())
	}
	w = httptest.NewRecorder()
	if s.JSON(w, jsonRequest(strings.NewReader(`{"descriptors":[`+strings.Repeat("{},", 300_000)+`{}]}`))); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "objects") {
		t.Errorf("many objects: %d %s", w.Code, w.Body)
	}
	for _, given := range []string{"", "text/plain", "application/x-www-form-urlencoded"} {
		r := jsonRequest(strings.NewReader(body))
		r.Header.Set("Content-Type", given)
		w = httptest.NewRecorder()
		if s.JSON(w, r); w.Code != http.StatusUnsupportedMediaType || w.Header().Get("Accept-Post") != "application/json" {
			t.Errorf("content type %q: %d %s", given, w.Code, w.Body)
		}
	}
	alone := newServer(t, byFile(t, limits, testServer{Store: unavailableStore{}}), noRules)
	w = httptest.NewRecorder()
	if alone.JSON(w, jsonRequest(strings.NewReader(body))); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without a store: %d %s", w.Code, w.Body)
	}
}

func jsonRequest(body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/json", body)
	r.Header.Set("Content-Type", "application/json")
	return r
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var text strings.Builder
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	_, payload, _ := strings.Cut(text.String(), "\r\n\r\n")
	return r.StatusCode, payload
}

// deadline is a limiter that only records its deadline.
type deadline struct{ end time.Time }

func (d *deadline) Limit(ctx context.Context, r *rls.Request) (*rls.Answers, error) {
	d.end, _ = ctx.Deadline()
	return &rls.Answers{Allowed: true, Each: make([]rls.Answer, len(r.Descriptors))}, nil
}

// When a store runs out of time, there is time left to answer. A deadline that is far off stays as it is.
func TestAnswersInTime(t *testing.T) {
	var seen deadline
	s := newServer(t, &seen, noRules)
	for after, early := range map[time.Duration]time.Duration{15 * time.Second: 5 * time.Millisecond, time.Hour: 0} {
		end := time.Now().Add(after)
		ctx, cancel := context.WithDeadline(t.Context(), end)
		defer cancel()
		body := strings.NewReader(`{"domain": "mesh", "descriptors": [{"entries": [{"key": "a"}]}]}`)
		s.JSON(httptest.NewRecorder(), jsonRequest(body).WithContext(ctx))
		if want := end.Add(-early); !seen.end.Equal(want) {
			t.Errorf("the limiter has time until %v, want %v", seen.end, want)
		}
	}
}
