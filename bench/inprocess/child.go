package inprocess

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
)

// childVariable is the environment variable that names the contestant a child runs.
const childVariable = "PENSTOCK_TEST_BENCH_CONTESTANT"

// request is a request from a parent to a child. Exactly one field is set.
type request struct {
	Open  *Limit `json:",omitempty"` // drops the previous limiter
	Fill  *span  `json:",omitempty"`
	Run   *Run   `json:",omitempty"`
	Weigh *int   `json:",omitempty"` // the number of garbage collections
}

type span struct{ From, To int }

type response struct {
	Error  string `json:",omitempty"`
	Ran    RunResult
	Weight Weight
}

// ServeIfChild turns this process into a contestant, and does not return, if a parent started it as one. A
// program that uses Spawn calls it first.
func ServeIfChild() {
	name := os.Getenv(childVariable)
	if name == "" {
		return
	}
	if err := serve(name, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "contestant %q: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve answers until the parent closes the connection.
func serve(name string, in io.Reader, out io.Writer) error {
	c, err := find(name)
	if err != nil {
		return err
	}
	s := server{contestant: c, empty: footprint(), traffic: map[Pattern]traffic{}}
	requests, responses := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q request
		if err := requests.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read what the parent asks: %w", err)
		}
		r, err := s.answer(q)
		if err != nil {
			r.Error = err.Error()
		}
		if err := responses.Encode(r); err != nil {
			return fmt.Errorf("answer the parent: %w", err)
		}
	}
}

type server struct {
	contestant Contestant
	empty      Weight
	limiter    Limiter
	filled     int
	hot        int // number of keys already used as the hot one
	traffic    map[Pattern]traffic
}

func (s *server) answer(q request) (r response, err error) {
	if q.Open != nil {
		return r, s.open(*q.Open)
	}
	if s.limiter == nil {
		return r, errors.New("asked to work before a limit was given")
	}
	switch {
	case q.Fill != nil:
		return r, s.fill(*q.Fill)
	case q.Run != nil:
		r.Ran, err = s.run(*q.Run)
	case q.Weigh != nil:
		r.Weight = weigh(s.limiter, s.empty, *q.Weigh)
	}
	return r, err
}

func (s *server) open(l Limit) (err error) {
	if s.limiter != nil {
		if err := s.limiter.Close(); err != nil {
			return err
		}
	}
	s.limiter, s.filled = nil, 0
	if s.limiter, err = s.contestant.Open(l); err != nil {
		return fmt.Errorf("open with %d per %v: %w", l.Count, l.Window, err)
	}
	return nil
}

func (s *server) fill(keys span) error {
	parts := min(runtime.GOMAXPROCS(0), keys.To-keys.From)
	failed := make([]error, parts)
	var all sync.WaitGroup
	for part := range parts {
		all.Go(func() {
			for i := keys.From + part; i < keys.To && failed[part] == nil; i += parts {
				if err := s.limiter.Warm(keyOf(i)); err != nil {
					failed[part] = fmt.Errorf("warm key %d: %w", i, err)
				}
			}
		})
	}
	all.Wait()
	s.filled = keys.To
	clear(s.traffic)
	runtime.GC() // the next run must not pay for collecting the garbage of filling
	return errors.Join(failed...)
}

func (s *server) run(r Run) (RunResult, error) {
	if r.Pattern == Hot {
		// Use a new key each time, not among those filled, and warm it: it has as much left as they have.
		s.hot++
		key := keyOf(s.filled + s.hot)
		if err := s.limiter.Warm(key); err != nil {
			return RunResult{}, fmt.Errorf("warm the hot key: %w", err)
		}
		return r.do(s.limiter, traffic{text: key})
	}
	t, ok := s.traffic[r.Pattern]
	if !ok {
		var err error
		if t, err = draw(r.Pattern, max(1, s.filled)); err != nil {
			return RunResult{}, err
		}
		s.traffic[r.Pattern] = t
		runtime.GC()
	}
	return r.do(s.limiter, t)
}

// A Child is a contestant in its own process.
type Child struct {
	name      string
	process   *exec.Cmd
	in        io.Closer
	requests  *json.Encoder
	responses *json.Decoder
}

// Spawn starts this program again as the named contestant.
func Spawn(name string) (*Child, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start contestant %q: %w", name, err)
	}
	process := exec.Command(path)
	process.Env = append(os.Environ(), childVariable+"="+name)
	process.Stderr = os.Stderr
	in, err := process.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start contestant %q: %w", name, err)
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start contestant %q: %w", name, err)
	}
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start contestant %q: %w", name, err)
	}
	return &Child{name, process, in, json.NewEncoder(in), json.NewDecoder(out)}, nil
}

// Open gives the child a fresh limiter.
func (c *Child) Open(l Limit) error {
	_, err := c.ask(request{Open: &l})
	return err
}

// Fill warms the keys numbered from up to, but not including, to.
func (c *Child) Fill(from, to int) error {
	_, err := c.ask(request{Fill: &span{from, to}})
	return err
}

// Run measures one cell on the keys filled so far.
func (c *Child) Run(r Run) (RunResult, error) {
	a, err := c.ask(request{Run: &r})
	return a.Ran, err
}

// Weigh measures the memory of the keys filled so far, and the given number of full garbage collections.
func (c *Child) Weigh(collections int) (Weight, error) {
	a, err := c.ask(request{Weigh: &collections})
	return a.Weight, err
}

func (c *Child) ask(q request) (response, error) {
	var r response
	if err := c.requests.Encode(q); err != nil {
		return r, fmt.Errorf("ask contestant %q: %w", c.name, err)
	}
	if err := c.responses.Decode(&r); err != nil {
		return r, fmt.Errorf("hear from contestant %q: %w", c.name, err)
	}
	if r.Error != "" {
		return r, fmt.Errorf("contestant %q: %s", c.name, r.Error)
	}
	return r, nil
}

// Close ends the child.
func (c *Child) Close() error {
	c.in.Close() // the child ends at the end of its input
	if err := c.process.Wait(); err != nil {
		return fmt.Errorf("end contestant %q: %w", c.name, err)
	}
	return nil
}
