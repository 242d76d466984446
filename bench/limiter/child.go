package limiter

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"net/rpc"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock/bench/lab"
)

// Role is the role of a child process that runs a contestant in memory. Each has a process of its own, so that no
// contestant pays for another's garbage. The parent runs them in turn, so that a slow phase of the machine affects all.
const Role = "limiter"

// Serve runs the named contestant with a limit for a parent until that disconnects.
func Serve(args []string) error {
	return lab.Bench{Context: context.Background()}.Run(func(b *lab.Bench) {
		s := &service{empty: footprint(), traffic: map[Pattern]traffic{}}
		var l Limit
		lab.Check(json.Unmarshal([]byte(args[1]), &l))
		s.limiter = Find(InMemory, args[0]).Open(b, "", l)
		server := rpc.NewServer()
		lab.Check(server.RegisterName(Role, s))
		server.ServeConn(pipes{os.Stdin, os.Stdout})
	})
}

type pipes struct {
	io.Reader
	io.WriteCloser
}

// service is what a parent can call. It calls one method after the other.
type service struct {
	empty   Weight
	limiter lab.Limiter
	filled  int
	hot     int // number of keys already used as the hot one
	traffic map[Pattern]traffic
}

// Span is the numbers of keys from From up to, but not including, To.
type Span struct{ From, To int }

func (s *service) Fill(keys Span, _ *struct{}) error {
	parts := min(runtime.GOMAXPROCS(0), keys.To-keys.From)
	err := lab.Parallel(parts, func(part int) error {
		for i := keys.From + part; i < keys.To; i += parts {
			if _, err := s.limiter.Warm(context.Background(), lab.Key(i)); err != nil {
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

// A Run is one cell: that many goroutines on as many processors, sending requests as fast as they can.
type Run struct {
	Pattern  Pattern
	Procs    int
	Duration time.Duration
}

// RunResult is the result of a Run.
type RunResult struct {
	Calls   int64
	Allowed int64
	Elapsed time.Duration
	CPU     time.Duration // of the whole process, including its garbage collector
}

// PerCall returns the time per request, over all goroutines together, in nanoseconds.
func (r RunResult) PerCall() float64 { return float64(r.Elapsed.Nanoseconds()) / float64(r.Calls) }

// CPUPerCall returns the processor time per request, in nanoseconds. It does not grow while other processes use
// the processor.
func (r RunResult) CPUPerCall() float64 { return float64(r.CPU.Nanoseconds()) / float64(r.Calls) }

func (s *service) Run(r Run, result *RunResult) (err error) {
	t, ok := s.traffic[r.Pattern]
	switch {
	case r.Pattern == Hot:
		// Use a new key each time, not among those filled, and warm it: it has as much left as they have.
		s.hot++
		t = traffic{text: lab.Key(s.filled + s.hot)}
		if _, err := s.limiter.Warm(context.Background(), t.text); err != nil {
			return fmt.Errorf("warm the hot key: %w", err)
		}
	case !ok:
		t = draw(r.Pattern, max(1, s.filled))
		s.traffic[r.Pattern] = t
		runtime.GC()
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(r.Procs))
	// Warm the caches, which other contestants have used meanwhile, before measuring.
	if *result, err = s.load(r, t, r.Duration/2); err == nil {
		*result, err = s.load(r, t, r.Duration)
	}
	return err
}

// load sends requests for a time.
func (s *service) load(r Run, t traffic, d time.Duration) (RunResult, error) {
	var calls, allowed atomic.Int64
	start, used := time.Now(), lab.OwnCPU()
	err := lab.Parallel(r.Procs, func(i int) error {
		n, passed, err := send(s.limiter.Caller(), t, i*(t.mask+1)/r.Procs, start.Add(d))
		calls.Add(n)
		allowed.Add(passed)
		return err
	})
	return RunResult{calls.Load(), allowed.Load(), time.Since(start), lab.OwnCPU() - used}, err
}

// between is the number of requests between two reads of the clock, which would otherwise be part of every
// request's cost.
const between = 1024

// send sends requests until the time is up, but at least some: on a busy machine it may start late.
func send(take lab.TakeFunc, t traffic, from int, until time.Time) (calls, allowed int64, err error) {
	ctx := context.Background()
	for i := from; ; {
		for range between {
			ok, err := take(ctx, t.key(i))
			if err != nil {
				return calls, allowed, fmt.Errorf("charge %q: %w", t.key(i), err)
			}
			if ok {
				allowed++
			}
			i++
		}
		if calls += between; !time.Now().Before(until) {
			return calls, allowed, nil
		}
	}
}

// A Weight is what a contestant costs besides time.
type Weight struct {
	Heap     int64 // bytes in use on the garbage-collected heap
	Resident int64 // resident memory of the process in bytes, including mapped memory; 0 if unknown
	Process  int64 // resident memory of the whole process
	Own      int64 // bytes as the limiter counts them; 0 if it does not
	Keys     int64 // that have a counter of their own; 0 if it does not say
	GC       []time.Duration
	Pause    time.Duration // the longest of the last 256 pauses of the garbage collector
}

// Weigh returns the memory used since the start of the process, and times full collections.
func (s *service) Weigh(collections int, w *Weight) error {
	*w = footprint()
	w.Heap -= s.empty.Heap
	w.Process = w.Resident
	w.Resident -= s.empty.Resident
	if s.limiter.Stats != nil {
		stats := s.limiter.Stats()
		w.Own, w.Keys = stats.Bytes, stats.Keys-stats.Shared
	}
	for range collections {
		start := time.Now()
		runtime.GC()
		w.GC = append(w.GC, time.Since(start))
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	w.Pause = time.Duration(slices.Max(m.PauseNs[:]))
	return nil
}

func footprint() Weight {
	debug.FreeOSMemory() // also runs a full collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var size, pages int64
	text, _ := os.ReadFile("/proc/self/statm") // only Linux has it
	_, _ = fmt.Sscan(string(text), &size, &pages)
	return Weight{Heap: int64(m.HeapInuse), Resident: pages * int64(os.Getpagesize())}
}

// A Child is a contestant in its own process. Its methods end the section at an error.
type Child struct {
	Contestant
	rpc *rpc.Client
}

// Spawn starts this program again as a contestant with a limit, until the end of the scope.
func Spawn(b *lab.Bench, c Contestant, l Limit) *Child {
	process := lab.Self(Role, c.Name, string(lab.Must(json.Marshal(l))))
	process.Stderr = os.Stderr
	in, out := lab.Must(process.StdinPipe()), lab.Must(process.StdoutPipe())
	lab.Check(process.Start())
	client := rpc.NewClient(pipes{out, in})
	b.Cleanup(func() {
		_ = client.Close() // the child ends at the end of its input
		_ = process.Wait()
	})
	return &Child{c, client}
}

func call[T any](c *Child, method string, args any) (result T) {
	if err := c.rpc.Call(Role+"."+method, args, &result); err != nil {
		lab.Check(fmt.Errorf("contestant %q: %w", c.Name, err))
	}
	return result
}

// Fill warms keys.
func (c *Child) Fill(from, to int) { call[struct{}](c, "Fill", Span{from, to}) }

// Run measures one cell on the keys filled so far.
func (c *Child) Run(r Run) RunResult { return call[RunResult](c, "Run", r) }

// Weigh measures the memory of the keys filled so far, and the given number of full garbage collections.
func (c *Child) Weigh(collections int) Weight { return call[Weight](c, "Weigh", collections) }

// A Pattern is how requests are distributed over keys.
type Pattern string

const (
	Hot     Pattern = "hot"     // one key
	Uniform Pattern = "uniform" // all keys equally
	Zipf    Pattern = "zipf"    // mostly few keys, with exponent 1.1
)

// traffic is the keys of successive requests, contiguous in memory. A service has just read its key from a
// request. So here the key comes from memory that is read in order, and a contestant pays only for its own cache
// misses.
type traffic struct {
	text string
	mask int // number of requests, a power of two, minus 1
}

func (t traffic) key(i int) string {
	at := (i & t.mask) * lab.KeyLength
	return t.text[at : at+lab.KeyLength]
}

// draw picks the keys of requests at random, the same for every contestant.
func draw(p Pattern, keys int) traffic {
	calls := min(1<<21, 1<<bits.Len(uint(4*keys)))
	random := rand.New(rand.NewPCG(1, uint64(keys)))
	next := func() int { return random.IntN(keys) }
	if p == Zipf {
		zipf := rand.NewZipf(random, 1.1, 1, uint64(keys-1))
		next = func() int { return int(zipf.Uint64()) }
	}
	text := make([]byte, 0, calls*lab.KeyLength)
	for range calls {
		text = lab.AppendKey(text, next())
	}
	return traffic{string(text), calls - 1}
}
