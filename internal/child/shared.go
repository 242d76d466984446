package child

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
)

// A Shared is a server that all tests of a package use. The first test that needs it starts it, and [Main] closes it.
type Shared[S io.Closer] struct {
	Launch func(context.Context) (S, error)

	once    sync.Once
	server  S
	started bool
	err     error
}

// Get returns the server. The test fails if it cannot start, and is skipped under `make unit`.
func (s *Shared[S]) Get(t testing.TB) S {
	t.Helper()
	SkipUnit(t)
	s.once.Do(func() {
		s.server, s.err = s.Launch(context.Background())
		s.started = s.err == nil
	})
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server
}

// Close closes the server if a test has started it.
func (s *Shared[S]) Close() error {
	if !s.started {
		return nil
	}
	return s.server.Close()
}

// Main runs the tests of a package, closes the servers that they shared and ends the process. It is for TestMain.
func Main(m *testing.M, shared ...io.Closer) {
	code := m.Run()
	for _, s := range shared {
		if err := s.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
