//go:build linux && !race

package rawconn

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"unsafe"
)

// A Socket reads from and writes to a connection without telling Go's scheduler about the system calls. Sockets do not
// block, so the scheduler need not be ready to run others meanwhile. That costs processor time, most of all on a
// machine that is busy: there the scheduler takes the processor from a goroutine whose call takes a few microseconds.
//
// With the race detector, and without Init, the methods of Conn read and write: the net package knows that what was
// written happened before it is read.
type Socket struct {
	net.Conn
	raw     syscall.RawConn // nil: only the net package can read and write
	in, out transfer
}

// A transfer is one direction of a socket.
type transfer struct {
	sync.Mutex         // one call at a time, as with the net package
	number     uintptr // of the system call
	p          []byte
	n          int
	err        error
	attempt    func(fd uintptr) bool // as RawConn calls it; made once
}

// Init makes the socket that of a connection. A connection that gives its socket (syscall.Conn) is read and written
// there, not by its own methods.
func (s *Socket) Init(c net.Conn) {
	s.Conn, s.raw = c, rawOf(c)
	s.in.number, s.out.number = syscall.SYS_READ, syscall.SYS_WRITE
	s.in.attempt, s.out.attempt = s.in.read, s.out.write
}

// read reads once. It returns false to wait until there is something to read.
func (t *transfer) read(fd uintptr) bool {
	if !t.call(fd) {
		return false
	}
	if t.n == 0 && t.err == nil {
		t.err = io.EOF
	}
	return true
}

// write writes everything, or returns false to wait until more can be written.
func (t *transfer) write(fd uintptr) bool {
	for t.n < len(t.p) && t.err == nil {
		if !t.call(fd) {
			return false
		}
	}
	return true
}

// call does the system call for what is left of p. It returns false if it would block.
func (t *transfer) call(fd uintptr) bool {
	for {
		p := t.p[t.n:]
		n, _, failure := syscall.RawSyscall(t.number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		switch failure {
		case 0:
			t.n += int(n)
		case syscall.EAGAIN:
			return false
		case syscall.EINTR:
			continue
		default:
			t.err = failure
		}
		return true
	}
}

// Read implements net.Conn.
func (s *Socket) Read(p []byte) (int, error) {
	if s.raw == nil || len(p) == 0 {
		return s.Conn.Read(p)
	}
	t := &s.in
	t.Lock()
	defer t.Unlock()
	t.p, t.n, t.err = p, 0, nil
	return t.result("read", s.raw.Read(t.attempt))
}

// Write implements net.Conn.
func (s *Socket) Write(p []byte) (int, error) {
	if s.raw == nil {
		return s.Conn.Write(p)
	}
	t := &s.out
	t.Lock()
	defer t.Unlock()
	t.p, t.n, t.err = p, 0, nil
	return t.result("write", s.raw.Write(t.attempt))
}

// result returns what was transferred. Errors are those of the net package: of the connection, such as a deadline, and
// of the system call.
func (t *transfer) result(op string, err error) (int, error) {
	t.p = nil
	if err == nil && t.err != nil && !errors.Is(t.err, io.EOF) {
		err = &net.OpError{Op: op, Net: "tcp", Err: t.err}
	}
	if err == nil {
		err = t.err
	}
	return t.n, err
}
