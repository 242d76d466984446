package redisstore_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/redisstore"
)

// Neither options nor stores show passwords, however they are printed or logged.
func TestPasswordsAreNotShown(t *testing.T) {
	const canary = "c4n4ry"
	o := redisstore.Options{Addresses: []string{"127.0.0.1:1"}, Password: canary, Mode: redisstore.Sentinel, Master: "m", SentinelPassword: canary}
	store := must(redisstore.New(o))
	defer store.Close()
	var log bytes.Buffer
	for _, value := range []any{o, &o, store} {
		for _, handler := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
			slog.New(handler).Error("message", "value", value)
		}
		fmt.Fprintf(&log, "%v %+v %#v %s\n", value, value, value, value)
	}
	if text := log.String(); strings.Contains(text, canary) || !strings.Contains(text, "[redacted]") {
		t.Error(text)
	}
}
