package ruleredis

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/redistest"
)

// A server that sends what it must not costs rules and blocks an update, and the process nothing: in the handshake, in
// place of texts, and in place of messages.
func TestHostileServer(t *testing.T) {
	for point, hostile := range map[string][]string{
		"handshake": {"HELLO"}, "texts": {"HMGET", "HSTRLEN", "HGET", "HRANDFIELD", "EVALSHA"}, "messages": {"SUBSCRIBE"},
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			for _, reply := range redistest.HostileReplies() {
				var server *redistest.Fake
				server = redistest.StartFake(t, func(words []string) string {
					if slices.Contains(hostile, strings.ToUpper(words[0])) {
						return reply
					}
					return server.Honest("standalone", words)
				})
				o := Options{Addresses: []string{server.Addr}, Timeout: 200 * time.Millisecond}
				r, err := New(o)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := r.Read(t.Context()); err == nil {
					t.Errorf("%.40q: rules", reply)
				}
				if point == "messages" {
					ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // some replies are the beginning of a valid one
					r.listen(ctx, func() {})
					cancel()
				}
				r.Close()
				b, err := NewBlocks(o, strings.Repeat("secret", 8))
				if err != nil {
					t.Fatal(err)
				}
				b.Read(t.Context())
				b.Write(t.Context(), nil, []string{"id"})
				b.Close()
			}
		})
	}
}

// Rules and blocks do not show passwords, however they are printed or logged.
func TestPasswordsAreNotShown(t *testing.T) {
	const canary = "c4n4ry"
	o := Options{Addresses: []string{"127.0.0.1:1"}, Password: canary, Master: "m", SentinelPassword: canary}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewBlocks(o, strings.Repeat(canary, 8))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	for _, value := range []any{o, &o, r, b} {
		for _, handler := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
			slog.New(handler).Error("message", "value", value)
		}
		fmt.Fprintf(&log, "%v %+v %#v %s\n", value, value, value, value)
	}
	if text := log.String(); strings.Contains(text, canary) || !strings.Contains(text, "[redacted]") {
		t.Error(text)
	}
}
