package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
)

// A decisionAPI is an API that decides whether a user's requests to /x may pass.
type decisionAPI struct {
	name  string
	calls int // of one request
	ask   func(n *node, user string) (allowed int)
}

const perBatch = 5

var doors = []decisionAPI{
	{"gateway", 1, askGateway},
	{"check", 1, askCheck},
	{"batch", perBatch, askBatch},
	{"auth", 1, askAuth},
	{"http client", 1, func(n *node, user string) int { return decide(n, n.http, user) }},
	{"http client batch", perBatch, func(n *node, user string) int { return decideEach(n, n.http, user) }},
	{"grpc client", 1, func(n *node, user string) int { return decide(n, n.grpc, user) }},
	{"grpc client batch", perBatch, func(n *node, user string) int { return decideEach(n, n.grpc, user) }},
}

// A remote is the interface of both clients.
type remote interface {
	penstock.Decider
	penstock.Concluder
	DecideEach(ctx context.Context, calls []penstock.Call, verdicts []penstock.Verdict, errs []error)
}

var browser = &http.Client{
	Transport: &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true},
	Timeout:   patient,
}

// An answer is a response whose body was read.
type answer struct {
	*http.Response
	body []byte
}

// get sends a request to a listener. Headers are given as they are written.
func (n *node) get(door, path string, headers ...string) answer {
	n.t.Helper()
	return n.send(http.MethodGet, door, path, "", headers...)
}

// post sends JSON to the decision API.
func (n *node) post(path, body string) answer {
	n.t.Helper()
	return n.send(http.MethodPost, "http", path, body, "Content-Type: application/json")
}

// send may be called from any goroutine: a failure fails the test, and its answer has no status.
func (n *node) send(method, door, path, body string, headers ...string) answer {
	n.t.Helper()
	a, err := trySend(method, n.url(door, path), body, headers...)
	if err != nil {
		n.t.Error(err)
	}
	return a
}

func trySend(method, url, body string, headers ...string) (answer, error) {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return read(nil, err)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		request.Header.Set(name, value)
	}
	return read(browser.Do(request))
}

// read reads the body of a response, if there is one.
func read(r *http.Response, err error) (answer, error) {
	if err != nil {
		return answer{Response: &http.Response{Status: "no answer", Header: http.Header{}}}, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return answer{r, body}, err
}

// passed returns 1 for a response that allowed the request, 0 for one that did not.
func (n *node) passed(a answer) int {
	switch a.StatusCode {
	case http.StatusOK:
		return 1
	case http.StatusTooManyRequests:
		return 0
	}
	n.t.Errorf("got %s, neither yes nor no: %s", a.Status, a.body)
	return 0
}

func askGateway(n *node, user string) int { return n.passed(n.get("gateway", "/x", "X-User: "+user)) }

func askAuth(n *node, user string) int {
	return n.passed(n.get("http", "/v1/auth", "X-User: "+user, "X-Forwarded-Method: GET", "X-Forwarded-Uri: /x", "X-Forwarded-For: 192.0.2.1"))
}

// A verdict is the part of a decision API response that tests check.
type verdict struct {
	Allowed   bool
	Rule      string
	Reason    string
	Quality   string
	Duplicate bool
	Limits    []struct {
		Rule    string
		Allowed bool
		Used    int64
		Shadow  bool
	}
	Reservation string
}

// used returns what a rule's first limit has counted.
func (v verdict) used(rule string) int64 {
	for _, l := range v.Limits {
		if l.Rule == rule {
			return l.Used
		}
	}
	return -1
}

// read reads a successful JSON response.
func (n *node) read(a answer, into any) {
	n.t.Helper()
	if err := json.Unmarshal(a.body, into); err != nil || a.StatusCode != http.StatusOK {
		n.t.Errorf("got %s: %v: %s", a.Status, err, a.body)
	}
}

// check asks the decision API about a request, given as JSON.
func (n *node) check(call string) (v verdict) {
	n.t.Helper()
	n.read(n.post("/v1/check", call), &v)
	return v
}

func callOf(user string) string { return `{"attributes": {"user": "` + user + `", "path": "/x"}}` }

// peek reads a user's numbers and charges nothing.
func (n *node) peek(user string) verdict {
	n.t.Helper()
	return n.check(`{"attributes": {"user": "` + user + `", "path": "/x"}, "cost": 0}`)
}

func askCheck(n *node, user string) int {
	v := n.check(callOf(user))
	return n.counted(v.Allowed, v.Quality)
}

func askBatch(n *node, user string) (allowed int) {
	calls := strings.Repeat(", "+callOf(user), perBatch)[2:]
	var reply struct{ Results []verdict }
	n.read(n.post("/v1/check/batch", `{"calls": [`+calls+`]}`), &reply)
	if len(reply.Results) != perBatch {
		n.t.Errorf("%d results for %d calls", len(reply.Results), perBatch)
	}
	for _, v := range reply.Results {
		allowed += n.counted(v.Allowed, v.Quality)
	}
	return allowed
}

// counted returns 1 for an allowed request. Its verdict must come from the shared state.
func (n *node) counted(allowed bool, quality string) int {
	if quality != "exact" {
		n.t.Errorf("a verdict of quality %q", quality)
	}
	if allowed {
		return 1
	}
	return 0
}

func newCall(user string) penstock.Call {
	return penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "user", Value: user}, {Name: "path", Value: "/x"}}}
}

func decide(n *node, c remote, user string) int {
	call := newCall(user)
	var v penstock.Verdict
	if err := c.Decide(context.Background(), &call, &v); err != nil {
		n.t.Error(err)
	}
	return n.counted(v.Allowed, v.Quality.String())
}

func decideEach(n *node, c remote, user string) (allowed int) {
	calls, verdicts, errs := make([]penstock.Call, perBatch), make([]penstock.Verdict, perBatch), make([]error, perBatch)
	for i := range calls {
		calls[i] = newCall(user)
	}
	c.DecideEach(context.Background(), calls, verdicts, errs)
	for i := range verdicts {
		if errs[i] != nil {
			n.t.Error(errs[i])
		}
		allowed += n.counted(verdicts[i].Allowed, verdicts[i].Quality.String())
	}
	return allowed
}

// atEveryDoor runs a test once for each API.
func atEveryDoor(t *testing.T, test func(t *testing.T, d decisionAPI)) {
	t.Helper()
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) { test(t, d) })
	}
}
