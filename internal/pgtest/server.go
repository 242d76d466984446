package pgtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-io/penstock/internal/child"
)

// startLimit bounds the wait for a server to answer or to end, unless the caller's context ends sooner.
const startLimit = 60 * time.Second

// Server is a running PostgreSQL server. Its methods are safe for concurrent use.
type Server struct {
	URL string // of the database postgres, as the superuser; the same after Restart

	dir      string // data, socket and log
	as       owner
	settings []string

	mu     sync.Mutex
	proc   *child.Process // nil before the first start
	closed bool
}

// Launch starts a server with settings as in postgresql.conf, e.g. "max_connections=5", and returns when it
// answers. The server does not wait for the disk, which matters only in a power failure; "fsync=on" makes
// it wait. The context bounds the start, not the server's life, which ends with Close.
func Launch(ctx context.Context, settings ...string) (*Server, error) {
	s, err := create(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("launch PostgreSQL: %w", err)
	}
	s.mu.Lock()
	err = s.startLocked(ctx)
	s.mu.Unlock()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Start is Launch for a test. The test fails if the server cannot start, and closes the server when it
// ends. It is skipped only under `make unit`: a suite that passes without its server proves nothing.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	child.SkipUnit(t)
	s, err := Launch(t.Context(), settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// create prepares the directory of a server without starting it.
func create(ctx context.Context, settings []string) (*Server, error) {
	as, err := serverOwner()
	if err != nil {
		return nil, err
	}
	s := &Server{as: as, settings: settings}
	if s.dir, err = os.MkdirTemp("", "penstock-postgres-"); err != nil {
		return nil, err
	}
	s.URL = s.databaseURL("postgres")
	err = os.Mkdir(s.dataDir(), 0o700)
	if err == nil {
		err = as.give(s.dir)
	}
	if err == nil {
		err = createData(ctx, s.dataDir(), as)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) dataDir() string { return filepath.Join(s.dir, "data") }
func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

func (s *Server) databaseURL(name string) string {
	// A server that gets no CPU for seconds is not gone.
	query := url.Values{"host": {s.dir}, "user": {superuser}, "connect_timeout": {fmt.Sprint(startLimit.Seconds())}}
	return "postgres:///" + name + "?" + query.Encode()
}

func (s *Server) startLocked(ctx context.Context) error {
	binary, err := findBinary("postgres")
	if err != nil {
		return err
	}
	args := []string{"-D", s.dataDir()}
	for _, setting := range append([]string{
		"unix_socket_directories=" + s.dir,
		"listen_addresses=",
		"dynamic_shared_memory_type=mmap", // in the data directory, so that it is removed with it
		"fsync=off",
		"full_page_writes=off",
		"max_wal_size=64MB",
	}, s.settings...) {
		args = append(args, "-c", setting)
	}
	cmd := exec.Command(binary, args...)
	s.as.run(cmd)
	if s.proc, err = child.Start(cmd, s.logFile()); err != nil {
		return fmt.Errorf("start %s: %w", binary, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := s.awaitReady(ctx); err != nil {
		crash(s.proc)
		return fmt.Errorf("start %s in %s: %w\n%s", binary, s.dir, err, child.LogTail(s.logFile()))
	}
	return nil
}

// awaitReady waits until the server answers. The socket is in its own directory, so no other server can
// answer.
func (s *Server) awaitReady(ctx context.Context) error {
	for {
		if s.proc.Exited() {
			return errors.New("it exited before it answered")
		}
		conn, err := pgx.Connect(ctx, s.URL)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w", ctx.Err(), err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Database creates an empty database and returns its URL.
func (s *Server) Database(ctx context.Context) (string, error) {
	name := fmt.Sprintf("test_%016x", rand.Uint64())
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return "", fmt.Errorf("create the database %s: %w", name, err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", fmt.Errorf("create the database %s: %w", name, err)
	}
	return s.databaseURL(name), nil
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

// Kill kills the server and all its processes (SIGKILL), as a crash would, and returns when the server is
// gone. Killing a dead server is not an error.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		crash(s.proc)
	}
	return nil
}

// Stop stops the server as an administrator would: it closes its clients' connections and leaves nothing to
// recover.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endLocked(syscall.SIGINT)
}

// endLocked sends the server a signal to end, and waits until it has ended.
func (s *Server) endLocked(sig syscall.Signal) error {
	if s.proc == nil || s.proc.Exited() {
		return nil
	}
	_ = s.proc.Signal(sig) // fails only if it has already ended
	select {
	case <-s.proc.Done():
		return nil
	case <-time.After(startLimit):
		crash(s.proc)
		return fmt.Errorf("stop PostgreSQL in %s: it took longer than %v and was killed", s.dir, startLimit)
	}
}

// Restart kills the server if it is running and starts it again with its data.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("restart PostgreSQL in %s: it is closed", s.dir)
	}
	crash(s.proc)
	// The last children of a killed server may outlive it for a moment, and no other server starts while
	// they do.
	for deadline := time.Now().Add(startLimit); ; {
		err := s.startLocked(context.Background())
		if err == nil || time.Now().After(deadline) || !strings.Contains(child.LogTail(s.logFile()), "pre-existing shared memory") {
			return err
		}
		if err := os.Truncate(s.logFile(), 0); err != nil {
			return err
		}
	}
}

// Close ends the server and removes its data. Closing twice is not an error.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.endLocked(syscall.SIGQUIT) // immediate, and unlike SIGKILL it frees the shared memory
	if removal := os.RemoveAll(s.dir); removal != nil {
		err = errors.Join(err, fmt.Errorf("remove the data of PostgreSQL in %s: %w", s.dir, removal))
	}
	return err
}
