package lab

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// Bytes arrive complete and in order, no sooner than the round trip, and together wait once.
func TestDelay(t *testing.T) {
	echo := Must(net.Listen("tcp", "127.0.0.1:0"))
	defer echo.Close()
	go func() {
		for c, err := echo.Accept(); err == nil; c, err = echo.Accept() {
			go func() {
				_, _ = io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	const roundTrip = 20 * time.Millisecond
	open, err := Run(Bench{Context: t.Context()}, func(b *Bench) net.Conn {
		addr := b.Delay(echo.Addr().String(), roundTrip)
		c := Must(net.Dial("tcp", addr))
		sent := bytes.Repeat([]byte("0123456789"), 50_000)
		began := time.Now()
		go func() {
			_, _ = c.Write(sent)
			_ = c.(*net.TCPConn).CloseWrite()
		}()
		if got := Must(io.ReadAll(c)); !bytes.Equal(got, sent) {
			t.Errorf("%d bytes of %d came back", len(got), len(sent))
		}
		if took := time.Since(began); took < roundTrip {
			t.Errorf("after %v, sooner than %v", took, roundTrip)
		}
		return Must(net.Dial("tcp", addr))
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open.Read(make([]byte, 1)); err == nil {
		t.Error("a connection is open after the end")
	}
}
