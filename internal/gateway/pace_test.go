package gateway

import (
	"io"
	"net/http"
	"testing"
	"time"
)

// A response of unknown length may end long after its last part: the client has read all of it, and is not slow.
func TestLateEndOfResponse(t *testing.T) {
	const longerThanWrite = 40 * time.Second // see Timeouts.Write
	serve := func(rw http.ResponseWriter, _ *http.Request) {
		io.WriteString(rw, "hello")
		http.NewResponseController(rw).Flush()
		time.Sleep(longerThanWrite)
	}
	inBubble(t, setting{}, serve, func(t *testing.T, b *memoryGateway) {
		if got := get(t, b.client(), "http://gateway.test/"); got.body != "hello" {
			t.Errorf("%q", got.body)
		}
	})
}
