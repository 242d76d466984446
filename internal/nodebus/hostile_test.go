package nodebus_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/nodebus"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/internal/ruleredis"
)

// A server that sends what it must not costs nodes the bus, and the process nothing.
func TestHostileServer(t *testing.T) {
	for point, hostile := range map[string][]string{"handshake": {"HELLO"}, "subscription": {"SUBSCRIBE"}, "message": {"PUBLISH"}} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			for _, reply := range redistest.HostileReplies() {
				answered := make(chan struct{}, 1)
				var server *redistest.Fake
				server = redistest.StartFake(t, func(words []string) string {
					if slices.Contains(hostile, strings.ToUpper(words[0])) {
						select {
						case answered <- struct{}{}:
						default:
						}
						return reply
					}
					return server.Honest("standalone", words)
				})
				bus, err := nodebus.New(nodebus.Options{
					Redis: ruleredis.Options{Addresses: []string{server.Addr}, Timeout: 200 * time.Millisecond}, Secret: secret, ID: "A",
					Receive: func(string, []byte) {}, Changed: func(error) {},
				})
				if err != nil {
					t.Fatal(err)
				}
				bus.Start()
				for isAnswered := false; !isAnswered; { // a busy machine may take longer than one attempt
					ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
					bus.Send(ctx, "B", "", []byte("hello"))
					cancel()
					select {
					case <-answered:
						isAnswered = true
					case <-time.After(time.Millisecond):
					}
				}
				bus.Close()
			}
		})
	}
}
