package httplimit

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/attribute"
)

// problems collects what OnBody gets.
type problems struct {
	mu      sync.Mutex
	reasons []string
}

func (p *problems) add(_ *http.Request, e *BodyError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reasons = append(p.reasons, e.Reason)
}

func (p *problems) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.reasons, " ")
}

func compressed(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.String()
}

var bodySources = sources(
	attribute.Source{Attribute: "model", JSON: "model", Default: "none", OnUnreadable: attribute.DefaultUnreadable},
	attribute.Source{Attribute: "tool", JSON: "params.name", OnUnreadable: attribute.DefaultUnreadable},
)

// strictSources are the same, without on_unreadable: default.
var strictSources = sources(attribute.Source{Attribute: "model", JSON: "model", Default: "none"}, attribute.Source{Attribute: "tool", JSON: "params.name"})

// post returns a request with a body. Its length is unknown if it is chunked.
func post(body string, isChunked bool, header ...string) *http.Request {
	req := httptest.NewRequest("POST", "/v1/chat", io.NopCloser(strings.NewReader(body)))
	if req.ContentLength = int64(len(body)); isChunked {
		req.ContentLength = -1
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

// A body that lacks a field has the default of its attribute, and one that cannot be read is denied, unless its source
// says that the default applies.
func TestAttributesOfABody(t *testing.T) {
	const asJSON = "application/json"
	long := `{"model":"m","x":"` + strings.Repeat("x", 5000) + `"}`
	tooLong := `{"model":"m","x":"` + strings.Repeat("x", 8192-19) + `"}`
	for _, test := range []struct {
		name, body, encoding, media string
		model, tool, problem        string
		status                      int // of a request that is denied
	}{
		{"fields", `{"model":"m","params":{"name":"t","arguments":{"name":"x"}}}`, "", "", "m", "t", "", 0},
		{"a number and a bool", `{"model":12,"params":{"name":true}}`, "", asJSON, "12", "true", "", 0},
		{"a number with a fraction", `{"model":42.0,"params":{"name":-1.50}}`, "", asJSON, "42", "-1.5", "", 0},
		{"a number with an exponent", `{"model":4.2e1,"params":{"name":1e2}}`, "", asJSON, "42", "100", "", 0},
		{"a number beyond a double", `{"model":1e400}`, "", asJSON, "none", "", BodyValue, 400},
		{"names with escapes", `{"m\u006fdel":"m","\u0070arams":{"name":"t"}}`, "", asJSON, "m", "t", "", 0},
		{"no such fields", `{"other":1}`, "", asJSON, "none", "", "", 0},
		{"null", `{"model":null}`, "", asJSON, "none", "", "", 0},
		{"compressed", compressed(`{"model":"m"}`), "gzip", "", "m", "", "", 0},
		{"larger than the first read", long, "", "", "m", "", "", 0},
		{"as large as can be", `{"model":"m","x":"` + strings.Repeat("x", 8192-20) + `"}`, "", "", "m", "", "", 0},
		{"beyond the bound", tooLong, "", asJSON, "none", "", BodyTooLarge, 413},
		{"beyond the bound, with another type", tooLong, "", "text/plain", "none", "", BodyTooLarge, 413},
		{"beyond the bound when decompressed", compressed(`{"model":"m","x":"` + strings.Repeat("x", 9000) + `"}`), "gzip", "", "none", "", BodyTooLarge, 413},
		{"not JSON", `model=m`, "", asJSON, "none", "", BodyNotJSON, 400},
		{"not JSON, with another type", `model=m`, "", "application/x-www-form-urlencoded", "none", "", "", 0},
		{"not JSON, without a type", `model=m`, "", "", "none", "", "", 0},
		{"large and not JSON", strings.Repeat("model=m&", 5000), "", "text/plain", "none", "", "", 0},
		{"large, compressed and not JSON", compressed(strings.Repeat("model=m&", 5000)), "gzip", "text/plain", "none", "", "", 0},
		{"JSON with another type", ` {"model":"m"}`, "", "text/plain", "m", "", "", 0},
		{"compressed JSON with another type", compressed(`{"model":"m"}`), "gzip", "text/plain", "m", "", "", 0},
		{"a JSON text and more", `{"model":"m"}{"model":"n"}`, "", "", "none", "", BodyNotJSON, 400},
		{"cut off", `{"model":"m"`, "", "", "none", "", BodyNotJSON, 400},
		{"a batch", `[{"model":"m"}]`, "", "", "none", "", BodyNotJSON, 400},
		{"a byte order mark", "\ufeff" + `{"model":"m"}`, "", "", "none", "", BodyNotJSON, 400},
		{"not gzip", `{"model":"m"}`, "gzip", asJSON, "none", "", BodyNotJSON, 400},
		{"another encoding", `{"model":"m"}`, "br", asJSON, "none", "", BodyEncoding, 400},
		{"another encoding and type", `{"model":"m"}`, "br", "text/plain", "none", "", "", 0},
		{"twice compressed", compressed(compressed(`{"model":"m"}`)), "gzip, gzip", "application/problem+JSON", "none", "", BodyEncoding, 400},
		{"an object", `{"model":{"id":"m"},"params":{"name":[]}}`, "", "", "none", "", BodyValue + " " + BodyValue, 400},
		{"empty", "", "", asJSON, "none", "", "", 0},
	} {
		for _, isChunked := range []bool{false, true} {
			request := func() *http.Request {
				req := post(test.body, isChunked)
				if test.encoding != "" {
					req.Header.Set("Content-Encoding", test.encoding)
				}
				if test.media != "" {
					req.Header.Set("Content-Type", test.media)
				}
				return req
			}
			var seen problems
			r := newReader(t, ReaderOptions{Sources: bodySources, MaxJSON: 8192, OnBody: seen.add})
			req := request()
			var c penstock.Call
			if err := r.Read(req, &c); err != nil {
				t.Errorf("%s: %v", test.name, err)
				continue
			}
			model, hasModel := c.Attribute("model")
			tool, hasTool := c.Attribute("tool")
			if model != test.model || tool != test.tool || !hasModel || !hasTool || seen.String() != test.problem {
				t.Errorf("%s, chunked %v: model %q, tool %q, problem %q", test.name, isChunked, model, tool, &seen)
			}
			if passed, err := io.ReadAll(req.Body); err != nil || string(passed) != test.body {
				t.Errorf("%s, chunked %v: the body passed on has %d bytes, not %d: %v", test.name, isChunked, len(passed), len(test.body), err)
			}
			_ = req.Body.Close()
			if n := r.bodies.used(); n != 0 || len(r.bodies.clients) != 0 {
				t.Errorf("%s: %d bytes of memory are still counted", test.name, n)
			}

			strict := newReader(t, ReaderOptions{Sources: strictSources, MaxJSON: 8192})
			status := 0
			if bad, ok := errors.AsType[*RequestError](strict.Read(request(), new(penstock.Call))); ok {
				status = bad.Status
			}
			if status != test.status {
				t.Errorf("%s, chunked %v: denied with %d, want %d", test.name, isChunked, status, test.status)
			}
			shadow := newReader(t, ReaderOptions{Sources: strictSources, MaxJSON: 8192, NeedsField: func(*penstock.Call, string) bool { return false }})
			if err := shadow.Read(request(), new(penstock.Call)); err != nil {
				t.Errorf("%s, chunked %v: denied though no rule would: %v", test.name, isChunked, err)
			}
		}
	}
}

// A body that is not JSON is not read beyond its beginning.
func TestOtherMediaTypesAreNotBuffered(t *testing.T) {
	r := newReader(t, ReaderOptions{Sources: strictSources})
	req := post(strings.Repeat("x", 1<<19), true, "Content-Type", "multipart/form-data")
	if err := r.Read(req, new(penstock.Call)); err != nil {
		t.Fatal(err)
	}
	if n := r.bodies.used(); n > 4<<10 {
		t.Errorf("%d bytes are kept", n)
	}
}

// Servers differ in which of two fields they use, and some ignore case.
func TestAmbiguousBodies(t *testing.T) {
	r := newReader(t, ReaderOptions{Sources: bodySources})
	for _, body := range []string{
		`{"model":"cheap","model":"dear"}`, `{"model":"cheap","Model":"dear"}`, `{"model":"cheap","\u006dodel":null}`,
		`{"params":{"name":"a"},"params":{"name":"b"}}`,
	} {
		var c penstock.Call
		err := r.Read(post(body, false), &c)
		if bad, ok := err.(*RequestError); !ok || bad.Status != 400 || !strings.Contains(bad.Detail, "more than once") {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestNoBodyHasTheDefaults(t *testing.T) {
	var seen problems
	r := newReader(t, ReaderOptions{Sources: bodySources, OnBody: seen.add})
	var c penstock.Call
	if err := r.Read(request("/"), &c); err != nil {
		t.Fatal(err)
	}
	if model, ok := c.Attribute("model"); model != "none" || !ok || seen.String() != "" {
		t.Errorf("model %q %v, problems %q", model, ok, &seen)
	}
}

// A slow or broken body is the client's fault, not a body without attributes.
func TestBodyThatCannotBeRead(t *testing.T) {
	for err, status := range map[error]int{io.ErrUnexpectedEOF: 400, &http.MaxBytesError{Limit: 5}: 413} {
		r := newReader(t, ReaderOptions{Sources: bodySources})
		req := post("", true)
		req.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"mod`), failing{err}))
		var c penstock.Call
		if bad, ok := r.Read(req, &c).(*RequestError); !ok || bad.Status != status {
			t.Errorf("%v: %v", err, bad)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

const perModel = `
attributes: {model: {json: model, default: none}}
rules: [{name: model, match: {method: POST, path: /v1/chat}, key: [model], limits: [2/1h]}]
`

// untouched is a body that must not be read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}
func (untouched) Close() error { return nil }

func TestOtherBodiesAreNotTouched(t *testing.T) {
	l := newLimiter(t, perModel, Options{})
	for _, target := range []string{"/upload", "/v1/models"} {
		req := httptest.NewRequest("POST", target, untouched{t})
		req.ContentLength = 100
		h := l.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			if _, ok := req.Body.(untouched); !ok {
				t.Errorf("%s: the body is a %T", target, req.Body)
			}
		}))
		if rec := served(h, req); rec.Code != 200 {
			t.Errorf("%s: %d", target, rec.Code)
		}
	}
}

// Over a real connection: the handler gets the body byte for byte, and what was counted is given back.
func TestBodyOverTheNetwork(t *testing.T) {
	l := newLimiter(t, perModel, Options{})
	server := httptest.NewServer(l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		text, err := io.ReadAll(req.Body)
		fmt.Fprintf(w, "%d %d %v %v", req.ContentLength, len(text), req.Trailer.Get("X-End"), err)
	})))
	defer server.Close()
	send := func(body io.Reader, trailer bool) string {
		t.Helper()
		req, err := http.NewRequest("POST", server.URL+"/v1/chat", body)
		if err != nil {
			t.Fatal(err)
		}
		if trailer {
			req.Trailer = http.Header{"X-End": {"yes"}}
		}
		res, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return fmt.Sprint(res.StatusCode, " ", string(text))
	}
	body := `{"model":"a","x":"` + strings.Repeat("y", 100_000) + `"}`
	if got, want := send(strings.NewReader(body), false), fmt.Sprintf("200 %d %d  <nil>", len(body), len(body)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := send(io.MultiReader(strings.NewReader(body)), true), fmt.Sprintf("200 -1 %d yes <nil>", len(body)); got != want {
		t.Errorf("chunked: %s, want %s", got, want)
	}
	if got := send(strings.NewReader(body), false); !strings.HasPrefix(got, "429 ") {
		t.Errorf("the third: %.60s", got)
	}
	if n := l.reader.bodies.used(); n != 0 {
		t.Errorf("%d bytes of memory are still counted", n)
	}
}

// A client that waits for 100 Continue gets it before the decision, because the body is part of what is decided.
func TestBodyOfAClientThatWaits(t *testing.T) {
	server := httptest.NewServer(newLimiter(t, perModel, Options{}).Wrap(ok))
	defer server.Close()
	for i, want := range []string{"200", "200", "429"} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /v1/chat HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 13\r\n\r\n")
		from := bufio.NewReader(conn)
		if line, err := from.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
			t.Errorf("%d: %q %v", i, line, err)
		}
		_, _ = from.ReadString('\n')
		fmt.Fprint(conn, `{"model":"a"}`)
		if line, err := from.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 "+want) {
			t.Errorf("%d: %q %v, want %s", i, line, err, want)
		}
		_ = conn.Close()
	}
}

// A client that is denied anyway does not have its body read, much less decompressed.
func TestBodiesOfDeniedClientsAreNotRead(t *testing.T) {
	l := newLimiter(t, `
attributes: {model: {json: model}, user: {header: X-User}}
rules:
  - {name: users, match: {path: /v1/chat}, key: [user], limits: [{rate: 1/1h, algorithm: fixed_window}]}
  - {name: models, match: {path: /v1/chat}, key: [model], limits: [100/1h]}
lists: {deny: [{user: mallory}], allow: [{user: friend}]}
`, Options{})
	h := l.Wrap(ok)
	for _, header := range [][]string{{"Content-Encoding", "gzip"}, {}} {
		send := func(user string, body io.Reader, length int64) int {
			req := httptest.NewRequest("POST", "/v1/chat", body)
			req.ContentLength = length
			req.Header.Set("X-User", user)
			req.Header.Set("Content-Type", "application/json")
			for i := 0; i+1 < len(header); i += 2 {
				req.Header.Set(header[i], header[i+1])
			}
			return served(h, req).Code
		}
		if code := send("mallory", untouched{t}, 1000); code != 403 {
			t.Errorf("on the deny list: %d", code)
		}
		if code := send("friend", untouched{t}, 1000); code != 200 {
			t.Errorf("on the allow list: %d", code)
		}
		user := fmt.Sprint("ann", len(header))
		text := `{"model":"m"}`
		if len(header) > 0 {
			text = compressed(text)
		}
		if code := send(user, strings.NewReader(text), -1); code != 200 {
			t.Errorf("within the limit: %d", code)
		}
		if code := send(user, untouched{t}, -1); code != 429 {
			t.Errorf("over the limit: %d", code)
		}
	}
}

// What a body is when it is decompressed is bounded by its own size too: a small one cannot cost much.
func TestBodiesThatGrow(t *testing.T) {
	for _, test := range []struct {
		name string
		text string
		want bool
	}{
		{"a usual body", `{"model":"m","messages":[` + strings.Repeat(`{"role":"user","content":"What is a token bucket?"},`, 20) + `{}]}`, true},
		{"a bomb", `{"model":"m","x":"` + strings.Repeat(" ", 900<<10) + `"}`, false},
	} {
		packed := compressed(test.text)
		r := newReader(t, ReaderOptions{Sources: strictSources})
		var c penstock.Call
		err := r.Read(post(packed, false, "Content-Encoding", "gzip"), &c)
		if bad, ok := errors.AsType[*RequestError](err); (err == nil) != test.want || ok && bad.Status != 413 {
			t.Errorf("%s, %d bytes of %d: %v", test.name, len(packed), len(test.text), err)
		}
	}
}
