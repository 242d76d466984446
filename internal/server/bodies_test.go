package server

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/httplimit"
)

// Every body is counted, and one a minute is logged for each reason.
func TestBodyWarnings(t *testing.T) {
	var log bytes.Buffer
	b := newBodyWarnings(slog.New(slog.NewTextHandler(&log, nil)))
	req := httptest.NewRequest("POST", "/v1/chat", nil)
	for range 3 {
		b.add(req, &httplimit.BodyError{Reason: httplimit.BodyNotJSON, Err: errors.New("unexpected 'm'")})
	}
	b.add(req, &httplimit.BodyError{Reason: httplimit.BodyNoUsage})
	if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "reason=not_json") || !strings.Contains(log.String(), "path=/v1/chat") {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
	if totals := b.totals(); totals[httplimit.BodyNotJSON] != 3 || totals[httplimit.BodyNoUsage] != 1 {
		t.Errorf("%v", totals)
	}
	if _, isLogged := b.count(httplimit.BodyNotJSON, time.Now().Add(2*time.Minute)); !isLogged {
		t.Error("it is not logged again after two minutes")
	}
}
