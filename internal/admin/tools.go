package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/simulate"
	"github.com/penstock-io/penstock/internal/simulator/replay"
	"github.com/penstock-io/penstock/internal/toolreport"
	"github.com/penstock-io/penstock/rules"
)

// Bounds of a tool that runs on a node, which decides requests at the same time.
const (
	maxToolTime = time.Minute
	maxRest     = 250 * time.Millisecond

	// toolBytes bounds the counters of a run, in all its stores.
	toolBytes = 64 << 20
)

// A toolSlot lets one tool run at a time, so that a node needs memory for one.
type toolSlot struct{ running, waiting chan struct{} }

func newToolSlot() *toolSlot {
	return &toolSlot{make(chan struct{}, 1), make(chan struct{}, maxWaiting)}
}

// begin waits until no tool runs. The caller must call end.
func (s *toolSlot) begin(ctx context.Context) (end func(), err error) {
	return queue(ctx, s.waiting, "%d runs of tools are waiting already", s.running)
}

// A ToolReport is the result of a tool.
type ToolReport struct {
	Page *toolreport.Page `json:"page"`
	HTML string           `json:"html"` // the same as a file to share, as the tool writes it with --report
}

// A toolRun is a tool at work: for at most maxToolTime, on at most half a core, and only while the client waits.
type toolRun struct {
	*apiRequest
	ctx    context.Context
	cancel context.CancelFunc
	rested time.Time
	room   int64 // bytes of one store
	used   bool  // stores were opened
	full   bool  // counters were shared for lack of memory
}

// asTool returns the function of a route that waits until no other tool runs, and then runs one. Its memory is given
// back at its end.
func asTool(serve func(*toolRun) (any, error)) func(*apiRequest) (any, error) {
	return func(x *apiRequest) (any, error) {
		end, err := x.admin.tools.begin(x.r.Context())
		if err != nil {
			return nil, err
		}
		defer end()
		t := &toolRun{apiRequest: x, cancel: func() {}, room: toolBytes}
		defer func() {
			t.cancel()
			if t.used {
				debug.FreeOSMemory()
			}
		}()
		return serve(t)
	}
}

// start starts the clock, when everything has been read.
func (t *toolRun) start() {
	t.rested = time.Now()
	t.ctx, t.cancel = context.WithTimeout(t.r.Context(), t.admin.toolTime)
	_ = http.NewResponseController(t.w).SetWriteDeadline(t.rested.Add(t.admin.toolTime + patience)) // fails only where there is no network connection
}

// rest leaves half of a core to others. Tools call it at least every few thousand requests.
func (t *toolRun) rest() {
	time.Sleep(min(time.Since(t.rested), maxRest))
	t.rested = time.Now()
}

// A watchedStore notes whether it was too small, before counters expire and when it is closed.
type watchedStore struct {
	ToolStore
	run *toolRun
}

func (s *watchedStore) Expire(now penstock.Instant) {
	s.run.full = s.run.full || s.Full()
	s.ToolStore.Expire(now)
}

// Close empties the store, which gives its memory back now. The next garbage collection would do so too, but the run
// may open other stores before it.
func (s *watchedStore) Close() error {
	s.run.full = s.run.full || s.Full()
	s.ToolStore.Expire(algorithm.MaxInstant)
	return s.ToolStore.Close()
}

// share divides the memory for counters among stores that are open at the same time.
func (t *toolRun) share(stores int) { t.room = toolBytes / int64(max(1, stores)) }

func (t *toolRun) newStore() (*watchedStore, error) {
	t.used = true
	store, err := t.admin.ToolStore(t.room)
	return &watchedStore{store, t}, err
}

func (t *toolRun) newReplayStore() (replay.Store, error) { return t.newStore() }

func (t *toolRun) newSimulationStore() (simulate.Store, error) { return t.newStore() }

// report returns the result, or why there is none. command is the tool in a terminal, which has no such bounds.
func (t *toolRun) report(page *toolreport.Page, err error, command string) (any, error) {
	instead := fmt.Sprintf("use less traffic, or run %s in a terminal", command)
	switch {
	case t.full && !errors.Is(err, context.Canceled):
		return nil, invalid("there are more live counters than fit in the memory for tools: %s", instead)
	case err == nil:
		return reportOf(page), nil
	case errors.Is(err, context.DeadlineExceeded):
		return nil, refuse(http.StatusServiceUnavailable, Unavailable, fmt.Sprintf("this takes longer than %v on this node: %s", t.admin.toolTime, instead))
	case errors.Is(err, context.Canceled):
		return nil, err
	}
	if _, ok := errors.AsType[rules.Problems](err); ok {
		return nil, err
	}
	return nil, invalid("%s", asFields.Replace(err.Error()))
}

func reportOf(page *toolreport.Page) ToolReport { return ToolReport{page, string(page.HTML())} }

// asFields names the fields of a request in errors that name the flags of a command.
var asFields = strings.NewReplacer("continue without it with --without ", "list it in without: ", "with --field", "in fields", "--field", "fields", "--format", "format")
