package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/client"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/wire"
)

type response struct {
	Name    string            `json:"name"`
	Verdict json.RawMessage   `json:"verdict"`
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body,omitempty"`
}

// The middleware answers as the file says. To write there what it answers now: PENSTOCK_TEST_UPDATE=1.
func TestResponses(t *testing.T) {
	var all []response
	readJSON(t, "responses.json", &all)
	for i := range all {
		want := all[i]
		got := respond(t, want.Verdict)
		got.Name, got.Verdict = want.Name, want.Verdict
		if os.Getenv("PENSTOCK_TEST_UPDATE") != "" {
			all[i] = got
			continue
		}
		if got.Status != want.Status || !maps.Equal(got.Headers, want.Headers) || !reflect.DeepEqual(decoded(t, got.Body), decoded(t, want.Body)) {
			t.Errorf("%s: got %d %v %s\nwant %d %v %s", want.Name, got.Status, got.Headers, got.Body, want.Status, want.Headers, want.Body)
		}
	}
	if os.Getenv("PENSTOCK_TEST_UPDATE") != "" {
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(all); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("conformance/responses.json", text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// respond is what a client is told of a verdict. An allowed one is an answer of the application's.
func respond(t *testing.T, text []byte) (r response) {
	t.Helper()
	var v penstock.Verdict
	if err := wire.ParseVerdict(text, penstock.InstantOf(time.Unix(1_800_000_000, 0)), &v); err != nil {
		t.Fatal(err)
	}
	writer, err := httplimit.NewWriter(httplimit.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	if v.Allowed {
		writer.Headers(w.Header(), &v)
	} else {
		writer.Deny(w, httptest.NewRequest(http.MethodGet, "/", nil), &v)
		r.Body = json.RawMessage(strings.TrimSpace(w.Body.String()))
	}
	r.Status, r.Headers = w.Code, map[string]string{}
	for name, lines := range w.Header() {
		if name != "Content-Length" {
			r.Headers[name] = lines[0]
		}
	}
	return r
}

func decoded(t *testing.T, text []byte) (value any) {
	t.Helper()
	if len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

var causes = map[string]error{"invalid": penstock.ErrInvalid, "no_reservation": penstock.ErrNoReservation, "closed": penstock.ErrClosed}

// compare looks at the fields of a verdict that are expected.
func compare(t *testing.T, step int, v *penstock.Verdict, err error, expect object, cause string) {
	t.Helper()
	if cause != "" {
		if !errors.Is(err, causes[cause]) {
			t.Errorf("call %d: got error %v, want %s", step, err, cause)
		}
		return
	}
	got, _ := decoded(t, wire.AppendVerdict(nil, v)).(object)
	for name, want := range expect {
		if err != nil || !reflect.DeepEqual(got[name], want) {
			t.Errorf("call %d: %s is %v, want %v (%v, %v)", step, name, got[name], want, got, err)
		}
	}
}

func TestGoClient(t *testing.T) {
	t.Parallel()
	s := readSession(t)
	c, err := client.NewHTTP(startNode(t, s.Rules), client.Options{Timeout: patient, OnError: client.Deny, ResponseHeaders: []string{"X-Login"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	reservations := map[string]string{"none": "none"}
	verbs := map[string]penstock.Verb{"settle": penstock.Settle, "report": penstock.Settle, "renew": penstock.Renew, "release": penstock.Release}
	parse := func(text []byte) (call penstock.Call, err error) {
		err = wire.ParseCheck(text, &call)
		return call, err
	}
	for i, step := range s.Calls {
		var v penstock.Verdict
		switch step.Do {
		case "check", "reserve":
			call, err := parse(step.Call)
			if err == nil {
				call.Reserve = step.Do == "reserve"
				err = c.Decide(t.Context(), &call, &v)
			}
			reservations[step.As] = v.Reservation
			compare(t, i, &v, err, step.Expect, step.Error)
		case "batch":
			calls := make([]penstock.Call, len(step.Calls))
			for j, text := range step.Calls {
				if calls[j], err = parse(text); err != nil {
					t.Fatal(err)
				}
			}
			verdicts, errs := make([]penstock.Verdict, len(calls)), make([]error, len(calls))
			c.DecideEach(t.Context(), calls, verdicts, errs)
			for j := range verdicts {
				compare(t, i, &verdicts[j], errs[j], step.Expects[j], "")
			}
		default:
			err := c.Conclude(t.Context(), &penstock.Conclusion{
				Reservation: reservations[step.Reservation], Verb: verbs[step.Do], Cost: step.Cost, TTL: time.Duration(step.TTL) * time.Millisecond,
				Response: parseResponse(t, step.Response),
			}, &v)
			compare(t, i, &v, err, step.Expect, step.Error)
		}
	}
}

// parseResponse returns what a step reports; nil if it reports nothing.
func parseResponse(t *testing.T, text []byte) *penstock.Response {
	t.Helper()
	if len(text) == 0 {
		return nil
	}
	report, err := wire.ParseReport(append([]byte(`{"reservation":"r"`+strings.Repeat(",", min(1, len(text)-2))), text[1:]...))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return &report.Response
}

func TestGoMiddleware(t *testing.T) {
	t.Parallel()
	s := readSession(t)
	c, err := client.NewHTTP(startNode(t, s.Rules), client.Options{Timeout: patient, OnError: client.Deny, ResponseHeaders: []string{"X-Login"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	user := []attribute.Source{{Attribute: "user", Header: "X-User"}}
	limiter, err := httplimit.New(c, httplimit.Options{ReaderOptions: httplimit.ReaderOptions{Sources: func() []attribute.Source { return user }}})
	if err != nil {
		t.Fatal(err)
	}
	app := httptest.NewServer(limiter.Wrap(http.HandlerFunc(answerAsTold)))
	defer app.Close()
	play(t, s, app.URL)
}

// answerAsTold answers 200, or what the header X-Answer says: a status, or failed.
func answerAsTold(w http.ResponseWriter, r *http.Request) {
	switch told := r.Header.Get("X-Answer"); told {
	case "", "200":
	case "failed":
		w.Header().Set("X-Login", told)
	default:
		w.WriteHeader(http.StatusUnauthorized)
	}
	_, _ = w.Write([]byte("ok"))
}

// ask sends a request of a user to an application, which is to answer as told, and returns the status.
func ask(t *testing.T, url, user, told string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-User", user)
	request.Header.Set("X-Answer", told)
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

// askUntilServed repeats a request until it is not denied: what the one before it held is given back after its
// response.
func askUntilServed(t *testing.T, url, user, told string) {
	t.Helper()
	for end := time.Now().Add(patient); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ask(t, url, user, told) != http.StatusTooManyRequests {
			return
		}
	}
	t.Fatalf("%s, answered with %s, is denied: what a request before it held was not given back", url, told)
}

// playOutcomes logs in, correctly as often as it likes, and wrongly twice: once by the status, once by a header.
func playOutcomes(t *testing.T, url string) {
	t.Helper()
	for _, told := range []string{"200", "200", "200", "200", "401", "failed"} {
		askUntilServed(t, url+"/login", "o", told)
	}
	for range 10 {
		if status := ask(t, url+"/login", "o", "200"); status != http.StatusTooManyRequests {
			t.Fatalf("after two wrong logins: %d, want 429", status)
		}
	}
}

// playPermits sends one request after the other where only one may run: the permit of each must be released soon after
// its response.
func playPermits(t *testing.T, url string) {
	t.Helper()
	for range 3 {
		askUntilServed(t, url+"/slots", "s", "200")
	}
}

// play sends the requests of a session to an application and compares what it answers.
func play(t *testing.T, s session, url string) {
	t.Helper()
	playPermits(t, url)
	playOutcomes(t, url)
	for i, r := range s.Requests {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+r.Path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range r.Sent {
			request.Header.Set(name, value)
		}
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != r.Status {
			t.Errorf("request %d to %s: got %d, want %d: %s, %v", i, r.Path, answer.StatusCode, r.Status, body, err)
		}
		for name, want := range r.Headers {
			if got := answer.Header.Get(name); got == "" || !strings.HasPrefix(got, want) {
				t.Errorf("request %d to %s: %s is %q, want %q", i, r.Path, name, got, want)
			}
		}
		for _, name := range r.Absent {
			if got := answer.Header.Get(name); got != "" {
				t.Errorf("request %d to %s: %s is %q, want none", i, r.Path, name, got)
			}
		}
		if r.Problem == nil {
			continue
		}
		var problem object
		if err := json.Unmarshal(body, &problem); err != nil {
			t.Errorf("request %d to %s: %v: %s", i, r.Path, err, body)
		}
		for name, want := range r.Problem {
			got, ok := problem[name]
			if !ok || !reflect.DeepEqual(got, want) {
				t.Errorf("request %d to %s: %s is %v, want %v", i, r.Path, name, got, want)
			}
		}
	}
}
