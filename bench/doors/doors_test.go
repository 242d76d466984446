package doors

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/bench/lab"
)

const printed = `Running 1s test @ http://127.0.0.1:1/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.07ms    1.10ms  21.92ms   95.34%
    Req/Sec    34.41k     3.40k   40.15k    70.00%
  Latency Distribution
     50%  812.00us
     75%    1.19ms
     90%    1.72ms
     99%    6.07ms
  34230 requests in 1.00s, 5.55MB read
  Non-2xx or 3xx responses: 34229
Requests/sec:  34201.56
Transfer/sec:      5.54MB
`

func TestParse(t *testing.T) {
	got, err := parse(printed)
	want := result{requests: 34230, rate: 34201.56, p50: 812, p99: 6070, refused: 34229}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", strings.Replace(printed, "Requests/sec", "Requests", 1), printed + "  Socket errors: connect 0, read 3, write 0, timeout 0\n"} {
		if got, err := parse(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, got)
		}
	}
}

// The bare servers answer as the comparison requires.
func TestBareServers(t *testing.T) {
	upstream := httptest.NewServer(handlerOf("app-inside", ""))
	defer upstream.Close()
	for _, test := range []struct {
		kind, asked, body string
		status            int
		want              string
	}{
		{"app", "", "", 200, "hello\n"},
		{"proxy", strings.TrimPrefix(upstream.URL, "http://"), "", 200, "hello\n"},
		{"handler", "", "", 429, "Quota exceeded"},
		{"json", "", `{"attributes": {"ip": "192.0.2.7"}, "cost": 1}`, 200, `"remaining":999999999,`},
	} {
		server := httptest.NewServer(handlerOf(test.kind, test.asked))
		resp := lab.Must(http.Post(server.URL, "application/json", strings.NewReader(test.body)))
		body := lab.Must(io.ReadAll(resp.Body))
		resp.Body.Close()
		server.Close()
		if resp.StatusCode != test.status || !strings.Contains(string(body), test.want) {
			t.Errorf("%s: %d %s", test.kind, resp.StatusCode, body)
		}
	}
	if err := Serve([]string{"nobody", "", ""}); err == nil {
		t.Error("nobody serves")
	}
}
