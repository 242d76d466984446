package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/penstock-io/penstock/internal/nodetest"
)

const operatorToken = "operator-0123456789abcdef"

// request sends a request to a listener of the process; header is names and values in turn, and may
// set Host.
func (p *process) request(t *testing.T, method, listener, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}, Timeout: nodetest.Timeout}
	defer client.CloseIdleConnections()
	return nodetest.Send(t, client, nodetest.Request{Method: method, URL: "http://" + p.addresses[listener] + path, Body: body, Header: header})
}

// Wrong tokens from the operator's own address, by both ways to log in, do not lock the operator out.
func TestGuessesDoNotLockOut(t *testing.T) {
	t.Parallel()
	p := startProcessWith(t, []string{"PENSTOCK_ADMIN_TOKEN=" + operatorToken}, onFreePorts...)
	session := func(token string) int {
		answer, _ := p.request(t, "POST", "admin", "/v1/session", `{"token": "`+token+`"}`, "Content-Type", "application/json")
		return answer.StatusCode
	}
	bearer := func(token string) int {
		answer, _ := p.request(t, "GET", "admin", "/v1/status", "", "Authorization", "Bearer "+token)
		return answer.StatusCode
	}
	counts := map[int]int{}
	for range 20 {
		counts[session("guess")]++
		counts[bearer("guess")]++
	}
	// Guesses of more than a minute ago are forgotten, so that a slow machine sees more than ten 401s.
	if counts[401] < 10 || counts[429] == 0 || counts[401]+counts[429] != 40 {
		t.Errorf("40 guesses: %v", counts)
	}
	if a, b := session(operatorToken), bearer(operatorToken); a != 200 || b != 200 {
		t.Errorf("the right token: %d to a session, %d as bearer", a, b)
	}
}

const attackRules = "attributes: {user: {header: X-User}}\nrules: [{name: per-user, key: [user], limits: [{rate: 100/1d, algorithm: fixed_window}]}]\n"

// startAttacked runs a process with rules of 100 requests per user and day, and further configuration.
func startAttacked(t *testing.T, config string, args ...string) *process {
	t.Helper()
	dir := t.TempDir()
	nodetest.WriteFile(t, filepath.Join(dir, "rules.yaml"), attackRules)
	nodetest.WriteFile(t, filepath.Join(dir, "penstock.yaml"), config+"\nrules: {file: "+filepath.Join(dir, "rules.yaml")+"}\n")
	return startProcess(t, append(append(onFreePorts, "--config", filepath.Join(dir, "penstock.yaml")), args...)...)
}

// used returns how many requests of the victim were counted.
func (p *process) used(t *testing.T) int {
	t.Helper()
	answer, body := p.request(t, "POST", "http", "/v1/check", `{"attributes": {"user": "victim"}, "cost": 0}`, "Content-Type", "application/json")
	var v struct{ Remaining int }
	if err := json.Unmarshal([]byte(body), &v); err != nil || answer.StatusCode != 200 {
		t.Fatalf("%s %s: %v", answer.Status, body, err)
	}
	return 100 - v.Remaining
}

// charges are the requests by which a program or a proxy charges the victim.
var charges = []struct{ method, path, body string }{
	{"POST", "/v1/check", `{"attributes": {"user": "victim"}}`},
	{"POST", "/v1/check/batch", `{"calls": [{"attributes": {"user": "victim"}}]}`},
	{"POST", "/v1/reserve", `{"attributes": {"user": "victim"}}`},
	{"POST", "/json", `{"domain": "default", "descriptors": [{"entries": [{"key": "user", "value": "victim"}]}]}`},
	{"GET", "/v1/auth", ""},
}

// charge sends one of them, with headers that come last.
func (p *process) charge(t *testing.T, i int, header ...string) int {
	t.Helper()
	c := charges[i]
	header = append([]string{"Content-Type", "application/json", "X-Forwarded-Uri", "/", "X-Forwarded-Method", "GET", "X-User", "victim"}, header...)
	answer, _ := p.request(t, c.method, "http", c.path, c.body, header...)
	return answer.StatusCode
}

// Requests that a web page can make a browser send to a decision API on loopback charge no one: bodies of types
// that need no preflight, requests with an Origin, and requests for the page's own host (DNS rebinding).
func TestPagesCannotCharge(t *testing.T) {
	t.Parallel()
	p := startAttacked(t, "trusted_proxies: [127.0.0.1]\nlisten: {hosts: [penstock.example.com, '*.corp.example']}")
	for i, c := range charges {
		for _, host := range []string{"evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8090", "192.0.2.1", "2130706433", "corp.example", "localhost:1:1"} {
			if status := p.charge(t, i, "Host", host); status != 403 {
				t.Errorf("%s for %s: %d", c.path, host, status)
			}
		}
		if c.path == "/v1/auth" {
			continue // a proxy passes on its client's headers, and a page cannot send X-Forwarded-Uri
		}
		for _, media := range []string{"", "text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
			if status := p.charge(t, i, "Content-Type", media); status != 415 {
				t.Errorf("%s of type %q: %d", c.path, media, status)
			}
		}
		for _, header := range [][]string{{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Origin", "http://" + p.addresses["http"]}, {"Sec-Fetch-Site", "cross-site"}} {
			if status := p.charge(t, i, header...); status != 403 {
				t.Errorf("%s with %q: %d", c.path, header, status)
			}
		}
	}
	if status, _ := p.request(t, "DELETE", "http", "/v1/reservations/x", "", "Origin", "https://evil.example"); status.StatusCode != 403 {
		t.Errorf("a page releases a reservation: %s", status.Status)
	}
	if used := p.used(t); used != 0 {
		t.Fatalf("%d requests were charged", used)
	}
	for _, header := range [][]string{{}, {"Host", "localhost"}, {"Host", "[::1]:8090"}, {"Host", "penstock"}, {"Host", "penstock.example.com:8090"}, {"Host", "a.corp.example"}} {
		for i, c := range charges {
			if status := p.charge(t, i, header...); status != 200 {
				t.Errorf("%s with %q: %d", c.path, header, status)
			}
		}
	}
	last := len(charges) - 1
	if status := p.charge(t, last, "Origin", "https://shop.example", "Sec-Fetch-Site", "cross-site"); status != 200 {
		t.Errorf("a proxy asks about a cross-origin request: %d", status)
	}
	if answer, _ := p.request(t, "GET", "http", "/healthz", "", "Host", "outbound|8090||penstock.mesh.local"); answer.StatusCode != 200 {
		t.Errorf("a health check: %s", answer.Status)
	}
	if used := p.used(t); used != 6*len(charges)+1 {
		t.Errorf("%d requests were charged, want %d", used, 6*len(charges)+1)
	}
}

// A decision API for other machines accepts any host name, unless its names are configured. Pages cannot use it
// in either case.
func TestDecisionAPIForOthers(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]int{"": 200, "listen: {hosts: [penstock.example.com]}": 403} {
		p := startAttacked(t, config, "--listen-http", "0.0.0.0:0")
		for host, want := range map[string]int{"penstock.example.com": 200, "penstock": 200, "10.0.0.5:8090": 200, "penstock.mesh.svc.cluster.local": want} {
			if status := p.charge(t, 0, "Host", host); status != want {
				t.Errorf("%q: %s: %d, want %d", config, host, status, want)
			}
			if status := p.charge(t, 0, "Host", host, "Origin", "http://"+host); status != 403 {
				t.Errorf("%q: a page of %s: %d", config, host, status)
			}
		}
	}
}
