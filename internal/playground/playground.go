package playground

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// Bounds of a game.
const (
	MaxLanes    = 4
	MaxArrivals = 2000
	MaxSpan     = 31 * 24 * time.Hour
	points      = 300 // of a curve
)

// A Input is the input of the playground.
type Input struct {
	Lanes    []LimitInput `json:"lanes"`
	Arrivals []Arrival    `json:"arrivals"`
	Hold     float64      `json:"hold_ms"` // how long a request runs, for concurrency limits
}

// A LimitInput is one limit, as a rule has it.
type LimitInput struct {
	Name  string          `json:"name"`
	Limit json.RawMessage `json:"limit"`
}

// An Arrival is one request, at a time after midnight.
type Arrival struct {
	At   float64 `json:"at_ms"`
	Cost int64   `json:"cost"` // 0: 1
	Who  string  `json:"who"`  // the client; each client has its own limit
}

// Result is the result of a game.
type Result struct {
	Lanes []LimitResult `json:"lanes"`
	Span  float64       `json:"span_ms"`
}

// A LimitResult is the result of one limit.
type LimitResult struct {
	Name      string  `json:"name"`
	Text      string  `json:"text"` // the limit, in words
	Algorithm string  `json:"algorithm"`
	Limit     int64   `json:"limit"`
	Allowed   int     `json:"allowed"`
	Denied    int     `json:"denied"`
	Steps     []Step  `json:"steps"` // one for each arrival
	Curve     []Point `json:"curve"` // how much of the first client's limit is used, over time
}

// A Step is the decision for one arrival.
type Step struct {
	At         float64           `json:"at_ms"`
	Who        string            `json:"who,omitempty"`
	Allowed    bool              `json:"allowed"`
	Used       int64             `json:"used"`
	Remaining  int64             `json:"remaining"`
	Delay      float64           `json:"delay_ms"`
	RetryAfter *float64          `json:"retry_after_ms"` // null: never
	Headers    map[string]string `json:"headers"`        // that a client would see
}

// A Point is how much is used at an instant.
type Point struct {
	At   float64 `json:"at_ms"`
	Used int64   `json:"used"`
}

// A Store is the store of one lane.
type Store interface {
	penstock.Store
	storage.Settler
	io.Closer
}

// midnight is when every game begins: fixed windows and calendar windows start there.
var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Play decides every arrival by every lane. If the game is invalid, the error wraps [penstock.ErrInvalid] and lists
// everything that is wrong.
func Play(ctx context.Context, g *Input, newStore func() (Store, error)) (*Result, error) {
	if err := g.validate(); err != nil {
		return nil, err
	}
	snapshots, err := g.compile(ctx)
	if err != nil {
		return nil, err
	}
	played := &Result{Span: g.span(), Lanes: []LimitResult{}}
	for i := range g.Lanes {
		l, err := g.playLane(ctx, i, snapshots[i], newStore)
		if err != nil {
			return nil, fmt.Errorf("play lane %d: %w", i+1, err)
		}
		played.Lanes = append(played.Lanes, *l)
	}
	return played, nil
}

func (g *Input) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if n := len(g.Lanes); n < 1 || n > MaxLanes {
		fail("lanes: %d; there can be from 1 to %d", n, MaxLanes)
	}
	if n := len(g.Arrivals); n < 1 || n > MaxArrivals {
		fail("arrivals: %d; there can be from 1 to %d", n, MaxArrivals)
	}
	longest := float64(MaxSpan / time.Millisecond)
	if !(g.Hold >= 0 && g.Hold <= longest) {
		fail("hold_ms: %v is not from 0 to %v", g.Hold, longest)
	}
	for i, a := range g.Arrivals[:min(len(g.Arrivals), MaxArrivals)] {
		if !(a.At >= 0 && a.At <= longest) {
			fail("arrivals[%d].at_ms: %v is not from 0 to %v", i, a.At, longest)
		}
		if a.Cost < 0 || a.Cost > algorithm.MaxCount {
			fail("arrivals[%d].cost: %d is not from 1 to %d", i, a.Cost, int64(algorithm.MaxCount))
		}
		if len(a.Who) > 64 {
			fail("arrivals[%d].who: %d bytes; at most 64", i, len(a.Who))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w game: %w", penstock.ErrInvalid, errors.Join(errs[:min(len(errs), 20)]...))
	}
	return nil
}

func (g *Input) compile(ctx context.Context) ([]*rules.Snapshot, error) {
	snapshots := make([]*rules.Snapshot, len(g.Lanes))
	var errs []error
	for i := range g.Lanes {
		document, err := json.Marshal(map[string]any{"rules": []any{map[string]any{"name": "lane", "key": []string{"who"}, "limits": []any{g.Lanes[i].Limit}}}})
		if err == nil {
			snapshots[i], _, err = rules.CompileContext(ctx, []rules.File{{Name: fmt.Sprintf("lane %d", i+1), Data: document}}, rules.Options{Secret: "of the playground"})
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("%w game: %w", penstock.ErrInvalid, err)
	}
	return snapshots, nil
}

// span returns how long the game is shown: a tenth longer than requests arrive.
func (g *Input) span() (last float64) {
	for _, a := range g.Arrivals {
		last = max(last, a.At)
	}
	return max(1, math.Ceil(last*1.1))
}

// A limitRun is one limit during a game.
type limitRun struct {
	game   *Input
	engine *engine.Engine
	now    penstock.Instant
	writer *httplimit.Writer
	out    *LimitResult
	first  string // client, whose curve is drawn
}

// An event is an arrival, a point of the curve, or the end of a request.
type event struct {
	at      float64
	arrival int    // its index, or -1
	ends    string // a reservation
}

func (g *Input) playLane(ctx context.Context, i int, snapshot *rules.Snapshot, newStore func() (Store, error)) (*LimitResult, error) {
	store, err := newStore()
	if err != nil {
		return nil, err
	}
	defer store.Close()
	meter := snapshot.Rules[0].Limits[0]
	l := &limitRun{game: g, first: g.Arrivals[0].Who, out: &LimitResult{
		Name: cmp.Or(g.Lanes[i].Name, meter.Algorithm().String()), Text: meter.String(), Algorithm: meter.Algorithm().String(),
		Steps: make([]Step, len(g.Arrivals)), Curve: []Point{},
	}}
	if l.writer, err = httplimit.NewWriter(httplimit.WriterOptions{}); err != nil {
		return nil, err
	}
	l.engine, err = engine.New(engine.Options{Store: store, Rules: engine.Fixed(snapshot), Now: func() penstock.Instant { return l.now }})
	if err != nil {
		return nil, err
	}
	return l.out, l.run(ctx)
}

// run processes all happenings in order: at the same instant requests end, then arrive, and then the curve is read.
func (l *limitRun) run(ctx context.Context) error {
	queue := make([]event, 0, len(l.game.Arrivals)+points+1)
	for i, a := range l.game.Arrivals {
		queue = append(queue, event{at: a.At, arrival: i})
	}
	for i := range points + 1 {
		queue = append(queue, event{at: l.game.span() * float64(i) / points, arrival: -1})
	}
	slices.SortStableFunc(queue, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	var ending []event // in order of arrival, so in order of time
	for _, h := range queue {
		for len(ending) > 0 && ending[0].at <= h.at {
			if err := l.end(ctx, ending[0]); err != nil {
				return err
			}
			ending = ending[1:]
		}
		if h.arrival < 0 {
			if err := l.peek(ctx, h.at); err != nil {
				return err
			}
			continue
		}
		reserved, err := l.arrive(ctx, h)
		if err != nil {
			return err
		}
		if reserved != "" {
			ending = append(ending, event{at: h.at + l.game.Hold, ends: reserved})
		}
	}
	return nil
}

func (l *limitRun) at(ms float64) {
	l.now = penstock.InstantOf(midnight.Add(time.Duration(ms * float64(time.Millisecond))))
}

func (l *limitRun) call(who string, cost int64) *penstock.Call {
	return &penstock.Call{Cost: cost, MaxDelay: penstock.AnyDelay, Attributes: []penstock.Attribute{{Name: "who", Value: cmp.Or(who, "everybody")}}}
}

func (l *limitRun) arrive(ctx context.Context, h event) (reserved string, err error) {
	a := &l.game.Arrivals[h.arrival]
	l.at(h.at)
	var v penstock.Verdict
	if err := l.engine.Decide(ctx, l.call(a.Who, max(1, a.Cost)), &v); err != nil {
		return "", err
	}
	d := &v.Decision
	header := http.Header{}
	l.writer.Headers(header, &v)
	step := Step{At: h.at, Who: a.Who, Allowed: v.Allowed, Used: d.Used, Remaining: d.Remaining, Delay: milliseconds(v.Delay), Headers: map[string]string{}}
	if d.RetryAfter != penstock.Never {
		step.RetryAfter = new(milliseconds(d.RetryAfter))
	}
	for name, values := range header {
		step.Headers[name] = values[0]
	}
	if v.Allowed {
		l.out.Allowed++
	} else {
		l.out.Denied++
	}
	l.out.Limit = d.Limit
	l.out.Steps[h.arrival] = step
	return v.Reservation, nil
}

// peek reads the first client's state without charging it.
func (l *limitRun) peek(ctx context.Context, at float64) error {
	l.at(at)
	var v penstock.Verdict
	if err := l.engine.Decide(ctx, l.call(l.first, 0), &v); err != nil {
		return err
	}
	l.out.Curve = append(l.out.Curve, Point{at, v.Decision.Used})
	return nil
}

func (l *limitRun) end(ctx context.Context, h event) error {
	l.at(h.at)
	err := l.engine.Conclude(ctx, &penstock.Conclusion{Reservation: h.ends, Verb: penstock.Release}, new(penstock.Verdict))
	if errors.Is(err, penstock.ErrNoReservation) || errors.Is(err, penstock.ErrClosed) {
		return nil // the permit expired before the request ended
	}
	return err
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
