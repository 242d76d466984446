package race

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"
	"time"
)

// echo answers every connection with what it sent.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(c, c)
				c.(*net.TCPConn).CloseWrite()
			}()
		}
	}()
	return l.Addr().String()
}

func through(t *testing.T, target string, roundTrip time.Duration) *net.TCPConn {
	t.Helper()
	p, err := NewDelayProxy(target, roundTrip)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close proxy: %v", err)
		}
	})
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// fastest returns the shortest of several one-byte exchanges: the delay of the wire alone.
func fastest(t *testing.T, c net.Conn) time.Duration {
	t.Helper()
	best := time.Hour
	for range 20 {
		start := time.Now()
		if _, err := c.Write([]byte{'x'}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	return best
}

func TestDelayProxyDelays(t *testing.T) {
	target := echo(t)
	for _, roundTrip := range []time.Duration{time.Millisecond, 20 * time.Millisecond} {
		if got := fastest(t, through(t, target, roundTrip)); got < roundTrip {
			t.Errorf("fastest exchange over %v of round trip took %v, want no less", roundTrip, got)
		}
	}
}

// Many writes in flight share one delay: together they take far less than one exchange each. Yielding between
// writes makes them travel as separate chunks.
func TestDelayProxyIsNotABrake(t *testing.T) {
	const writes, roundTrip = 2000, 50 * time.Millisecond // half a minute and more are between the two
	c := through(t, echo(t), roundTrip)
	one := fastest(t, c)
	start := time.Now()
	for range writes {
		if _, err := c.Write([]byte{'x'}); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	if _, err := io.ReadFull(c, make([]byte, writes)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > writes/2*one {
		t.Errorf("%d writes in flight took %v, one exchange %v: each waited for the one before", writes, took, one)
	}
}

func TestDelayProxyKeepsBytes(t *testing.T) {
	c := through(t, echo(t), 2*time.Millisecond)
	sent := make([]byte, 8<<20)
	random := rand.NewChaCha8(sha256.Sum256([]byte("keeps bytes")))
	random.Read(sent)
	go func() {
		c.Write(sent)
		c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("sent %d bytes, received %d different ones", len(sent), len(got))
	}
}

// A receiver that does not read delays no other connection of the same proxy.
func TestDelayProxySlowReceiverHoldsUpNobody(t *testing.T) {
	p, err := NewDelayProxy(echo(t), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	deaf, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	if _, err := deaf.Write(make([]byte, 32<<20)); err != nil { // far more than the sockets hold
		t.Fatal(err)
	}
	other, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	fastest(t, other) // hangs if the proxy waits for the other connection
}

func TestDelayProxyRefusesNegativeRoundTrip(t *testing.T) {
	if _, err := NewDelayProxy("127.0.0.1:1", -time.Millisecond); err == nil {
		t.Error("a negative round trip was accepted")
	}
}

func TestDelayProxyClosesClientWhenTargetIsGone(t *testing.T) {
	c := through(t, "127.0.0.1:1", 0)
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes from a target that is gone", n)
	}
}
