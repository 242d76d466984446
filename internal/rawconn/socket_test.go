package rawconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

// socketPair returns a socket, and the other end of its connection.
func socketPair(t *testing.T) (*Socket, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close() })
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	s := new(Socket)
	s.Init(dialled)
	return s, accepted
}

// A socket writes everything, also what does not fit at once, and reads to the end.
func TestSocket(t *testing.T) {
	s, other := socketPair(t)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	received := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(other)
		received <- all
	}()
	if n, err := s.Write(sent); n != len(sent) || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	s.Conn.(*net.TCPConn).CloseWrite()
	if got := <-received; !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes have arrived", len(got), len(sent))
	}
	go func() {
		io.WriteString(other, "hello")
		other.(*net.TCPConn).CloseWrite()
	}()
	if got, err := io.ReadAll(s); string(got) != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// The errors of a socket are those of the net package.
func TestSocketErrors(t *testing.T) {
	s, _ := socketPair(t)
	var p [1]byte
	s.SetDeadline(time.Unix(1, 0)) // long ago
	if _, err := s.Read(p[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read after the deadline: %v", err)
	}
	if _, err := s.Write(p[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write after the deadline: %v", err)
	}
	s.SetDeadline(time.Time{})
	if n, err := s.Read(nil); n != 0 || err != nil {
		t.Errorf("read nothing: %d, %v", n, err)
	}
	s.Close()
	if _, err := s.Read(p[:]); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after Close: %v", err)
	}
	if _, err := s.Write(p[:]); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after Close: %v", err)
	}

	s, other := socketPair(t)
	other.(*net.TCPConn).SetLinger(0)
	other.Close() // resets the connection
	var op *net.OpError
	if _, err := s.Read(p[:]); !errors.As(err, &op) || op.Op != "read" {
		t.Errorf("read after a reset: %v", err)
	}
	if _, err := s.Write(p[:]); !errors.As(err, &op) || op.Op != "write" {
		t.Errorf("write after a reset: %v", err)
	}
}

// Calls at once take turns: what each writes stays together.
func TestConcurrentWrites(t *testing.T) {
	s, other := socketPair(t)
	const writers, size = 8, 1 << 20
	var writes sync.WaitGroup
	for i := range writers {
		writes.Go(func() {
			if n, err := s.Write(bytes.Repeat([]byte{byte('a' + i)}, size)); n != size || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	go func() {
		writes.Wait()
		s.Conn.(*net.TCPConn).CloseWrite()
	}()
	all, err := io.ReadAll(other)
	if err != nil || len(all) != writers*size {
		t.Fatalf("%d bytes, %v", len(all), err)
	}
	for text := range slices.Chunk(all, size) {
		if !bytes.Equal(text, bytes.Repeat(text[:1], size)) {
			t.Fatalf("a write that begins with %q is interrupted", text[:1])
		}
	}
}

// A connection that does not give its socket is read and written by its own methods.
func TestWrappedConnection(t *testing.T) {
	one, other := net.Pipe()
	defer one.Close()
	defer other.Close()
	s := new(Socket)
	s.Init(one)
	if s.Raw() != nil {
		t.Error("a pipe has a socket")
	}
	go io.WriteString(other, "hello")
	var p [5]byte
	if n, err := s.Read(p[:]); string(p[:n]) != "hello" || err != nil {
		t.Errorf("%q, %v", p[:n], err)
	}
}
