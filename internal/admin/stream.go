package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Of a stream.
const (
	heartbeat    = 10 * time.Second // so that a client or proxy that is gone is noticed
	patience     = 10 * time.Second // with who does not take what is written
	streamStatus = ": penstock\n\n"
)

// A stream is an answer that goes on, as server-sent events, until the session ends, the server stops,
// or nobody reads it.
type stream struct {
	*exchange
	control *http.ResponseController
}

func newStream(x *exchange) *stream { return &stream{x, http.NewResponseController(x.w)} }

// begin answers, and tells whether there is more to come.
func (s *stream) begin() bool {
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.Header().Set("X-Accel-Buffering", "no") // a proxy is to pass events on as they come
	s.w.WriteHeader(http.StatusOK)
	return s.r.Method != http.MethodHead && s.send(func() { fmt.Fprint(s.w, streamStatus) })
}

// lasts tells whether who reads it is still let in.
func (s *stream) lasts() bool { return s.who.session == nil || s.admin.sessions.lasts(s.who.session) }

// send writes and flushes. A reader that does not read is given up on.
func (s *stream) send(write func()) bool {
	_ = s.control.SetWriteDeadline(time.Now().Add(patience)) // where there are no deadlines there is no network
	write()
	return s.control.Flush() == nil
}

// event writes one, as who reads it may see it.
func (s *stream) event(name string, data any) {
	text, err := json.Marshal(s.seen(data)) // escapes line ends
	if err != nil {
		return // texts, numbers and times: it cannot be
	}
	fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, text)
}
