package lab

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/redistest"
)

// fake gives configured answers: the tests are about the loads, not a limiter.
func fake(take func() (bool, error)) Limiter {
	return Shared(func(context.Context, string) (bool, error) { return take() })
}

var errBroken = errors.New("broken")

func broken() (bool, error)  { return false, errBroken }
func denying() (bool, error) { return false, nil }

func TestLoadsRefuseToMeasureTheWrongThing(t *testing.T) {
	load := Load{ClosedLoop: ClosedLoop{Callers: 2}, Keys: Keys(3)} // for no time, in which every caller sends one request
	loop := OpenLoop{PerSecond: 1000, Duration: 50 * time.Millisecond, Keys: Keys(1)}
	for name, run := range map[string]func(Limiter) error{
		"closed": func(l Limiter) error { _, err := load.Run(t.Context(), l); return err },
		"open":   func(l Limiter) error { _, err := loop.Run(t.Context(), l); return err },
	} {
		if run(fake(denying)) == nil {
			t.Errorf("%s: denied calls were counted as a benchmark of passing ones", name)
		}
		if err := run(fake(broken)); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v, want the limiter's error", name, err)
		}
	}
	if err := Warm(t.Context(), fake(broken), Keys(3)); !errors.Is(err, errBroken) {
		t.Errorf("warm: %v, want the limiter's error", err)
	}
	load.MayGiveUp = true
	if _, err := load.Run(t.Context(), fake(broken)); err == nil {
		t.Error("a load of which every call failed was measured")
	}
	load.Requests = 5
	served, err := load.Run(t.Context(), fake(func() (bool, error) { return true, nil }))
	if err != nil || served.Decisions != 10 || served.Latency.TotalCount() != 10 || served.PerSecond() <= 0 {
		t.Errorf("served %d, %d latencies, %v/s, %v", served.Decisions, served.Latency.TotalCount(), served.PerSecond(), err)
	}
}

// A server that stalls delays every request that is due meanwhile. A load that waits for its responses would send
// one request here, and wait forever.
func TestOpenLoopDoesNotWait(t *testing.T) {
	const calls, gap = 100, time.Millisecond
	var missing atomic.Int64
	missing.Store(calls)
	open := make(chan struct{})
	loop := OpenLoop{PerSecond: float64(time.Second / gap), Duration: calls * gap, Keys: Keys(1)}
	w, err := loop.Run(t.Context(), fake(func() (bool, error) {
		if missing.Add(-1) == 0 {
			close(open)
		}
		<-open
		return true, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	const counted = calls - calls/10
	if w.Latency.TotalCount() != counted || w.Late.TotalCount() != counted {
		t.Errorf("%d calls begun, %d answered, want %d", w.Late.TotalCount(), w.Latency.TotalCount(), counted)
	}
	// The first counted request was due before all others, and was answered after the last was due.
	if longest := time.Duration(w.Latency.Max()); longest < (counted-1)*gap {
		t.Errorf("the first call waited %v, want at least the %v of the schedule", longest, (counted-1)*gap)
	}
}

// A section ends at its first error, with the step that it was at, after its cleanups.
func TestRun(t *testing.T) {
	var cleaned []int
	err := Bench{Context: t.Context(), Name: "name", Stderr: os.Stderr}.Run(func(b *Bench) {
		b.Cleanup(func() { cleaned = append(cleaned, 1) })
		b.Scope(func() { b.Cleanup(func() { cleaned = append(cleaned, 0) }) })
		b.Cleanup(func() { cleaned = append(cleaned, 2) })
		b.Step("step %d", 1)
		Check(errBroken)
	})
	if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "name: step 1") || len(cleaned) != 3 || cleaned[0] != 0 || cleaned[1] != 2 {
		t.Errorf("%v, cleanups %v", err, cleaned)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (Bench{Context: ctx}).Run(func(b *Bench) { b.Step("step") }); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted section: %v", err)
	}
}

func TestCPU(t *testing.T) {
	before, err := CPU(os.Getpid())
	for after := before; err == nil && after <= before; { // it continues during this
		after, err = CPU(os.Getpid())
	}
	if err != nil {
		t.Error(err)
	}
	if got, err := CPU(1 << 30); err == nil {
		t.Errorf("of nobody: %v", got)
	}
}

func TestInfoNamesWhatIsMissing(t *testing.T) {
	server := Redis{redistest.Start(t)}
	if v := server.Info("server", "redis_version"); v == "" {
		t.Error("redis_version is empty")
	}
	err := Bench{Context: t.Context()}.Run(func(*Bench) { server.Info("server", "no_such_field") })
	if err == nil || !strings.Contains(err.Error(), "no_such_field") {
		t.Errorf("got %v, want an error that names the field", err)
	}
}

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
	var open net.Conn
	if err := (Bench{Context: t.Context()}).Run(func(b *Bench) {
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
		open = Must(net.Dial("tcp", addr))
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := open.Read(make([]byte, 1)); err == nil {
		t.Error("a connection is open after the end")
	}
}
