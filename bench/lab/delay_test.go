package lab

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// Bytes arrive complete and in order, no sooner than the round trip, and together wait once.
func TestDelayProxy(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	const roundTrip = 20 * time.Millisecond
	p, err := NewDelayProxy(echo.Addr().String(), roundTrip)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	sent := bytes.Repeat([]byte("0123456789"), 50_000)
	began := time.Now()
	go func() {
		_, _ = c.Write(sent)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d came back, %v", len(got), len(sent), err)
	}
	if took := time.Since(began); took < roundTrip {
		t.Errorf("after %v, sooner than %v", took, roundTrip)
	}
	open, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil { // ends open connections, too
		t.Error(err)
	}
	if _, err := open.Read(make([]byte, 1)); err == nil {
		t.Error("a connection is open after Close")
	}
}
