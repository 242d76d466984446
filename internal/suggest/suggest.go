// Package suggest finds the smallest limit that denies no more than a given share of a log's requests or keys.
// Candidates are shadow rules: one pass over the log tries many of them, with the same engine as a server.
package suggest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/accesslog"
	"github.com/penstock-io/penstock/internal/backtest"
	"github.com/penstock-io/penstock/internal/simulator/replay"
	"github.com/penstock-io/penstock/rules"
)

// Options describe the limit to find.
type Options struct {
	Key       []string // what the rule counts by
	Path      string   // requests it applies to; "": all
	Method    string
	Algorithm penstock.Algorithm
	Window    time.Duration
	Burst     float64 // of a token bucket, as a multiple of its count

	MaxDenied float64 // share of requests that may be denied; negative: any
	MaxKeys   float64 // share of keys that may be denied at least once; negative: any
	HoldOut   float64 // share of the log's time, at its end, that is used only to check the limit

	Open     func(wanted []accesslog.Attribute) (*accesslog.Log, error) // opens the log from its beginning: it is read several times
	NewStore func() (replay.Store, error)
	Progress func(pass int, log *accesslog.Log, requests int64) // may be nil
}

// A Result is the limit found, and equivalent alternatives.
type Result struct {
	Log     accesslog.Stats `json:"log"`
	Cut     time.Time       `json:"held_out_from"` // zero: nothing is held out
	Limits  []Suggestion    `json:"limits"`        // the requested one first
	Curve   []Point         `json:"curve"`         // of the first limit
	Rule    string          `json:"rule"`          // a document with the rule, in shadow mode
	Passes  int             `json:"passes"`        // over the log
	options *Options
}

// A Suggestion is the smallest limit of a kind that denies no more than allowed.
type Suggestion struct {
	Algorithm string  `json:"algorithm"`
	Count     int64   `json:"count"`
	Window    string  `json:"window"`
	Burst     int64   `json:"burst,omitempty"`
	Text      string  `json:"text"`
	Fitted    Counts  `json:"fitted"`             // on the part of the log that it was fitted to
	Tighter   *Counts `json:"tighter,omitempty"`  // what a limit smaller by one denies there; nil: there is no smaller one
	HeldOut   *Counts `json:"held_out,omitempty"` // on the held-out part
	Holds     bool    `json:"holds"`              // it denies no more than allowed there, too

	limit limitTerms
}

// Counts are the effect of a limit on some requests.
type Counts struct {
	Requests   int64 `json:"requests"`
	Denied     int64 `json:"denied"`
	Keys       int64 `json:"keys"`
	KeysDenied int64 `json:"keys_denied"`
}

// A Point of the curve is the effect of one limit.
type Point struct {
	Count int64 `json:"count"`
	Counts
}

// limitTerms are a limit as in a rules document.
type limitTerms struct {
	Rate      string `json:"rate"`
	Algorithm string `json:"algorithm"`
	Burst     int64  `json:"burst,omitempty"`
}

// Bounds of one pass and of a search.
const (
	perPass   = 60 // candidates, below storage.MaxGroups
	firstKind = 24 // of these, for the requested kind in the first pass
	maxPasses = 40
)

// A kind of limits is searched for its smallest member that denies no more than allowed.
type kind struct {
	algorithm penstock.Algorithm
	window    time.Duration
	burst     float64

	tried map[int64]Counts
	below int64 // the largest count known to deny too much
	found int64 // the smallest known not to; 0: none yet
}

func (k *kind) limit(count int64) limitTerms {
	t := limitTerms{Rate: rules.Rate{Count: count, Window: k.window}.String(), Algorithm: k.algorithm.String()}
	if k.algorithm == penstock.TokenBucket {
		t.Burst = max(1, int64(math.Round(float64(count)*k.burst)))
	}
	return t
}

// most returns the largest count that a limit of the kind can have.
func (k *kind) most() int64 {
	if k.algorithm == penstock.SlidingWindowLog {
		return algorithm.MaxLog
	}
	return algorithm.MaxCount / 1000 // leaves room for bursts
}

// ErrNoRequests means that no request of the log matches the limit and has its key.
var ErrNoRequests = errors.New("no request of the log matches and has the key")

// Find finds the limit. It reads the log as often as necessary.
func Find(ctx context.Context, o Options) (*Result, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	r := &Result{options: &o}
	all, err := r.readTotals(ctx)
	if err != nil {
		return nil, err
	}
	kinds := o.kinds(r.Log.To.Sub(r.Log.From))
	for {
		var tries []candidate
		for i, k := range kinds {
			tries = append(tries, k.next(i == 0, len(kinds), all.Requests)...)
		}
		if len(tries) == 0 {
			break
		}
		if r.Passes > maxPasses {
			return nil, fmt.Errorf("no limit found in %d passes over the log", r.Passes)
		}
		fitted, _, err := r.pass(ctx, tries, false)
		if err != nil {
			return nil, err
		}
		for i, t := range tries {
			t.tried[t.count] = fitted[i]
		}
		for _, k := range kinds {
			if err := k.narrow(&o); err != nil {
				return nil, err
			}
		}
	}
	return r, r.finish(ctx, kinds)
}

func (o *Options) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.MaxDenied < 0 && o.MaxKeys < 0 {
		fail("no target: say how many requests or keys may be denied")
	}
	if o.MaxDenied >= 1 || o.MaxKeys >= 1 {
		fail("a target of 100 %% or more is met by any limit")
	}
	if o.HoldOut < 0 || o.HoldOut > 0.9 {
		fail("held out share %v is not from 0 to 0.9", o.HoldOut)
	}
	switch o.Algorithm {
	case penstock.Concurrency, penstock.LeakyBucket:
		fail("algorithm %v: a limit can be suggested for fixed_window, sliding_window_log, sliding_window_counter and token_bucket", o.Algorithm)
	}
	if o.Algorithm == penstock.TokenBucket && !(o.Burst >= 0.01 && o.Burst <= 100) {
		fail("burst %v is not from 0.01 to 100 times the count", o.Burst)
	}
	if o.Window < algorithm.MinWindow || o.Window > algorithm.MaxWindow {
		fail("window %v is not from %v to %v", o.Window, algorithm.MinWindow, algorithm.MaxWindow)
	}
	return errors.Join(errs...)
}

// kinds returns the requested kind, and alternatives with other windows and bursts.
func (o *Options) kinds(span time.Duration) []*kind {
	asked := &kind{algorithm: o.Algorithm, window: o.Window, burst: o.Burst}
	all := []*kind{asked}
	for _, window := range []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour} {
		if window != o.Window && window <= span/2 {
			all = append(all, &kind{algorithm: o.Algorithm, window: window, burst: o.Burst})
		}
	}
	for _, burst := range []float64{0.2, 1, 5} {
		if o.Algorithm != penstock.TokenBucket || burst != o.Burst {
			all = append(all, &kind{algorithm: penstock.TokenBucket, window: o.Window, burst: burst})
		}
	}
	for _, k := range all {
		k.tried = map[int64]Counts{}
	}
	return all
}

// A candidate is a limit of a kind.
type candidate struct {
	*kind
	count int64
}

// next returns the candidates to try next. The first pass tries counts from 1 to all requests in a geometric
// series. Later passes try counts at equal distances between the two known bounds.
func (k *kind) next(isAsked bool, kinds int, requests int64) (tries []candidate) {
	share := perPass / kinds
	if len(k.tried) == 0 {
		share = (perPass - firstKind) / max(1, kinds-1)
		if isAsked {
			share = firstKind
		}
		last := int64(0)
		enough := float64(requests) // a bucket that holds all requests denies none
		if k.algorithm == penstock.TokenBucket && k.burst < 1 {
			enough /= k.burst
		}
		most := min(k.most(), max(int64(math.Ceil(enough)), 2))
		for i := range share {
			count := int64(math.Round(math.Pow(float64(most), float64(i)/float64(share-1))))
			if count = max(count, last+1); count <= most {
				tries = append(tries, candidate{k, count})
				last = count
			}
		}
		return tries
	}
	between := k.found - k.below - 1
	n := min(int64(share), between)
	for i := range n {
		tries = append(tries, candidate{k, k.below + 1 + i*(between-1)/max(1, n-1)})
	}
	return tries
}

// narrow updates the bounds from the results. An approximate algorithm may deny more at a slightly larger limit:
// the limit found denies little enough, and so does every larger one that was tried.
func (k *kind) narrow(o *Options) error {
	k.found, k.below = 0, 0
	counts := slices.Sorted(maps.Keys(k.tried))
	for _, count := range slices.Backward(counts) {
		if !o.isMetBy(k.tried[count]) {
			k.below = count
			break
		}
		k.found = count
	}
	if k.found == 0 {
		return fmt.Errorf("even %s denies more than it may", k.limit(counts[len(counts)-1]).Rate)
	}
	return nil
}

func (o *Options) isMetBy(c Counts) bool {
	const rounding = 1e-9
	if o.MaxDenied >= 0 && float64(c.Denied) > o.MaxDenied*float64(c.Requests)+rounding {
		return false
	}
	return o.MaxKeys < 0 || float64(c.KeysDenied) <= o.MaxKeys*float64(c.Keys)+rounding
}

// compile returns rules that count by the key and have one of the limits each.
func (o *Options) compile(limits []limitTerms) (*rules.Snapshot, error) {
	match := map[string]string{}
	if o.Path != "" {
		match["path"] = o.Path
	}
	if o.Method != "" {
		match["method"] = o.Method
	}
	var all []any
	for i, limit := range limits {
		all = append(all, map[string]any{"name": fmt.Sprintf("candidate-%d", i), "match": match, "key": o.Key, "limits": []any{limit}, "mode": "shadow"})
	}
	text, err := json.Marshal(map[string]any{"rules": all})
	if err != nil {
		return nil, err
	}
	snapshot, _, err := rules.CompileFiles([]rules.File{{Name: "candidates", Data: text}}, rules.Options{Provided: o.Key})
	return snapshot, err
}

// readTotals reads the log once for the number of requests and their time span.
func (r *Result) readTotals(ctx context.Context) (all Counts, err error) {
	widest := (&kind{algorithm: penstock.FixedWindow, window: time.Minute}).limit(algorithm.MaxCount)
	counts, _, err := r.run(ctx, []limitTerms{widest}, true)
	if err != nil {
		return all, err
	}
	if counts[0].Requests == 0 {
		return all, ErrNoRequests
	}
	if r.options.HoldOut > 0 {
		span := r.Log.To.Sub(r.Log.From)
		r.Cut = r.Log.From.Add(time.Duration((1 - r.options.HoldOut) * float64(span)))
	}
	return counts[0], nil
}

func (r *Result) pass(ctx context.Context, tries []candidate, whole bool) (fitted, heldOut []Counts, err error) {
	limits := make([]limitTerms, len(tries))
	for i, t := range tries {
		limits[i] = t.limit(t.count)
	}
	return r.run(ctx, limits, whole)
}

// run replays the log under the limits, side by side: up to the cut or, if whole, to its end. Requests after the
// cut are counted separately.
func (r *Result) run(ctx context.Context, limits []limitTerms, whole bool) (fitted, heldOut []Counts, err error) {
	o := r.options
	snapshot, err := o.compile(limits)
	if err != nil {
		return nil, nil, err
	}
	log, err := o.Open(backtest.Attributes(snapshot, ""))
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	if err := backtest.CheckAttributes(snapshot, "", log); err != nil {
		return nil, nil, err
	}
	store, err := o.NewStore()
	if err != nil {
		return nil, nil, err
	}
	parts := [2]*tallies{newTallies(len(limits)), newTallies(len(limits))}
	part := parts[0]
	run, err := replay.New(replay.Options{Rules: snapshot, Store: store, Observe: func(ob *engine.Observation) { part.observe(ob) }})
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	defer run.Close()
	r.Passes++
	var progress func(int64)
	if o.Progress != nil {
		progress = func(n int64) { o.Progress(r.Passes, log, n) }
	}
	err = backtest.Each(ctx, log, progress, func(q *accesslog.Request) error {
		if !r.Cut.IsZero() && !q.At.Before(r.Cut) {
			if part = parts[1]; !whole {
				return backtest.ErrStop
			}
		}
		_, err := run.Decide(ctx, backtest.RequestOf(q, ""))
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if whole {
		r.Log = log.Stats()
	}
	return parts[0].counts(), parts[1].counts(), backtest.CheckAttributes(snapshot, "", log)
}

// tallies count the effects of candidates. All of them apply to the same requests.
type tallies struct {
	requests int64
	keys     backtest.DistinctCounter
	denied   []int64
	hit      []backtest.DistinctCounter
}

func newTallies(n int) *tallies {
	return &tallies{denied: make([]int64, n), hit: make([]backtest.DistinctCounter, n)}
}

func (t *tallies) observe(o *engine.Observation) {
	if len(o.Matched) == 0 {
		return
	}
	hash := backtest.HashKey(o.Matched[0].Key)
	t.requests++
	t.keys.Add(hash)
	for i := range o.Verdict.Limits {
		if !o.Verdict.Limits[i].Allowed {
			t.denied[i]++
			t.hit[i].Add(hash)
		}
	}
}

func (t *tallies) counts() []Counts {
	all := make([]Counts, len(t.denied))
	for i := range all {
		all[i] = Counts{t.requests, t.denied[i], t.keys.Count(), t.hit[i].Count()}
	}
	return all
}

// finish checks the limits found on the held-out part of the log.
func (r *Result) finish(ctx context.Context, kinds []*kind) error {
	var tries []candidate
	for _, k := range kinds {
		tries = append(tries, candidate{k, k.found})
	}
	var heldOut []Counts
	if !r.Cut.IsZero() {
		var err error
		if _, heldOut, err = r.pass(ctx, tries, true); err != nil {
			return err
		}
	}
	for i, k := range kinds {
		limit := k.limit(k.found)
		f := Suggestion{Algorithm: limit.Algorithm, Count: k.found, Window: k.window.String(), Burst: limit.Burst, Text: limit.Rate, Fitted: k.tried[k.found], Holds: true, limit: limit}
		if limit.Burst > 0 {
			f.Text += fmt.Sprintf(" burst %d", limit.Burst)
		}
		if below, ok := k.tried[k.found-1]; ok {
			f.Tighter = &below
		}
		if heldOut != nil {
			f.HeldOut, f.Holds = &heldOut[i], r.options.isMetBy(heldOut[i])
		}
		r.Limits = append(r.Limits, f)
	}
	for _, count := range slices.Sorted(maps.Keys(kinds[0].tried)) {
		r.Curve = append(r.Curve, Point{count, kinds[0].tried[count]})
	}
	r.Rule = r.options.yaml(r.Limits[0].limit)
	return nil
}
