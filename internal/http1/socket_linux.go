//go:build linux && !race

package http1

import (
	"errors"
	"io"
	"net"
	"syscall"
	"unsafe"
)

// A socket reads from and writes to a connection without telling Go's scheduler about the system calls. Sockets do not
// block, so the scheduler need not be ready to run others meanwhile. That costs processor time, most of all on a
// machine that is busy: there the scheduler takes the processor from a goroutine whose call takes a few microseconds.
//
// With the race detector the net package reads and writes: it knows that what was written happened before it is read.
type socket struct {
	net.Conn
	raw     syscall.RawConn // nil: only the net package can read and write
	in, out transfer
}

// A transfer is one direction of a socket.
type transfer struct {
	number  uintptr // of the system call
	p       []byte
	n       int
	err     error
	attempt func(fd uintptr) bool // as RawConn calls it; made once
}

func (s *socket) init(c net.Conn) {
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
func (s *socket) Read(p []byte) (int, error) {
	if s.raw == nil || len(p) == 0 {
		return s.Conn.Read(p)
	}
	t := &s.in
	t.p, t.n, t.err = p, 0, nil
	return t.result("read", s.raw.Read(t.attempt))
}

// Write implements net.Conn.
func (s *socket) Write(p []byte) (int, error) {
	if s.raw == nil {
		return s.Conn.Write(p)
	}
	t := &s.out
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
