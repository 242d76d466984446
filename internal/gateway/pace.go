package gateway

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A client that sends or takes its bytes slowly holds a connection to a server. Deadlines are
// therefore set anew for each piece: however long a stream lasts, it must go on. On HTTP/2 a
// deadline that passes ends the stream even if nobody waits for the client at that time, so there
// it is taken back after each piece.

// pacedWriter is a response that the client must keep taking.
type pacedWriter struct {
	http.ResponseWriter
	exchange *exchange     // whose response it is
	patience time.Duration // 0: any
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
	w.wait()
	w.ResponseWriter.WriteHeader(status)
	w.waited()
}

func (w *pacedWriter) Write(p []byte) (int, error) {
	w.wait()
	defer w.waited()
	return w.ResponseWriter.Write(p)
}

func (w *pacedWriter) FlushError() error {
	w.wait()
	defer w.waited()
	return w.client().Flush()
}

func (w *pacedWriter) Flush() { w.FlushError() }

func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// pacedBody is a request's body that the client must keep sending. A transport may be reading it
// when the handler returns, and an HTTP/2 response then has no deadline to set any more: net/http
// panics. So end comes first.
type pacedBody struct {
	io.ReadCloser
	client   *http.ResponseController
	patience time.Duration // 0: any

	mu    sync.Mutex
	ended bool

	broken atomic.Pointer[error] // what ended it before its end
}

func (b *pacedBody) Read(p []byte) (n int, err error) {
	if b.patience > 0 {
		b.setDeadline(time.Now().Add(b.patience))
		defer b.setDeadline(time.Time{})
	}
	n, err = b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.broken.Store(&err)
	}
	return n, err
}

func (b *pacedBody) setDeadline(at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.client.SetReadDeadline(at)
	}
}

// end must be called before the handler returns.
func (b *pacedBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}
