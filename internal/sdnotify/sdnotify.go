// Package sdnotify notifies systemd of the state of a service: ready, reloading, stopping, alive (sd_notify(3)).
// Without systemd it does nothing.
package sdnotify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// Options say what is told, and what a reload does.
type Options struct {
	Ready  func() error // nil: requests can be sent
	Reload func()       // what SIGHUP does
	Log    *slog.Logger
	Getenv func(string) string
}

// Supervise tells systemd when the service is ready, that it is alive, and that it stops as the context ends. It
// reloads on SIGHUP, also without systemd. It returns when the context has ended.
func Supervise(ctx context.Context, o Options) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)

	s := supervisor{Options: o, socket: o.Getenv("NOTIFY_SOCKET")}
	var alive <-chan time.Time
	if interval := watchdog(o.Getenv, os.Getpid()); interval > 0 && s.socket != "" {
		ticker := time.NewTicker(interval / 2)
		defer ticker.Stop()
		alive = ticker.C
	}
	starting := time.NewTicker(50 * time.Millisecond)
	defer starting.Stop()
	for {
		select {
		case <-ctx.Done():
			s.notify("STOPPING=1")
			return
		case <-alive:
			s.notify("WATCHDOG=1")
		case <-starting.C:
			if o.Ready() == nil {
				starting.Stop()
				s.notify("READY=1")
			}
		case <-hangups:
			o.Log.Info("reload requested", "signal", "SIGHUP")
			s.notify("RELOADING=1" + monotonic())
			o.Reload()
			s.notify("READY=1")
		}
	}
}

type supervisor struct {
	Options
	socket string
	failed bool // the socket did, and it was logged
}

func (s *supervisor) notify(state string) {
	if s.socket == "" {
		return
	}
	if err := Send(s.socket, state); err != nil && !s.failed {
		s.failed = true
		s.Log.Warn("cannot notify systemd", "state", state, "error", err)
	}
}

// Send sends a state to a notification socket; @ is its first letter if it is an abstract one.
func Send(socket, state string) error {
	if socket == "" || socket[0] != '/' && socket[0] != '@' {
		return fmt.Errorf("NOTIFY_SOCKET %q is neither a path nor an abstract socket", socket)
	}
	connection, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	_, err = connection.Write([]byte(state))
	return errors.Join(err, connection.Close())
}

// watchdog returns how often systemd wants a sign of life from the process; 0: never.
func watchdog(getenv func(string) string, pid int) time.Duration {
	if of := getenv("WATCHDOG_PID"); of != "" && of != strconv.Itoa(pid) {
		return 0
	}
	microseconds, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || microseconds < 1000 || microseconds > int64(24*time.Hour/time.Microsecond) {
		return 0
	}
	return time.Duration(microseconds) * time.Microsecond
}
