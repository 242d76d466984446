// Package reqbody bounds how long the body of a request can hold a connection: while it is read, by a timeout between
// reads and a minimum rate, and after the response, if it is unread.
//
// net/http by itself reads up to 256 KiB of an unread body before it sends the response or closes the connection, and
// waits for it without a deadline unless Server.ReadTimeout is set.
package reqbody

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options bound how long a client may take. Only time spent waiting for the client counts.
type Options struct {
	Wait time.Duration // for the next part of the body; 0: unlimited

	// Total bounds the time for the whole body until the response begins. Each second's worth of bytes at Rate
	// extends what is left of it by a second, up to Total: a client that has sent much at once cannot send nothing
	// for long afterwards. 0: unlimited.
	Total time.Duration
	Rate  int64 // bytes per second; 0: nothing extends Total
}

const (
	// maxRest is how much of an unread body is read so that the connection can be reused.
	maxRest = 64 << 10

	// restWithin is how long the client may take to send the rest of an unread body.
	restWithin = 5 * time.Second
)

// A Body is the body of a request to a server. Start prepares it, Respond must be called before the response begins,
// and End before the handler returns. A transport may read it at the same time.
type Body struct {
	options Options
	server  io.Reader // net/http's own
	source  io.Reader // with a limit, if any
	writer  http.ResponseWriter
	http1   bool
	length  int64 // as announced; -1: unknown
	expects bool  // the client waits for 100 Continue

	begun     atomic.Bool // something was read
	finished  atomic.Bool // it was read to its end
	responded atomic.Bool
	broken    atomic.Pointer[error]

	mu     sync.Mutex // guards deadlines; after ended only End sets them
	ended  bool
	broke  bool      // it was interrupted
	closes time.Time // when to stop waiting for an unread rest

	reading sync.Mutex    // held by Read
	used    time.Duration // of Total
}

// Start makes b the body of a request. The request is the server's original one, with its original body.
func (b *Body) Start(w http.ResponseWriter, req *http.Request, o Options) {
	b.options, b.writer = o, w
	b.server, b.source = req.Body, req.Body
	b.http1, b.length = req.ProtoMajor < 2, req.ContentLength
	b.expects = strings.EqualFold(req.Header.Get("Expect"), "100-continue")
}

// Limit makes Read fail with a *http.MaxBytesError beyond n bytes.
func (b *Body) Limit(n int64) {
	if body, ok := b.server.(io.ReadCloser); ok {
		b.source = http.MaxBytesReader(b.writer, body, n)
	}
}

// Begun reports whether any part of the body was read.
func (b *Body) Begun() bool { return b.begun.Load() }

// Err returns the error that reading the body failed with, or nil.
func (b *Body) Err() error {
	if err := b.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// Read implements io.Reader. It sets a deadline for each read and clears it afterwards: a deadline that passes while
// no read waits for the client would end an HTTP/2 stream, or look as if the client had gone away.
func (b *Body) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	b.begun.Store(true)
	start := time.Now()
	deadline := b.deadline(start)
	if !b.setDeadline(deadline) {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.source.Read(p)
	if !deadline.IsZero() {
		b.setDeadline(time.Time{})
	}
	b.used += time.Since(start)
	if b.options.Rate > 0 {
		b.used = max(b.used-time.Duration(float64(n)/float64(b.options.Rate)*float64(time.Second)), 0)
	}
	switch {
	case errors.Is(err, io.EOF):
		b.finished.Store(true)
	case err != nil:
		b.broken.CompareAndSwap(nil, &err)
	}
	return n, err
}

// deadline returns the deadline for a read that starts now; zero: none.
func (b *Body) deadline(now time.Time) time.Time {
	o, wait, bounded := &b.options, b.options.Wait, b.options.Wait > 0
	if o.Total > 0 && !b.responded.Load() {
		if left := max(o.Total-b.used, 0); !bounded || left < wait {
			wait, bounded = left, true
		}
	}
	if !bounded {
		return time.Time{}
	}
	return now.Add(wait)
}

// setDeadline sets the read deadline. It returns false after End or Interrupt.
func (b *Body) setDeadline(at time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || b.broke {
		return false
	}
	http.NewResponseController(b.writer).SetReadDeadline(at) // not every writer supports deadlines
	return true
}

var errInterrupted = errors.New("reading the body was interrupted")

// Interrupt ends a read in progress, and all later ones, with an error. The connection closes after the response.
func (b *Body) Interrupt() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	b.broke = true
	b.broken.CompareAndSwap(nil, &errInterrupted)
	http.NewResponseController(b.writer).SetReadDeadline(time.Unix(1, 0))
}

// Close does nothing: a transport closes the body of a request that it could not send, and another attempt may
// follow. In the end net/http closes its own body.
func (b *Body) Close() error { return nil }

// Respond must be called when a response begins. If the body is not at its end, Respond reads the rest, provided that
// no other code has begun to, that it is small, and that it arrives soon. Otherwise the connection closes after the
// response.
func (b *Body) Respond(h http.Header) {
	if b.server == nil || b.responded.Swap(true) || !b.http1 {
		return
	}
	wait := restWithin
	if b.options.Wait > 0 {
		wait = min(wait, b.options.Wait)
	}
	switch {
	case b.finished.Load():
		return
	case b.broken.Load() != nil, b.expects && !b.begun.Load():
		wait = 0 // no more will arrive
	}
	b.mu.Lock()
	b.closes = time.Now().Add(wait)
	b.mu.Unlock()
	if wait == 0 || b.begun.Load() || !b.skip() {
		h.Set("Connection", "close")
	}
}

// skip reads the rest of a body that no other code has begun to read, and reports whether it reached the end.
func (b *Body) skip() bool {
	if b.length > maxRest {
		return false
	}
	b.reading.Lock()
	defer b.reading.Unlock()
	b.begun.Store(true)
	b.setDeadline(b.closes)
	_, err := io.CopyN(io.Discard, b.server, maxRest+1)
	b.setDeadline(time.Time{})
	b.finished.Store(errors.Is(err, io.EOF))
	return b.finished.Load()
}

// End must be called before the handler returns. It interrupts a read in progress, and sets a deadline for net/http,
// which may have to read some of the rest.
func (b *Body) End() {
	if b.server == nil {
		return
	}
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	if b.finished.Load() {
		return
	}
	client := http.NewResponseController(b.writer)
	client.SetReadDeadline(time.Unix(1, 0)) // for a transport that is still reading
	b.reading.Lock()
	defer b.reading.Unlock()
	if !b.http1 || b.finished.Load() {
		return
	}
	if b.closes.IsZero() {
		b.closes = time.Now().Add(restWithin)
	}
	client.SetReadDeadline(b.closes)
}
