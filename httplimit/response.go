package httplimit

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/grpcstatus"
)

// A response is what the handler writes to. It adds the headers at the last moment, so that they are sent
// with those of the handler, and counts what is sent.
type response struct {
	http.ResponseWriter
	writer  *Writer
	verdict *penstock.Verdict
	metered *metered // nil: rules take nothing from the body

	begun    bool // the header was sent, or the handler took over the connection
	hijacked bool // what is written is not counted
	head     bool // of a HEAD request: what is written is not sent
	unserved bool // the request was not processed
	bytes    int64

	started time.Time     // when the request was passed on; zero if nothing is reserved
	status  int           // 0: not known
	took    time.Duration // until the response began
	early   func()        // settles the reservation before the header is sent; nil: that comes later
}

// Unwrap supports http.ResponseController.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *response) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		r.begin(status)
	}
	r.ResponseWriter.WriteHeader(status)
}

// begin adds the headers, except to 3xx: the client asked for the response behind a redirect.
func (r *response) begin(status int) {
	if r.begun {
		return
	}
	r.begun = true
	if !r.started.IsZero() {
		r.status, r.took = status, time.Since(r.started)
	}
	r.metered.begin(status, r.Header())
	if r.early != nil && !r.unserved && !grpcstatus.Is(r.Header().Get("Content-Type")) {
		r.early()
	}
	if status < 300 || status >= 400 {
		r.writer.Headers(r.Header(), r.verdict)
	}
}

// beginUnwritten begins the response of a handler that has returned. If it has written nothing and the client has
// disconnected, the status is not known: the handler may have returned because of that.
func (r *response) beginUnwritten(isGone bool) {
	if isGone && !r.begun {
		r.started = time.Time{}
	}
	r.begin(http.StatusOK)
}

func (r *response) Write(p []byte) (int, error) {
	r.begin(http.StatusOK)
	fits, cut := r.metered.admit(p)
	n, err := r.ResponseWriter.Write(p[:fits])
	r.count(int64(n))
	if cut != nil {
		r.metered.endCut(r.ResponseWriter)
		err = cut
	}
	return n, err
}

// ReadFrom allows a file to be sent without copying it through user space. As in net/http, the first bytes begin the
// response: if src fails before them, nothing was sent, and the handler can still answer with an error.
func (r *response) ReadFrom(src io.Reader) (n int64, err error) {
	if r.metered != nil {
		return io.Copy(struct{ io.Writer }{r}, src)
	}
	if !r.begun {
		if n, err = io.CopyN(struct{ io.Writer }{r}, src, firstBytes); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
	var rest int64
	if to, ok := r.ResponseWriter.(io.ReaderFrom); ok {
		rest, err = to.ReadFrom(src)
	} else {
		rest, err = io.Copy(struct{ io.Writer }{r.ResponseWriter}, src)
	}
	r.count(rest)
	return n + rest, err
}

// firstBytes is how much net/http copies before it sends a file.
const firstBytes = 512

func (r *response) count(n int64) {
	if !r.head {
		r.bytes += n
	}
}

// FlushError supports http.ResponseController. Where nothing is flushed, as in an http.TimeoutHandler, it does not
// begin the response: the handler has not chosen a status yet.
func (r *response) FlushError() error {
	if canFlush(r.ResponseWriter) {
		r.begin(http.StatusOK)
	}
	return http.NewResponseController(r.ResponseWriter).Flush()
}

// canFlush finds a method as http.ResponseController does.
func canFlush(rw http.ResponseWriter) bool {
	switch rw := rw.(type) {
	case *response:
		return canFlush(rw.ResponseWriter)
	case interface{ FlushError() error }, http.Flusher:
		return true
	case interface{ Unwrap() http.ResponseWriter }:
		return canFlush(rw.Unwrap())
	}
	return false
}

// Flush supports handlers that know only http.Flusher, which cannot return an error.
func (r *response) Flush() { _ = r.FlushError() }

// Hijack hands over the connection. What is written to it is not counted.
func (r *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(r.ResponseWriter).Hijack()
	r.begun, r.hijacked = r.begun || err == nil, err == nil
	return conn, buffered, err
}

// outcome returns what rules decide by. The size is unknown if the client disconnected before the first byte.
func (r *response) outcome(isGone, isWhole bool) *penstock.Response {
	h, bytes := r.Header(), r.bytes
	isUnknown := r.hijacked || isGone && bytes == 0 && !r.head
	if isUnknown {
		bytes = penstock.UnknownBytes
	}
	response := &penstock.Response{
		Status: r.status, Duration: r.took, Bytes: bytes,
		Header: func(name string) string { return cmp.Or(h.Get(name), h.Get(http.TrailerPrefix+name)) },
	}
	if r.metered != nil {
		response.JSON, response.Charged = r.metered.end(isWhole, isUnknown), r.metered.charged
	}
	if grpcstatus.Is(h.Get("Content-Type")) {
		response.Status = grpcstatus.Parse(response.Header("Grpc-Status"))
	}
	return response
}
