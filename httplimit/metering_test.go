package httplimit

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
)

// tokenRules are a budget of tokens: 20 are reserved for a request that does not say how many it may be.
const tokenRules = `
attributes: {max: {json: max_tokens}}
rules:
  - name: tokens
    key: []
    limits: [{rate: 1000/1h, algorithm: fixed_window}]
    cost: {response_json: usage.total_tokens, estimate: int(max), default: 20, max: 500%s}
`

func tokenLimiter(t *testing.T, more string, seen *problems) *Limiter {
	return newLimiter(t, fmt.Sprintf(tokenRules, more), Options{
		ReaderOptions: ReaderOptions{OnBody: seen.add},
		OnError:       func(_ *http.Request, err error) { t.Error(err) },
	})
}

// used returns how much of the budget is used.
func used(t *testing.T, l *Limiter) int64 { return 1000 - left(t, l) }

// chatEvents is a stream of n tokens as OpenAI sends it. Its usage is in the last event, if at all.
func chatEvents(n int, usage string) (events []string) {
	for range n {
		events = append(events, `data: {"choices":[{"delta":{"content":"x"}}],"usage":null}`+"\n\n")
	}
	if usage != "" {
		events = append(events, `data: {"choices":[],"usage":`+usage+"}\n\n")
	}
	return append(events, "data: [DONE]\n\n")
}

// answering returns a handler that sends a response in parts.
func answering(status int, contentType string, parts ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", contentType)
		var to io.Writer = w
		if req.Header.Get("Accept-Encoding") == "gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			to = z
		}
		w.WriteHeader(status)
		for _, part := range parts {
			if _, err := io.WriteString(to, part); err != nil {
				return
			}
			if z, ok := to.(*gzip.Writer); ok {
				_ = z.Flush()
			}
			_ = http.NewResponseController(w).Flush()
		}
	})
}

func TestCostOfAnAnswer(t *testing.T) {
	const stream, text = "text/event-stream", "application/json"
	for _, test := range []struct {
		name, request string
		handler       http.Handler
		used          int64
		problem       string
	}{
		{"JSON", `{}`, answering(200, text, `{"choices":[],"usa`, `ge":{"total_tokens":33}}`), 33, ""},
		{"a stream", `{}`, answering(200, stream, chatEvents(5, `{"total_tokens":34}`)...), 34, ""},
		{"more than was estimated, up to max", `{}`, answering(200, text, `{"usage":{"total_tokens":900}}`), 500, ""},
		{"less than was estimated", `{"max_tokens":400}`, answering(200, text, `{"usage":{"total_tokens":1}}`), 1, ""},
		{"nothing is reported: the estimate", `{"max_tokens":30}`, answering(200, text, `{"choices":[]}`), 30, BodyNoUsage},
		{"nothing is reported, and it was long", `{"max_tokens":30}`, answering(200, stream, chatEvents(50, "")...), 56, BodyNoUsage},
		{"not JSON", `{}`, answering(200, "text/html", `<p>usage</p>`), 20, BodyNoUsage},
		{"an error of the upstream server", `{}`, answering(400, text, `{"error":{}}`), 0, ""},
		{"an error that costs", `{}`, answering(500, text, `{"usage":{"total_tokens":7}}`), 7, ""},
		{"nothing at all", `{}`, answering(200, text), 20, BodyNoUsage},
		{"by ReadFrom", `{}`, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader(`{"usage":{"total_tokens":33}}`))
		}), 33, ""},
	} {
		for _, encoding := range []string{"", "br, gzip;q=0.8"} {
			var seen problems
			l := tokenLimiter(t, "", &seen)
			rec := served(l.Wrap(test.handler), post(test.request, false, "Accept-Encoding", encoding))
			if got := used(t, l); got != test.used || seen.String() != test.problem {
				t.Errorf("%s, accepting %q: %d used, want %d; problem %q", test.name, encoding, got, test.used, &seen)
			}
			if h := lines(rec.Header(), "RateLimit"); len(h) != 1 || !strings.Contains(h[0], `"tokens";r=`) {
				t.Errorf("%s: RateLimit %q", test.name, h)
			}
		}
	}
}

func TestAcceptEncodingIsNarrowed(t *testing.T) {
	for accepted, want := range map[string]string{
		"gzip, deflate, br": "gzip", "br": "", "GZIP": "gzip", "gzip;q=0, br": "", "gzip; q=0.5": "gzip", "identity": "", "*": "",
	} {
		var seen problems
		l := tokenLimiter(t, "", &seen)
		req := post(`{}`, false, "Accept-Encoding", accepted)
		served(l.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, got *http.Request) {
			if now := got.Header.Get("Accept-Encoding"); now != want {
				t.Errorf("%s becomes %q", accepted, now)
			}
		})), req)
		if req.Header.Get("Accept-Encoding") != accepted {
			t.Errorf("%s: the client's own header was changed", accepted)
		}
	}
}

// A client that disconnects is charged what was streamed: a token for each event, and its prompt by its length.
func TestDisconnectEarly(t *testing.T) {
	var seen problems
	l := tokenLimiter(t, "", &seen)
	sent, gone := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer close(gone)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range chatEvents(7, "")[:7] {
			_, _ = io.WriteString(w, e)
		}
		_ = http.NewResponseController(w).Flush()
		close(sent)
		<-req.Context().Done()
		panic(http.ErrAbortHandler) // as a reverse proxy does
	})))
	defer server.Close()
	ctx, leave := context.WithCancel(t.Context())
	body := `{"max_tokens":300,"messages":"` + strings.Repeat("word ", 20) + `"}`
	req, err := http.NewRequestWithContext(ctx, "POST", server.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-sent
		leave()
	}()
	if res, err := server.Client().Do(req); err == nil {
		_, _ = io.ReadAll(res.Body)
		_ = res.Body.Close()
	}
	<-gone
	want := int64(7 + (len(body)+3)/4)
	waitFor(t, func() bool { return used(t, l) == want }, func() string { return fmt.Sprintf("%d used, want %d", used(t, l), want) })
}

func waitFor(t *testing.T, holds func() bool, what func() string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what())
		}
	}
}

// A stream is cut when it has used what was reserved and the budget has no more. The client is told so.
func TestStreamIsCut(t *testing.T) {
	var seen problems
	l := tokenLimiter(t, ", cut: true", &seen)
	served(l.Wrap(answering(200, "application/json", `{"usage":{"total_tokens":500}}`)), post(`{}`, false))
	served(l.Wrap(answering(200, "application/json", `{"usage":{"total_tokens":400}}`)), post(`{}`, false))
	rec := served(l.Wrap(answering(200, "text/event-stream", chatEvents(300, `{"total_tokens":301}`)...)), post(`{}`, false))
	events := strings.Count(rec.Body.String(), "data: ")
	if !strings.HasSuffix(rec.Body.String(), budgetEvent) || events != 100 { // {} counts as one token, and the last event is the error
		t.Errorf("%d events, the last: %s", events, rec.Body.String()[max(0, rec.Body.Len()-200):])
	}
	if n := used(t, l); n != 1000 {
		t.Errorf("%d used of 1000", n)
	}
}

// However the stream is cut into writes, the client gets the events that the budget allows, whole.
func TestStreamIsCutBetweenEvents(t *testing.T) {
	stream := strings.Join(chatEvents(300, ""), "")
	for _, size := range []int{1, 7, 100, 1000, len(stream)} {
		var seen problems
		l := tokenLimiter(t, ", cut: true", &seen)
		served(l.Wrap(answering(200, "application/json", `{"usage":{"total_tokens":500}}`)), post(`{}`, false))
		served(l.Wrap(answering(200, "application/json", `{"usage":{"total_tokens":400}}`)), post(`{}`, false))
		var parts []string
		for rest := stream; rest != ""; rest = rest[len(parts[len(parts)-1]):] {
			parts = append(parts, rest[:min(size, len(rest))])
		}
		rec := served(l.Wrap(answering(200, "text/event-stream", parts...)), post(`{}`, false))
		got, isTold := strings.CutSuffix(rec.Body.String(), budgetEvent)
		if n := strings.Count(got, "\n\n"); n != 99 && (size == len(stream) || n != 98 && n != 99) || !strings.HasPrefix(stream, got) || isTold != strings.HasSuffix(got, "\n\n") {
			t.Errorf("writes of %d bytes: %d events, told %v", size, n, isTold)
		}
		if n := used(t, l); n != 1000 {
			t.Errorf("writes of %d bytes: %d used of 1000", size, n)
		}
	}
}

// Without cut the same stream runs to its end, and the rest of its cost is forgiven.
func TestStreamIsNotCut(t *testing.T) {
	var seen problems
	l := tokenLimiter(t, "", &seen)
	served(l.Wrap(answering(200, "application/json", `{"usage":{"total_tokens":500}}`)), post(`{}`, false))
	served(l.Wrap(answering(200, "application/json", `{"usage":{"total_tokens":400}}`)), post(`{}`, false))
	rec := served(l.Wrap(answering(200, "text/event-stream", chatEvents(300, `{"total_tokens":301}`)...)), post(`{}`, false))
	if n := strings.Count(rec.Body.String(), "data: "); n != 302 {
		t.Errorf("%d events", n)
	}
	if n := used(t, l); n != 1000 {
		t.Errorf("%d used of 1000", n)
	}
}

// A stream that is compressed although nobody asked for that is cut too, without an event. An event may have left
// before it could be read as a whole.
func TestCompressedStreamIsCut(t *testing.T) {
	var seen problems
	l := tokenLimiter(t, ", cut: true", &seen)
	served(l.Wrap(answering(200, "application/json", `{"usage":{"total_tokens":500}}`)), post(`{}`, false))
	served(l.Wrap(answering(200, "application/json", `{"usage":{"total_tokens":400}}`)), post(`{}`, false))
	stream := answering(200, "text/event-stream", chatEvents(300, "")...)
	rec := served(l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if encoding := req.Header.Get("Accept-Encoding"); encoding != "" {
			t.Errorf("Accept-Encoding %q", encoding)
		}
		req = req.Clone(req.Context())
		req.Header.Set("Accept-Encoding", "gzip")
		stream.ServeHTTP(w, req)
	})), post(`{}`, false, "Accept-Encoding", "gzip"))
	z, err := gzip.NewReader(rec.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(z) // it ends unexpectedly
	if n := strings.Count(string(text), "data: "); n < 99 || n > 100 {
		t.Errorf("%d events", n)
	}
}

// What a stream was granted in advance and did not use is given back.
func TestAdvanceIsGivenBack(t *testing.T) {
	for n := range 120 {
		var seen problems
		l := tokenLimiter(t, ", cut: true", &seen)
		total := int64(n + 1)
		served(l.Wrap(answering(200, "text/event-stream", chatEvents(n, fmt.Sprintf(`{"total_tokens":%d}`, total))...)), post(`{}`, false))
		if got := used(t, l); got != total {
			t.Errorf("%d used of a stream of %d", got, total)
		}
	}
}

// Fifty streams at once that all take more than was reserved for them never get more than the budget, counted by
// events: that is the stated overage of 0 with cut. What the model behind produces beyond that is dropped.
func TestParallelStreamsKeepTheBudget(t *testing.T) {
	var seen problems
	l := tokenLimiter(t, ", cut: true", &seen)
	var arrived atomic.Int64 // at the handler, or denied
	everybody := make(chan struct{})
	arrive := func() {
		if arrived.Add(1) == 50 { // 20 are reserved for each, which is the whole budget
			close(everybody)
		}
	}
	answer := answering(200, "text/event-stream", chatEvents(100, "")[:100]...)
	server := httptest.NewServer(l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		arrive()
		<-everybody
		answer.ServeHTTP(w, req)
	})))
	defer server.Close()
	var events, cut atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			res, err := http.Post(server.URL, "application/json", strings.NewReader(`{}`))
			if err != nil {
				t.Error(err)
				arrive()
				return
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusOK {
				t.Errorf("a stream was not admitted: %s", res.Status)
				arrive()
				return
			}
			for lines := bufio.NewScanner(res.Body); lines.Scan(); {
				switch line := lines.Text(); {
				case strings.Contains(line, "rate_limit_error"):
					cut.Add(1)
				case strings.HasPrefix(line, "data: "):
					events.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := events.Load(); n > 1000 || n < 500 {
		t.Errorf("%d events passed of a budget of 1000; %d streams cut", n, cut.Load())
	}
	if cut.Load() == 0 {
		t.Error("no stream was cut: the test shows nothing")
	}
	waitFor(t, func() bool { return used(t, l) <= 1000 && used(t, l) >= events.Load() }, func() string { return fmt.Sprintf("%d used", used(t, l)) })
}

// A store that does not answer does not cut a stream.
func TestStreamGoesOnWithoutAStore(t *testing.T) {
	e := newEngine(t, fmt.Sprintf(tokenRules, ", cut: true"))
	var failed atomic.Int64
	l, err := New(unconcluded{e}, Options{OnError: func(*http.Request, error) { failed.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	rec := served(l.Wrap(answering(200, "text/event-stream", chatEvents(200, "")...)), post(`{}`, false))
	if n := strings.Count(rec.Body.String(), "data: "); n != 201 || failed.Load() == 0 {
		t.Errorf("%d events, %d errors", n, failed.Load())
	}
}

// unconcluded is an engine whose store has gone away after the decision.
type unconcluded struct{ *engine.Engine }

func (unconcluded) Conclude(context.Context, *penstock.Conclusion, *penstock.Verdict) error {
	return penstock.ErrUnavailable
}
