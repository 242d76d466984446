package admin_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
)

func TestStats(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	for range 5 {
		search(s, "u1")
	}
	stats := get[admin.Stats](s, "GET", "/v1/stats?last=5m", "")
	if stats.Total.Allowed != 3 || stats.Total.Denied != 2 || stats.Total.Shadow != 3 || stats.Step != 5000 || len(stats.Series) != 60 {
		t.Errorf("%+v", stats)
	}
	var found bool
	for _, r := range stats.Rules {
		if r.Rule == "per-user" {
			found = r.Total.Denied == 2 && r.Top[0].Key["user"] == "u1" && r.Top[0].Denied == 2 && r.DistinctKeys == 1
		}
	}
	if !found {
		t.Errorf("%+v", stats.Rules)
	}
	get[admin.Stats](s, "GET", "/v1/stats", "")
	for _, last := range []string{"2h", "0s", "-1m", "soon", "1m&last=2m"} {
		s.refused("GET", "/v1/stats?last="+last, "", 400, admin.Invalid, `"at":"last"`)
	}
}

func TestRecent(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	for range 4 {
		search(s, "u1")
	}
	search(s, "u2")
	for query, want := range map[string]int{
		"": 5, "denied=true": 1, "denied=false": 5, "rule=per-user": 5, "rule=other": 0, "attribute=user&value=u2": 1, "limit=2": 2, "denied=true&attribute=user&value=u2": 0,
	} {
		if found := get[admin.Events](s, "GET", "/v1/events/recent?"+query, ""); len(found.Events) != want {
			t.Errorf("%s: %d events", query, len(found.Events))
		}
	}
	denied := get[admin.Events](s, "GET", "/v1/events/recent?denied=true", "").Events[0]
	if denied.Allowed || denied.Rule != "per-user" || denied.Reason.String() != "over_limit" || *denied.RetryAfter < 1 || denied.Attributes["path"] != "/search" ||
		len(denied.Shadow) != 1 || denied.Version != 1 || denied.Keys[0].Result != "denied" || denied.Domain != "default" {
		t.Errorf("%+v", denied)
	}
	s.refused("GET", "/v1/events/recent?denied=maybe&value=x&limit=1001&colour=red", "", 400, admin.Invalid, `"denied"`, `"value"`, `"limit"`, `"colour"`)
}

// A stream is read line by line.
type stream struct {
	t      *testing.T
	answer *http.Response
	lines  *bufio.Scanner
}

func (s *testAdmin) stream(t *testing.T, at, path string, show func(*http.Request)) *stream {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", at+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	show(r)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s %v", answer.Status, answer.Header)
	}
	found := &stream{t, answer, bufio.NewScanner(answer.Body)}
	found.lines.Buffer(nil, 1<<20)
	found.until("", ": penstock") // it is following
	return found
}

// until reads up to a line of an event with the prefix, and returns the rest of the line.
func (s *stream) until(event, prefix string) string {
	s.t.Helper()
	var now string
	for s.lines.Scan() {
		line := s.lines.Text()
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			now = name
		}
		if rest, ok := strings.CutPrefix(line, prefix); ok && now == event {
			return rest
		}
	}
	s.t.Fatalf("the stream has ended: %v", s.lines.Err())
	return ""
}

func TestFollow(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	server := httptest.NewServer(s.door)
	defer server.Close()
	all := s.stream(t, server.URL, "/v1/events", bearer(viewerToken))
	denied := s.stream(t, server.URL, "/v1/events?denied=true&rule=per-user&attribute=user&value=u1", bearer(operatorToken))
	for range 4 {
		search(s, "u1")
	}
	search(s, "<script>\n\ndata: forged")
	var e admin.Event
	if err := json.Unmarshal([]byte(denied.until("verdict", "data: ")), &e); err != nil || e.Allowed || e.Attributes["user"] != "u1" {
		t.Errorf("%v %+v", err, e)
	}
	for range 5 {
		text := all.until("verdict", "data: ")
		e = admin.Event{}
		if err := json.Unmarshal([]byte(text), &e); err != nil || strings.Contains(text, "<script>") {
			t.Fatalf("%v %s", err, text)
		}
		if e.Attributes["user"] == "<script>\n\ndata: forged" {
			break
		}
	}
	if e.Attributes["user"] == "u1" {
		t.Error("the last call was not told")
	}

	s.door.Drain()
	for _, one := range []*stream{all, denied} {
		if _, err := io.Copy(io.Discard, one.answer.Body); err != nil {
			t.Errorf("the stream does not end well: %v", err)
		}
	}
}

// A slow reader is told how much it missed; requests do not wait for it.
func TestFollowTellsWhatWasDropped(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	server := httptest.NewServer(s.door)
	defer server.Close()
	one := s.stream(t, server.URL, "/v1/events", bearer(viewerToken))
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				s.call("user", "u1", "path", "/search")
			}
		}
	}()
	var told struct{ Dropped int64 }
	if err := json.Unmarshal([]byte(one.until("dropped", "data: ")), &told); err != nil || told.Dropped < 1 {
		t.Errorf("%v %+v", err, told)
	}
	close(stop)
	<-ended
	s.door.Drain()
}

// A stream sends heartbeats, and ends with the session it was opened with.
func TestStreamEndsWithItsSession(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	s.door.Beat(5 * time.Millisecond)
	server := httptest.NewServer(s.door)
	defer server.Close()
	for _, end := range []func(*http.Cookie){
		func(c *http.Cookie) {
			r := s.request("DELETE", "/v1/session", "")
			r.AddCookie(c)
			s.serve(r)
		},
		func(*http.Cookie) { s.clock.pass(31 * time.Minute) },
	} {
		cookie := s.login(viewerToken)
		one := s.stream(t, server.URL, "/v1/events", with(cookie))
		one.until("", ":")
		one.until("", ":")
		end(cookie)
		if _, err := io.Copy(io.Discard, one.answer.Body); err != nil {
			t.Errorf("the stream does not end well: %v", err)
		}
	}
}

// timedResponse is a response that records its write deadline.
type timedResponse struct {
	*httptest.ResponseRecorder
	deadlines chan time.Time
}

func (w *timedResponse) SetWriteDeadline(t time.Time) error {
	w.deadlines <- t
	return nil
}

// The server's write timeout does not apply to a stream: every write has its own deadline.
func TestStreamHasItsOwnTime(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	s.door.Beat(time.Millisecond)
	w := &timedResponse{httptest.NewRecorder(), make(chan time.Time)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.door.ServeHTTP(w, s.request("GET", "/v1/events", "", "Authorization", "Bearer "+viewerToken))
	}()
	last := time.Now()
	for range 5 {
		next := <-w.deadlines
		if !next.After(last) {
			t.Errorf("%v is not after %v", next, last)
		}
		last = next
	}
	s.door.Drain()
	for {
		select {
		case <-w.deadlines:
		case <-ended:
			return
		}
	}
}

func TestTooManyFollow(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	server := httptest.NewServer(s.door)
	defer server.Close()
	defer s.door.Drain()
	for range 12 {
		s.stream(t, server.URL, "/v1/events", bearer(viewerToken))
	}
	if w := s.serve(s.request("GET", "/v1/events", "", "Authorization", "Bearer "+viewerToken)); w.Code != http.StatusServiceUnavailable {
		t.Errorf("viewers take the streams that are kept for operators: %d", w.Code)
	}
	for range 4 {
		s.stream(t, server.URL, "/v1/events", bearer(operatorToken))
	}
	s.refused("GET", "/v1/events", "", 503, admin.Unavailable, "too many streams")
}
