package lab

import (
	"net"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Delay starts a proxy for a TCP server until the end of the scope, and returns its address. It delays every byte by
// half the round trip in each direction. Bytes keep their order and their pace, so a pipeline of a hundred commands
// waits once, as on a long wire.
func (b *Bench) Delay(target string, roundTrip time.Duration) (addr string) {
	l := Must(net.Listen("tcp", "127.0.0.1:0"))
	// A goroutine that sleeps in the kernel keeps its processor of the runtime for a while. Without others, more than
	// two connections would wait for each other.
	const sleepers = 64
	procs := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(procs + sleepers)
	b.Cleanup(func() { runtime.GOMAXPROCS(procs) })
	var pumps sync.WaitGroup
	done := make(chan struct{})
	b.Cleanup(func() {
		_ = l.Close()
		close(done) // closes every connection
		pumps.Wait()
	})
	connect := func(client net.Conn) {
		server, err := net.Dial("tcp", target)
		if err != nil {
			client.Close() // as when a server fails
			return
		}
		pumps.Go(func() { pump(server, client, roundTrip/2) })
		pumps.Go(func() { pump(client, server, roundTrip/2) })
		pumps.Go(func() {
			<-done
			client.Close()
			server.Close()
		})
	}
	pumps.Go(func() {
		for client, err := l.Accept(); err == nil; client, err = l.Accept() {
			connect(client)
		}
	})
	return l.Addr().String()
}

type chunk struct {
	data []byte
	due  time.Time
}

// pump moves bytes one way. It keeps reading while earlier chunks are in transit, so it adds delay without reducing
// throughput. The end of the stream is delayed like bytes.
func pump(to, from net.Conn, delay time.Duration) {
	wire := make(chan chunk, 4096)
	go func() {
		defer close(wire)
		for {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			wire <- chunk{buf[:n], time.Now().Add(delay)}
			if err != nil {
				return
			}
		}
	}()
	for c := range wire {
		for wait := time.Until(c.due); wait > 0; wait = time.Until(c.due) {
			Sleep(wait)
		}
		if _, err := to.Write(c.data); err != nil {
			from.Close() // there is no receiver
		}
	}
	_ = to.(*net.TCPConn).CloseWrite()
}

// Sleep sleeps in the kernel, which is late by about 50 µs. A signal may end it early. It is select because every Unix
// has that.
func Sleep(d time.Duration) {
	t := unix.NsecToTimeval(d.Nanoseconds())
	_, _ = unix.Select(0, nil, nil, nil, &t)
}
