package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Intervals of a stream.
const (
	heartbeat    = 10 * time.Second // so that a client or proxy that has gone away is noticed
	patience     = 10 * time.Second // how long a client may take to accept a write
	streamStatus = ": penstock\n\n"
)

// A stream is a response of server-sent events. It lasts until the session ends, the server stops, or the client
// stops reading.
type stream struct {
	*apiRequest
	control *http.ResponseController
}

func newStream(x *apiRequest) *stream { return &stream{x, http.NewResponseController(x.w)} }

// begin sends the headers, and reports whether the stream can continue.
func (s *stream) begin() bool {
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.Header().Set("X-Accel-Buffering", "no") // proxies must pass events on immediately
	s.w.WriteHeader(http.StatusOK)
	return s.r.Method != http.MethodHead && s.send(func() { fmt.Fprint(s.w, streamStatus) })
}

// isAllowed reports whether the client may still read the stream.
func (s *stream) isAllowed() bool { return s.admin.access.isStillAllowed(s.r.Context(), &s.who) }

// send writes and flushes. The stream ends if the client does not read.
func (s *stream) send(write func()) bool {
	_ = s.control.SetWriteDeadline(time.Now().Add(patience)) // fails only where there is no network connection
	write()
	return s.control.Flush() == nil
}

// event writes one event, as the client may see it.
func (s *stream) event(name string, data any) {
	text, err := json.Marshal(s.forClient(data)) // escapes line ends
	if err != nil {
		return // cannot fail for strings, numbers and times
	}
	fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, text)
}
