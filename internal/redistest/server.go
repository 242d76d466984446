package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/child"
)

// startLimit bounds the wait for one server to answer, unless the caller's context ends sooner.
const startLimit = time.Minute

// errPortTaken means that another process bound the port after it was checked and before the server bound
// it.
var errPortTaken = errors.New("port was taken by another process")

// Server is a running redis-server. Its methods are safe for concurrent use.
type Server struct {
	Addr string // 127.0.0.1:port; the same after Restart

	claim
	dir  string   // configuration, log and working directory
	args []string // after the configuration file on the command line

	mu     sync.Mutex
	proc   *child.Process // nil before the first start
	closed bool
}

// Launch starts a server with extra redis-server arguments, e.g. "--maxmemory", "1mb", and returns when it
// answers. The context bounds the start, not the server's life, which ends with Close.
func Launch(ctx context.Context, args ...string) (*Server, error) {
	return launch(ctx, "save \"\"\nappendonly no\n", args...)
}

// Start is Launch for a test. The test fails if the server cannot start, and closes the server when it
// ends. It is skipped only under `make unit`: a suite that passes without its server proves nothing.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	child.SkipUnit(t)
	s, err := Launch(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, s.Close)
	return s
}

func closeAfter(t testing.TB, close func() error) {
	t.Cleanup(func() {
		if err := close(); err != nil {
			t.Error(err)
		}
	})
}

// launch starts a server whose configuration file has the given lines in addition to those for its port and
// directory.
func launch(ctx context.Context, config string, args ...string) (*Server, error) {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		s, err := create(config, args)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		err = s.startLocked(ctx)
		s.mu.Unlock()
		if err == nil {
			return s, nil
		}
		err = errors.Join(err, s.Close())
		if !errors.Is(err, errPortTaken) || attempt == attempts {
			return nil, err
		}
	}
}

// create prepares the port and the directory of a server without starting it.
func create(config string, args []string) (*Server, error) {
	claim, err := claimPort()
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: loopback(claim.port), claim: claim, args: args}
	if s.dir, err = os.MkdirTemp("", "penstock-redis-"); err != nil {
		return nil, errors.Join(fmt.Errorf("create a directory for redis-server: %w", err), s.Close())
	}
	config = fmt.Sprintf("bind 127.0.0.1\nport %d\ndir %q\n%s", s.port, s.dir, config)
	if err := os.WriteFile(s.configFile(), []byte(config), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("configure redis-server: %w", err), s.Close())
	}
	return s, nil
}

func (s *Server) configFile() string { return filepath.Join(s.dir, "redis.conf") }
func (s *Server) logFile() string    { return filepath.Join(s.dir, "log") }

func (s *Server) startLocked(ctx context.Context) error {
	binary, err := findBinary()
	if err != nil {
		return err
	}
	s.proc, err = child.Start(exec.Command(binary, append([]string{s.configFile()}, s.args...)...), s.logFile())
	if err != nil {
		return fmt.Errorf("start %s: %w", binary, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := s.awaitReady(ctx); err != nil {
		s.proc.Kill()
		return fmt.Errorf("start %s on %s: %w\n%s", binary, s.Addr, err, child.LogTail(s.logFile()))
	}
	return nil
}

// Prefer makes the kernel run the server before ordinary processes, for tests that are about a busy machine
// and not about a slow server. It reports whether this user is allowed to do that.
func (s *Server) Prefer() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return exec.Command("chrt", "--rr", "--pid", "1", strconv.Itoa(s.proc.Pid())).Run() == nil
}

// awaitReady waits until this server answers on its port: another process may have bound the port first.
func (s *Server) awaitReady(ctx context.Context) error {
	ours := "config_file:" + s.configFile()
	var last error
	for {
		if s.proc.Exited() {
			if strings.Contains(child.LogTail(s.logFile()), "Address already in use") {
				return errPortTaken
			}
			return errors.New("it exited before it answered")
		}
		info, err := s.whoAnswers(ctx)
		switch {
		case err == nil && strings.Contains(info, ours):
			return nil
		case err == nil:
			last = errors.New("a server we did not start answers there")
		case strings.Contains(err.Error(), "NOAUTH"):
			return nil // started with a password: it serves, but we cannot ask whose it is
		default:
			last = err
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%w; last: %w", err, last)
		}
	}
}

// whoAnswers does not wait forever: a process that took the port may never answer, and by then our server
// has ended.
func (s *Server) whoAnswers(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return command(ctx, s.Addr, "INFO", "server")
}

// pause waits for d or until ctx ends, and returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Pid returns the process id, or 0 if the server is not running.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || s.proc.Exited() {
		return 0
	}
	return s.proc.Pid()
}

// Kill kills the server (SIGKILL), as a crash would, and returns when it is gone. It keeps its port, so
// Restart brings it back where clients expect it. Killing a dead server is not an error.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.Kill()
	}
	return nil
}

// Restart kills the server if it is running and starts it again on the same port. Its data is lost, because
// nothing is saved.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("restart redis-server on %s: it is closed", s.Addr)
	}
	s.proc.Kill()
	return s.startLocked(context.Background())
}

// Pause stops the server (SIGSTOP): it keeps its connections, accepts new ones in the kernel, and answers nothing.
func (s *Server) Pause() error { return s.signal("pause", syscall.SIGSTOP) }

// Resume continues a paused server, which then answers what arrived while it was paused.
func (s *Server) Resume() error { return s.signal("resume", syscall.SIGCONT) }

func (s *Server) signal(verb string, sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || s.proc.Exited() {
		return fmt.Errorf("%s redis-server on %s: it is not running", verb, s.Addr)
	}
	if err := s.proc.Signal(sig); err != nil {
		return fmt.Errorf("%s redis-server on %s: %w", verb, s.Addr, err)
	}
	return nil
}

// Close kills the server and removes its data. Closing twice is not an error.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.proc != nil {
		s.proc.Kill()
	}
	s.release()
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("remove the data of redis-server on %s: %w", s.Addr, err)
	}
	return nil
}
