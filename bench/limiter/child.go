package limiter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"runtime"

	"github.com/penstock-io/penstock/bench/lab"
)

// Role is the role of a child process that runs a contestant in memory. Each has a process of its own, so that no
// contestant pays for another's garbage. The parent runs them in turn, so that a slow phase of the machine affects all.
const Role = "limiter"

// Serve runs the named contestant for a parent until that disconnects.
func Serve(args []string) error {
	c, err := Find(InMemory(), args[0])
	if err != nil {
		return err
	}
	s := rpc.NewServer()
	if err := s.RegisterName(Role, &service{contestant: c, empty: footprint(), traffic: map[Pattern]traffic{}}); err != nil {
		return err
	}
	s.ServeConn(pipes{os.Stdin, os.Stdout})
	return nil
}

// pipes are the two directions of a connection.
type pipes struct {
	io.Reader
	io.WriteCloser
}

// service is what a parent can call. It calls one method after the other.
type service struct {
	contestant Contestant
	empty      Weight
	limiter    lab.Limiter
	filled     int
	hot        int // number of keys already used as the hot one
	traffic    map[Pattern]traffic
}

// Span is the numbers of keys from From up to, but not including, To.
type Span struct{ From, To int }

// Nothing is the result of methods that only fail or succeed.
type Nothing struct{}

func (s *service) Open(l Limit, _ *Nothing) (err error) {
	if s.limiter != nil {
		if err := s.limiter.Close(); err != nil {
			return err
		}
	}
	s.limiter, s.filled = nil, 0
	clear(s.traffic)
	limiter, err := s.contestant.Open(context.Background(), "", l)
	if err != nil {
		return fmt.Errorf("open with %d per %v: %w", l.Count, l.Window, err)
	}
	s.limiter = limiter
	return nil
}

var errNotOpen = errors.New("no limit was given yet")

func (s *service) Fill(keys Span, _ *Nothing) error {
	if s.limiter == nil {
		return errNotOpen
	}
	parts := min(runtime.GOMAXPROCS(0), keys.To-keys.From)
	err := lab.Parallel(parts, func(part int) error {
		for i := keys.From + part; i < keys.To; i += parts {
			if err := s.limiter.Warm(context.Background(), keyOf(i)); err != nil {
				return fmt.Errorf("warm key %d: %w", i, err)
			}
		}
		return nil
	})
	s.filled = keys.To
	clear(s.traffic)
	runtime.GC() // the next run must not pay for collecting the garbage of filling
	return err
}

func (s *service) Run(r Run, result *RunResult) (err error) {
	if s.limiter == nil {
		return errNotOpen
	}
	t, ok := s.traffic[r.Pattern]
	switch {
	case r.Pattern == Hot:
		// Use a new key each time, not among those filled, and warm it: it has as much left as they have.
		s.hot++
		t = traffic{text: keyOf(s.filled + s.hot)}
		if err := s.limiter.Warm(context.Background(), t.text); err != nil {
			return fmt.Errorf("warm the hot key: %w", err)
		}
	case !ok:
		if t, err = draw(r.Pattern, max(1, s.filled)); err != nil {
			return err
		}
		s.traffic[r.Pattern] = t
		runtime.GC()
	}
	*result, err = r.do(s.limiter, t)
	return err
}

func (s *service) Weigh(collections int, w *Weight) error {
	if s.limiter == nil {
		return errNotOpen
	}
	*w = weigh(s.limiter, s.empty, collections)
	return nil
}

// A Child is a contestant in its own process. Its methods end the section at an error.
type Child struct {
	Name    string
	process *exec.Cmd
	rpc     *rpc.Client
}

// Spawn starts this program again as the named contestant, until the end of the scope.
func Spawn(b *lab.Bench, name string) *Child {
	c := &Child{Name: name, process: lab.Self(Role, name)}
	c.process.Stderr = os.Stderr
	in, out := lab.Must(c.process.StdinPipe()), lab.Must(c.process.StdoutPipe())
	lab.Check(c.process.Start())
	c.rpc = rpc.NewClient(pipes{out, in})
	b.Cleanup(func() {
		_ = c.rpc.Close() // the child ends at the end of its input
		_ = c.process.Wait()
	})
	return c
}

func call[T any](c *Child, method string, args any) (result T) {
	if err := c.rpc.Call(Role+"."+method, args, &result); err != nil {
		lab.Check(fmt.Errorf("contestant %q: %w", c.Name, err))
	}
	return result
}

// Open gives the child a fresh limiter.
func (c *Child) Open(l Limit) { call[Nothing](c, "Open", l) }

// Fill warms keys.
func (c *Child) Fill(from, to int) { call[Nothing](c, "Fill", Span{from, to}) }

// Run measures one cell on the keys filled so far.
func (c *Child) Run(r Run) RunResult { return call[RunResult](c, "Run", r) }

// Weigh measures the memory of the keys filled so far, and the given number of full garbage collections.
func (c *Child) Weigh(collections int) Weight { return call[Weight](c, "Weigh", collections) }
