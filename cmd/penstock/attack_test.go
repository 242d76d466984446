package main

import (
	"net/http"
	"testing"
)

const operatorToken = "operator-0123456789abcdef"

// request sends a request to a listener of the process; header is names and values in turn, and may
// set Host.
func (p *process) request(t *testing.T, method, listener, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	n := &node{t: t, client: &http.Client{Transport: &http.Transport{}, Timeout: patient}}
	defer n.client.CloseIdleConnections()
	return n.send(method, "http://"+p.addresses[listener]+path, body, header...)
}

// Wrong tokens from the operator's own address, at both ways in, do not lock the operator out.
func TestGuessesDoNotLockOut(t *testing.T) {
	t.Setenv("PENSTOCK_ADMIN_TOKEN", operatorToken)
	p := startProcess(t, onFreePorts...)
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
