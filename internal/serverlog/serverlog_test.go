package serverlog_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/serverlog"
)

func TestPanics(t *testing.T) {
	for _, version := range []int{1, 2} {
		var out safeBuffer
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panicHere() }))
		server.Config.ErrorLog = serverlog.New(slog.New(slog.NewJSONHandler(&out, nil)))
		server.EnableHTTP2 = version == 2
		server.StartTLS()
		if _, err := server.Client().Get(server.URL); err == nil {
			t.Error("a panic was answered")
		}
		// The client sees the panic before the log does.
		for end := time.Now().Add(time.Minute); len(out.bytes()) == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
		server.Close()
		var line struct{ Level, Msg, Panic, Stack string }
		if err := json.Unmarshal(out.bytes(), &line); err != nil {
			t.Fatalf("HTTP/%d: %v: %s", version, err, out.bytes())
		}
		if line.Level != "ERROR" || line.Msg != "request panicked" || line.Panic != "for: the test" || !strings.Contains(line.Stack, "panicHere") {
			t.Errorf("HTTP/%d: %+v", version, line)
		}
	}
}

func panicHere() { panic("for: the test") }

func TestOtherMessages(t *testing.T) {
	var out safeBuffer
	log := serverlog.New(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	log.Print("http: TLS handshake error from 192.0.2.1:80: EOF")
	if text := string(out.bytes()); !strings.Contains(text, "level=DEBUG") || !strings.Contains(text, "handshake error") {
		t.Error(text)
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

var _ io.Writer = (*safeBuffer)(nil)

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.b.Bytes())
}
