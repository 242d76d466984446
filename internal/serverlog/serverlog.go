// Package serverlog writes the messages of net/http to a structured log: panics of handlers as errors with their
// stack, and everything else, which is mostly the fault of clients, at debug level.
package serverlog

import (
	"context"
	"log"
	"log/slog"
	"strings"
)

// New returns the ErrorLog for an http.Server.
func New(to *slog.Logger) *log.Logger { return log.New(writer{to}, "", 0) }

type writer struct{ log *slog.Logger }

// Write writes one message. For a panic, net/http writes "http: panic serving 192.0.2.1:80: reason", or http2, and
// the stack on the following lines.
func (w writer) Write(message []byte) (int, error) {
	text := strings.TrimSpace(string(message))
	head, stack, _ := strings.Cut(text, "\n")
	if _, reason, isPanic := strings.Cut(head, ": panic serving "); isPanic && strings.HasPrefix(head, "http") {
		_, reason, _ = strings.Cut(reason, ": ")
		w.log.LogAttrs(context.Background(), slog.LevelError, "request panicked", slog.String("panic", reason), slog.String("stack", stack))
	} else {
		w.log.Debug(text)
	}
	return len(message), nil
}
