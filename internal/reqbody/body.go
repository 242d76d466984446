// Package reqbody bounds how long the body of a request can hold a connection: while it is read, by a
// timeout between pieces and a minimum rate, and after the response, if nobody has read it.
//
// net/http by itself reads up to 256 KiB of an unread body before it sends the response or closes the
// connection, and waits for it without a deadline unless Server.ReadTimeout is set.
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

// Options bound how long a client may take. Only time in which somebody waits for the client counts.
type Options struct {
	Wait time.Duration // for the next piece of the body; 0: any

	// Total is for the whole body until the response begins. Each second's worth of bytes at Rate
	// extends it by a second. 0: any.
	Total time.Duration
	Rate  int64 // bytes per second; 0: nothing extends Total
}

const (
	// maxRest is how much of an unread body is read so that the connection can be used again.
	maxRest = 64 << 10

	// restWithin is how long the client may take to send the rest of an unread body.
	restWithin = 5 * time.Second
)

// A Body is the body of a request to a server. Start prepares it, Respond must be called before the
// response begins, and End before the handler returns. A transport may read it meanwhile.
type Body struct {
	options Options
	server  io.Reader // net/http's own
	source  io.Reader // with a limit, if there is one
	writer  http.ResponseWriter
	http1   bool
	length  int64 // as announced; -1: unknown
	expects bool  // the client waits for 100 Continue

	begun     atomic.Bool // somebody has read of it
	finished  atomic.Bool // it was read to its end
	responded atomic.Bool
	broken    atomic.Pointer[error]

	mu     sync.Mutex // deadlines are set with it; after ended they are End's
	ended  bool
	closes time.Time // when an unread rest is given up

	reading sync.Mutex // held by Read
	waited  time.Duration
	bytes   int64
}

// Start makes b the body of a request. The request is the server's, with the body it came with.
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

// Begun reports whether anything of the body was read.
func (b *Body) Begun() bool { return b.begun.Load() }

// Err returns what made reading the body fail, nil if nothing did.
func (b *Body) Err() error {
	if err := b.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// Read implements io.Reader. Deadlines are set for each piece and taken back afterwards: one that
// passes while nobody waits for the client would end an HTTP/2 stream, or look as if the client had
// left.
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
	b.waited += time.Since(start)
	b.bytes += int64(n)
	switch {
	case errors.Is(err, io.EOF):
		b.finished.Store(true)
	case err != nil:
		b.broken.CompareAndSwap(nil, &err)
	}
	return n, err
}

// deadline returns the one for a piece that is waited for from now on; zero: none.
func (b *Body) deadline(now time.Time) time.Time {
	o, wait, bounded := &b.options, b.options.Wait, b.options.Wait > 0
	if o.Total > 0 && !b.responded.Load() {
		left := o.Total - b.waited
		if o.Rate > 0 {
			left += time.Duration(float64(b.bytes) / float64(o.Rate) * float64(time.Second))
		}
		if left = max(left, 0); !bounded || left < wait {
			wait, bounded = left, true
		}
	}
	if !bounded {
		return time.Time{}
	}
	return now.Add(wait)
}

// setDeadline returns false after End.
func (b *Body) setDeadline(at time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		http.NewResponseController(b.writer).SetReadDeadline(at) // not every writer has deadlines
	}
	return !b.ended
}

// Close does nothing: a transport closes the body of a request that it could not send, and another
// attempt may follow. In the end net/http closes the body it made.
func (b *Body) Close() error { return nil }

// Respond prepares for a response that begins. If the body is not at its end, the rest is read, as far
// as nobody has begun to, it is small, and arrives soon. Otherwise the connection ends with the
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
		wait = 0 // nothing more is to be expected
	}
	b.mu.Lock()
	b.closes = time.Now().Add(wait)
	b.mu.Unlock()
	if wait == 0 || b.begun.Load() || !b.skip() {
		h.Set("Connection", "close")
	}
}

// skip reads the rest of a body that nobody has begun to read, and reports whether it came to the end.
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

// End is called before the handler returns. It ends a read that is under way and leaves net/http, which
// reads what it may have to of the rest, a deadline for that.
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
	client.SetReadDeadline(time.Unix(1, 0)) // for a transport that still reads
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
