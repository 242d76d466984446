package gateway

import (
	"net/http"
	"time"

	"github.com/penstock-io/penstock/internal/problem"
)

// A client that reads slowly holds a connection to a server. So each write has its own deadline: a stream may last
// long, but it must progress. On HTTP/2, a deadline that passes ends the stream even if no write is waiting at that
// time, so there it is cleared after each write.

// A pacedWriter is a response whose client must keep reading.
type pacedWriter struct {
	http.ResponseWriter
	exchange *exchange     // whose response it is
	patience time.Duration // 0: unlimited
	tunnel   time.Duration // idle time of a tunnel; 0: unlimited
	streams  bool          // HTTP/2
	waits    time.Time     // start of the wait
}

// Not every ResponseWriter supports deadlines. Without them the client is not paced.

// wait sets a new deadline, unless the current one is nearly as late.
func (w *pacedWriter) wait() {
	if w.patience == 0 {
		return
	}
	if now := time.Now(); w.streams || now.Sub(w.waits) > w.patience/16 {
		w.waits = now
		w.client().SetWriteDeadline(now.Add(w.patience))
	}
}

func (w *pacedWriter) waited() {
	if w.patience > 0 && w.streams {
		w.client().SetWriteDeadline(time.Time{})
	}
}

// end renews the deadline for what is written after the handler has returned: what is buffered, and the end of a
// response of unknown length, which may come long after its last part.
func (w *pacedWriter) end() {
	if !w.waits.IsZero() && !w.streams {
		w.wait()
	}
}

func (w *pacedWriter) client() *http.ResponseController {
	return http.NewResponseController(w.ResponseWriter)
}

// WriteHeader drops 100 Continue from the server: net/http sends it to the client itself when the body is read, and
// it must not be sent twice.
func (w *pacedWriter) WriteHeader(status int) {
	if status == http.StatusContinue {
		return
	}
	if status >= http.StatusOK {
		w.exchange.body.Respond(w.Header())
	}
	w.wait()
	w.ResponseWriter.WriteHeader(status)
	w.waited()
}

// WriteWhole implements problem.WholeWriter if the response behind it does. The limiter does not say how long the
// client may take.
func (w *pacedWriter) WriteWhole(status int, fields []problem.Field, body []byte, _ time.Duration) bool {
	whole, ok := w.ResponseWriter.(problem.WholeWriter)
	if !ok {
		return false
	}
	w.exchange.body.Respond(w.Header())
	return whole.WriteWhole(status, fields, body, w.patience)
}

func (w *pacedWriter) Write(p []byte) (int, error) {
	w.exchange.body.Respond(w.Header())
	w.wait()
	defer w.waited()
	return w.ResponseWriter.Write(p)
}

func (w *pacedWriter) FlushError() error {
	w.exchange.body.Respond(w.Header())
	w.wait()
	defer w.waited()
	return w.client().Flush()
}

func (w *pacedWriter) Flush() { w.FlushError() }

func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
