package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"sync"
	"time"

	"github.com/penstock-io/penstock/internal/rawconn"
)

// A Client sends common requests to one server, over HTTP/1.1 without TLS, for less than an http.Transport: the
// goroutine of the request writes and reads itself. With RoundTrip, net/http writes the requests and reads the
// responses, so both are those of an http.Transport. Requests for which Suits returns false are left to one. A Call is
// for less again.
type Client struct {
	options ClientOptions

	mu       sync.Mutex
	idle     []*clientConn // last used last
	sweeping bool          // a timer will close what has been idle for too long
}

// ClientOptions configure a client. All are required, except ResponseHeader.
type ClientOptions struct {
	Dial           func(ctx context.Context) (net.Conn, error)
	ResponseHeader time.Duration // from the end of a request to the response's head, or up to 1/16 longer; 0: unlimited
	MaxHeaderBytes int64         // of a response
	MaxIdle        int           // connections
	Idle           time.Duration // of a connection between two requests
}

// NewClient returns a client.
func NewClient(o ClientOptions) *Client { return &Client{options: o} }

// Suits reports whether the client can send a request: one without a body that can be sent again if the server closes
// an idle connection at the same time.
func (c *Client) Suits(req *http.Request) bool {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		return false
	}
	if req.Body != nil && req.Body != http.NoBody || req.ContentLength != 0 || req.Close || req.Trailer != nil || req.TransferEncoding != nil {
		return false
	}
	for _, name := range [...]string{"Connection", "Upgrade", "Expect", "Te", "Trailer", "Transfer-Encoding", "Content-Length"} {
		if req.Header[name] != nil {
			return false
		}
	}
	return true
}

// RoundTrip sends a request. It tries another connection if an idle one was closed before any part of the response
// arrived, as an http.Transport does.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	trace := httptrace.ContextClientTrace(ctx)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		conn, err := c.connect(ctx)
		if err != nil {
			return nil, err
		}
		if trace != nil && trace.GotConn != nil {
			trace.GotConn(httptrace.GotConnInfo{Conn: conn.Conn, Reused: conn.isReused})
		}
		conn.watch(ctx)
		res, err := conn.exchange(req, trace)
		if err == nil {
			return res, nil
		}
		conn.end(false)
		if cancelled := ctx.Err(); cancelled != nil {
			return nil, cancelled
		}
		if !errors.Is(err, ErrNoResponse) || !conn.isReused {
			return nil, err
		}
	}
}

// ErrNoResponse says that a connection ended before any part of a response.
var ErrNoResponse = errors.New("the server closed the connection without a response")

// connect returns an idle connection, or a new one.
func (c *Client) connect(ctx context.Context) (*clientConn, error) {
	if conn := c.reuse(); conn != nil {
		return conn, nil
	}
	dialled, err := c.options.Dial(ctx)
	if err != nil {
		return nil, err
	}
	conn := &clientConn{client: c}
	conn.Init(dialled)
	conn.reader = bufio.NewReader((*headReader)(conn))
	return conn, nil
}

// reuse returns an idle connection, or nil.
func (c *Client) reuse() *clientConn {
	for {
		conn := c.take()
		if conn == nil {
			return nil
		}
		if conn.isQuiet() && time.Since(conn.since) < c.options.Idle {
			conn.isReused = true
			return conn
		}
		conn.Close()
	}
}

func (c *Client) take() *clientConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.idle)
	if n == 0 {
		return nil
	}
	conn := c.idle[n-1]
	c.idle[n-1] = nil
	c.idle = c.idle[:n-1]
	return conn
}

// put keeps a connection for the next request. It returns false if there are enough.
func (c *Client) put(conn *clientConn) bool {
	conn.since = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) >= c.options.MaxIdle {
		return false
	}
	c.idle = append(c.idle, conn)
	if !c.sweeping {
		c.sweeping = true
		time.AfterFunc(c.options.Idle, c.sweep)
	}
	return true
}

// sweep closes the connections that have been idle for too long.
func (c *Client) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < len(c.idle) && time.Since(c.idle[n].since) >= c.options.Idle {
		c.idle[n].Close()
		n++
	}
	c.idle = append(c.idle[:0:0], c.idle[n:]...)
	if c.sweeping = len(c.idle) > 0; c.sweeping {
		time.AfterFunc(c.options.Idle-time.Since(c.idle[0].since), c.sweep)
	}
}

// CloseIdle closes the connections that are not in use.
func (c *Client) CloseIdle() {
	for conn := c.take(); conn != nil; conn = c.take() {
		conn.Close()
	}
}

// A clientConn is a connection to a server. It can be used again only if it is a socket.
type clientConn struct {
	rawconn.Socket
	client   *Client
	reader   *bufio.Reader // of a headReader
	request  requestBuffer
	since    time.Time // it is idle
	isReused bool

	peek     func(fd uintptr) // sets isSilent; made once
	isSilent bool             // there is nothing to read

	left      int64 // bytes that may be read before the head has ended
	readUntil time.Time
	watching
}

// A requestBuffer is a request as it is sent. It has io.ByteWriter, so that net/http does not buffer it once more.
type requestBuffer []byte

func (b *requestBuffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

func (b *requestBuffer) WriteByte(c byte) error {
	*b = append(*b, c)
	return nil
}

var errHeadTooLong = errors.New("the head of the response is too long")

// A headReader is a clientConn that limits how long a head can be.
type headReader clientConn

func (c *headReader) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHeadTooLong
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.Socket.Read(p)
	c.left -= int64(n)
	return n, err
}

// exchange sends the request and reads the head of the response.
func (c *clientConn) exchange(req *http.Request, trace *httptrace.ClientTrace) (*http.Response, error) {
	c.request = c.request[:0]
	if err := req.Write(&c.request); err != nil {
		return nil, err
	}
	if err := c.send(); err != nil {
		return nil, err
	}
	return c.receive(req, trace)
}

// send sends what is in the buffer, and waits for the first part of the response.
func (c *clientConn) send() error {
	if _, err := c.Write(c.request); err != nil {
		return fmt.Errorf("send the request: %w: %w", ErrNoResponse, err)
	}
	c.left = c.client.options.MaxHeaderBytes
	c.limitHead()
	runtime.Gosched() // see readHead
	if _, err := c.reader.Peek(1); err != nil {
		if isDeadline(err) {
			return fmt.Errorf("wait for the response: %w", err)
		}
		return fmt.Errorf("%w: %w", ErrNoResponse, err)
	}
	return nil
}

// receive returns the response, whose first part has arrived.
func (c *clientConn) receive(req *http.Request, trace *httptrace.ClientTrace) (*http.Response, error) {
	res, err := c.readResponse(req, trace)
	if err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	c.left = math.MaxInt64
	isLast := res.Close || res.StatusCode < 200
	if req.Method == http.MethodHead || res.ContentLength == 0 {
		res.Body.Close()
		res.Body = http.NoBody
		c.end(!isLast)
		return res, nil
	}
	c.beginBody(res.ContentLength)
	res.Body = &clientBody{ReadCloser: res.Body, conn: c, ctx: req.Context(), isLast: isLast}
	return res, nil
}

// beginBody lifts the deadline if a part of the body is still to come: it may take its time.
func (c *clientConn) beginBody(length int64) {
	if int64(c.reader.Buffered()) < length || length < 0 {
		c.limitRead(time.Time{})
	}
}

// readResponse reads the heads of all responses up to the final one.
func (c *clientConn) readResponse(req *http.Request, trace *httptrace.ClientTrace) (*http.Response, error) {
	for {
		res, err := http.ReadResponse(c.reader, req)
		if err != nil || res.StatusCode < 100 || res.StatusCode >= 200 || res.StatusCode == http.StatusSwitchingProtocols {
			return res, err
		}
		if trace != nil && trace.Got1xxResponse != nil {
			if err := trace.Got1xxResponse(res.StatusCode, textproto.MIMEHeader(res.Header)); err != nil {
				return nil, err
			}
			c.left = c.client.options.MaxHeaderBytes // who gets these responses limits their number, as in net/http
		}
	}
}

// limitHead limits the time until the head of the response has arrived. The deadline is moved only if it is too early:
// moving it costs as much as writing a request.
func (c *clientConn) limitHead() {
	limit := c.client.options.ResponseHeader
	if limit == 0 {
		c.limitRead(time.Time{})
		return
	}
	now := time.Now()
	if left := c.readUntil.Sub(now); c.readUntil.IsZero() || left < limit {
		c.limitRead(now.Add(limit + limit/16))
	}
}

// limitRead sets the read deadline, unless the connection is interrupted.
func (c *clientConn) limitRead(until time.Time) {
	if until.IsZero() && c.readUntil.IsZero() {
		return
	}
	c.readUntil = until
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.interrupted {
		c.SetReadDeadline(until) // reading fails if this does
	}
}

// end ends a request. The connection is kept if it can be used again.
func (c *clientConn) end(reusable bool) {
	isLive := c.unwatch()
	if !reusable || !isLive || c.Raw() == nil || c.reader.Buffered() > 0 || !c.client.put(c) {
		c.Close()
	}
}

func isDeadline(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// A clientBody is the body of a response. At its end the connection can be used again.
type clientBody struct {
	io.ReadCloser
	conn   *clientConn
	ctx    context.Context
	isLast bool
	once   sync.Once // ends the request
}

func (b *clientBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		whole := errors.Is(err, io.EOF)
		if cancelled := b.ctx.Err(); cancelled != nil && !whole {
			err = cancelled
		}
		b.end(whole)
	}
	return n, err
}

// Close closes the connection if the body has not been read to its end.
func (b *clientBody) Close() error {
	b.end(false)
	return nil
}

func (b *clientBody) end(whole bool) {
	b.once.Do(func() { b.conn.end(whole && !b.isLast) })
}
