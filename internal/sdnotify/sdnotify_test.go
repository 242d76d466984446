package sdnotify

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// listen is systemd's side.
func listen(t *testing.T) (path string, next func() string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") // short: the path of a socket is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path = filepath.Join(dir, "s")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return path, func() string {
		t.Helper()
		if err := socket.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 4096)
		n, err := socket.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		return string(buffer[:n])
	}
}

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// A service starts, reloads and stops.
func TestSupervise(t *testing.T) {
	path, next := listen(t)
	var ready atomic.Bool
	reloads := 0
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Supervise(ctx, Options{
			Ready: func() error {
				if !ready.Swap(true) {
					return errors.New("not yet")
				}
				return nil
			},
			Reload: func() { reloads++ },
			Log:    slog.New(slog.DiscardHandler), Getenv: env("NOTIFY_SOCKET", path),
		})
	}()
	if got := next(); got != "READY=1" {
		t.Errorf("at the start: %q", got)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if got := next(); !strings.HasPrefix(got, "RELOADING=1") {
		t.Errorf("at SIGHUP: %q", got)
	}
	if got := next(); got != "READY=1" {
		t.Errorf("after the reload: %q", got)
	}
	stop()
	if got := next(); got != "STOPPING=1" {
		t.Errorf("at the end: %q", got)
	}
	<-ended
	if reloads != 1 {
		t.Errorf("reloaded %d times", reloads)
	}
}

// Signs of life come again and again, also while the service is not ready.
func TestWatchdogIsFed(t *testing.T) {
	path, next := listen(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Supervise(ctx, Options{
			Ready: func() error { return errors.New("never") }, Reload: func() {},
			Log: slog.New(slog.DiscardHandler), Getenv: env("NOTIFY_SOCKET", path, "WATCHDOG_USEC", "20000"),
		})
	}()
	for range 3 {
		if got := next(); got != "WATCHDOG=1" {
			t.Errorf("got %q", got)
		}
	}
	stop()
	<-ended
}

func TestWatchdog(t *testing.T) {
	for _, test := range []struct {
		microseconds, pid string
		want              time.Duration
	}{
		{"30000000", "", 30 * time.Second},
		{"30000000", "7", 30 * time.Second},
		{"30000000", "8", 0},
		{"", "", 0},
		{"many", "", 0},
		{"0", "", 0},
		{"-5", "", 0},
		{"99999999999999999", "", 0},
	} {
		if got := watchdog(env("WATCHDOG_USEC", test.microseconds, "WATCHDOG_PID", test.pid), 7); got != test.want {
			t.Errorf("%+v: got %v", test, got)
		}
	}
}

func TestSendFails(t *testing.T) {
	for _, socket := range []string{"", "relative", filepath.Join(t.TempDir(), "none")} {
		if err := Send(socket, "READY=1"); err == nil {
			t.Errorf("%q: no error", socket)
		}
	}
}
