package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/simulate"
	"github.com/penstock-io/penstock/internal/simulator/replay"
	"github.com/penstock-io/penstock/internal/toolreport"
	"github.com/penstock-io/penstock/rules"
)

// Bounds of a tool that runs on a node, which decides requests at the same time.
const (
	maxToolTime = time.Minute
	maxRest     = 250 * time.Millisecond
)

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
	full   bool // counters were shared for lack of memory
}

// asTool returns the function of a route that waits for a turn and then runs a tool.
func asTool(serve func(*toolRun) (any, error)) func(*apiRequest) (any, error) {
	return func(x *apiRequest) (any, error) {
		end, err := x.admin.tools.begin(x.r.Context(), x.who.role)
		if err != nil {
			return nil, err
		}
		defer end()
		t := &toolRun{apiRequest: x, cancel: func() {}}
		defer func() { t.cancel() }()
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

func (s *watchedStore) Close() error {
	s.run.full = s.run.full || s.Full()
	return s.ToolStore.Close()
}

func (t *toolRun) newStore() (*watchedStore, error) {
	store, err := t.admin.ToolStore()
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
		return ToolReport{page, string(page.HTML())}, nil
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

// asFields names the fields of a request in errors that name the flags of a command.
var asFields = strings.NewReplacer("continue without it with --without ", "list it in without: ", "with --field", "in fields", "--field", "fields", "--format", "format")
