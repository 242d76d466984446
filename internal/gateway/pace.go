package gateway

import (
	"net/http"
	"time"
)

// A client that takes its bytes slowly holds a connection to a server. A deadline is therefore set for
// each piece: a stream may last, but it must go on. On HTTP/2 a deadline that passes ends the stream
// even if nobody waits for the client at that time, so there it is taken back after each piece.

// pacedWriter is a response that the client must keep taking.
type pacedWriter struct {
	http.ResponseWriter
	exchange *exchange     // whose response it is
	patience time.Duration // 0: any
	tunnel   time.Duration // a tunnel may rest; 0: any
	streams  bool          // HTTP/2
	waits    time.Time     // since when
}

// Deadlines are not to be had of every ResponseWriter. Without them the client is not paced.

// wait leaves alone a deadline that is nearly as far away as a new one would be.
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

func (w *pacedWriter) client() *http.ResponseController {
	return http.NewResponseController(w.ResponseWriter)
}

// WriteHeader leaves it to net/http to tell the client to continue, which it does when the body is
// read: that the server says so too would be a second time.
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
