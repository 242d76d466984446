package e2e

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// A client's trace continues in the node's spans, over every HTTP API.
func TestTraces(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var sent bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.Copy(&sent, r.Body)
	}))
	defer collector.Close()
	dir := t.TempDir()
	c := command(dir, "serve", "--demo", "--listen-gateway", "127.0.0.1:0", "--listen-http", "127.0.0.1:0",
		"--listen-grpc", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0")
	c.Env = append(c.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL, "OTEL_BSP_SCHEDULE_DELAY=50")
	n := launchCommand(t, dir, c)
	for door, trace := range map[string]string{"gateway": "0af7651916cd43dd8448eb211c80319c", "http": "1bf7651916cd43dd8448eb211c80319d"} {
		header := "Traceparent: 00-" + trace + "-b7ad6b7169203331-01"
		if door == "gateway" {
			n.get(door, "/", header)
		} else {
			n.send("POST", door, "/v1/check", `{"attributes": {"path": "/", "method": "GET", "ip": "198.51.100.7"}}`, header, "Content-Type: application/json")
		}
		id, err := hex.DecodeString(trace)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the trace that came in by "+door+" is sent on", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return bytes.Contains(sent.Bytes(), id)
		})
	}
}
