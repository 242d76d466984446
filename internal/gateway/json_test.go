package gateway

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

const perModel = `
attributes: {model: {json: model, default: none, on_unreadable: default}}
rules: [{name: model, match: {method: POST}, key: [model], limits: [{rate: 2/1h, algorithm: fixed_window}]}]
`

// A body that was read for its attributes reaches the server as it was sent, also the second server if there is no
// connection to the first.
func TestJSONBodies(t *testing.T) {
	var got []string
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		text, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		got = append(got, string(text))
	}))
	defer up.Close()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	s := start(t, setting{rules: perModel, options: Options{Upstreams: upstreams("http://"+dead.Addr().String(), up.URL)}})
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for i, test := range []struct {
		body   string
		status int
	}{
		{`{"model":"a","text":"` + strings.Repeat("x", 100_000) + `"}`, 200},
		{`{"model":"a"}`, 200},
		{`{"model":"a"}`, 429},
		{`{"model":"b"}`, 200},
		{`{"model":"b","Model":"a"}`, 400},
		{`not JSON`, 200},
		{`nor this`, 200},
		{`{}`, 429}, // all these have the default
	} {
		res, err := client.Post(s.url("/"), "application/json", strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != test.status {
			t.Errorf("%d: %.40s: %d, want %d", i, test.body, res.StatusCode, test.status)
		}
		if test.status == 200 && (len(got) == 0 || got[len(got)-1] != test.body) {
			t.Errorf("%d: the server got another body", i)
		}
	}
}

// A body that has the attribute in a form that cannot be read is denied, unless only a shadow rule reads it.
func TestUnreadableJSONBodies(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { io.Copy(io.Discard, req.Body) }))
	defer up.Close()
	const strict = `
attributes: {model: {json: model}}
rules:
  - {name: model, match: {path: /v1/chat}, key: [model], limits: [100/1h]}
  - {name: tried, match: {path: /v1/tried}, mode: shadow, key: [model], limits: [100/1h]}
`
	s := start(t, setting{rules: strict, options: Options{Upstreams: upstreams(up.URL), Limits: Limits{MaxBody: 4 << 20}}})
	for body, want := range map[string]string{
		`{"model":"a"}`:   "200",
		`{"model":["a"]}`: "400",
		`[{"model":"a"}]`: "400",
		`{"model":"a"`:    "400",
		`{"model":"a","x":"` + strings.Repeat("x", 1<<20) + `"}`: "413",
	} {
		for _, path := range []string{"/v1/chat", "/v1/tried"} {
			res, err := http.Post(s.url(path), "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(res.Body)
			res.Body.Close()
			status := want
			if path == "/v1/tried" {
				status = "200"
			}
			if got := strconv.Itoa(res.StatusCode); got != status {
				t.Errorf("%.20s to %s: %s, want %s: %s", body, path, got, status, text)
			}
		}
	}
}

// A body that is read for its attributes is bounded in time and size like every other.
func TestSlowAndLargeJSONBodies(t *testing.T) {
	for _, test := range []struct {
		timeouts   Timeouts
		sent, want string
	}{
		{Timeouts{Body: 50 * time.Millisecond}, "Content-Length: 9\r\n\r\n{", "408"},
		{Timeouts{}, "Transfer-Encoding: chunked\r\n\r\nff\r\n{" + strings.Repeat(" ", 254), "413"},
	} {
		s := start(t, setting{rules: perModel, options: Options{Upstreams: upstreams("http://127.0.0.1:1"), Limits: Limits{MaxBody: 10}, Timeouts: test.timeouts}})
		conn, from := s.dialRaw()
		io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\n"+test.sent)
		if line, err := from.ReadString('\n'); err != nil || !strings.Contains(line, test.want) {
			t.Errorf("%.40q: %q %v, want %s", test.sent, line, err, test.want)
		}
	}
}
