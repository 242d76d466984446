// Package blocks keeps the blocks that a node enforces, and shares them with the other nodes.
//
// A block is written once and can only be lifted, and a lifted block stays lifted. So merging the blocks of two places
// in any order gives the same result. Each node that reads a shared place (the rules database, Redis) adds what is
// missing there. A place that was down, emptied or restored from a backup therefore recovers by itself, and a node
// enforces the blocks it knows without any of them.
package blocks

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/penstock-io/penstock/engine/blocklist"
	"github.com/penstock-io/penstock/internal/poll"
)

// Interval is the time between two reads of a place. Every node enforces a new block after at most this time and the
// time that the place takes to answer.
const Interval = 500 * time.Millisecond

const (
	maxKept   = 4 * blocklist.MaxBlocks // blocks that a node remembers, including those that were lifted
	keptAfter = time.Hour               // how long a place keeps a block after its end, for nodes whose clock is slow
	patience  = 3 * time.Second         // how long a change waits for the places
	perWrite  = 100                     // blocks
)

// ErrFull is returned if no more keys can be blocked.
var ErrFull = fmt.Errorf("%d keys are blocked, which is the most: lift a block, or put clients on the deny list of the rules", blocklist.MaxBlocks)

// ErrNotFound is returned if no block holds for a key.
var ErrNotFound = errors.New("no such block is in force")

// A Place is where nodes find each other's blocks.
type Place interface {
	String() string

	// Read returns the blocks in the place. With an error, it returns those that it could read.
	Read(context.Context) ([]blocklist.Block, error)

	// Write adds blocks that are not there, marks those that are lifted, and deletes others by their IDs.
	Write(ctx context.Context, put []blocklist.Block, drop []string) error
}

// Options configure a Set.
type Options struct {
	File   string  // keeps the blocks for the next start; "": nothing does
	Places []Place // shared with other nodes
	Log    *slog.Logger
	Now    func() time.Time // for tests; nil: time.Now
}

// A Set is the blocks that a node knows. Its methods may be called from several goroutines.
type Set struct {
	options Options
	list    blocklist.List
	places  []*place

	mu  sync.Mutex
	all map[string]blocklist.Block // by ID; those that have not ended yet

	stop    context.CancelFunc
	running sync.WaitGroup
}

// A place is a Place and how reading it went.
type place struct {
	Place
	mu     sync.Mutex // held while it is read and written
	failed string     // the last error; "": none
	faults faults
}

// Open reads the file, and then follows the places until Close. It does not wait for the places.
func Open(o Options) *Set {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Set{options: o, all: map[string]blocklist.Block{}}
	if o.File != "" {
		there, err := readFile(o.File)
		if err != nil {
			o.Log.Error("cannot read the blocks of the last run", "error", err)
		}
		s.merge(there, new(faults))
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	for _, p := range o.Places {
		follow := &place{Place: p}
		s.places = append(s.places, follow)
		s.running.Go(func() {
			s.follow(ctx, follow)
			poll.Every(ctx, Interval, nil, func() { s.follow(ctx, follow) })
		})
	}
	s.running.Go(func() { poll.Every(ctx, time.Minute, nil, s.prune) })
	return s
}

// Close ends the exchange with the places.
func (s *Set) Close() {
	s.stop()
	s.running.Wait()
}

// List finds the block of a request, for the engine.
func (s *Set) List() *blocklist.List { return &s.list }

// InForce returns the blocks that hold now, the newest first.
func (s *Set) InForce() []blocklist.Block {
	s.mu.Lock()
	found := s.inForce()
	s.mu.Unlock()
	slices.SortFunc(found, func(a, b blocklist.Block) int { return cmp.Or(b.From.Compare(a.From), cmp.Compare(a.ID, b.ID)) })
	return found
}

// inForce returns the blocks that hold now, in any order.
func (s *Set) inForce() []blocklist.Block {
	found, now := []blocklist.Block{}, s.options.Now()
	for _, b := range s.all {
		if b.Holds(now) {
			found = append(found, b)
		}
	}
	return found
}

// Add blocks a key from now on. It replaces an earlier block of the same key, and sets ID, From and the form of the
// value. The block is enforced by this node at once. unshared are the reasons why other nodes may not know it yet; the
// exchange is retried.
func (s *Set) Add(ctx context.Context, b blocklist.Block, length time.Duration) (_ blocklist.Block, unshared []error, err error) {
	b.ID, b.From, b.Value = rand.Text()[:12], s.options.Now().UTC().Truncate(time.Millisecond), blocklist.Canonical(b.Value)
	b.Until = b.From.Add(length)
	if err := b.Validate(); err != nil {
		return b, nil, err
	}
	if !s.replace(b) {
		return b, nil, ErrFull
	}
	return b, s.share(ctx), nil
}

// replace adds a block and lifts those of the same key, unless too many other keys are blocked.
func (s *Set) replace(b blocklist.Block) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	others := slices.DeleteFunc(s.inForce(), func(other blocklist.Block) bool { return other.SameKey(&b) })
	if len(others) >= blocklist.MaxBlocks {
		return false
	}
	s.lift(func(other *blocklist.Block) bool { return other.SameKey(&b) }, b.Author)
	return s.put(b)
}

// Lift ends blocks before their time, and returns them. There must be at least one.
func (s *Set) Lift(ctx context.Context, which func(*blocklist.Block) bool, by string) (lifted []blocklist.Block, unshared []error, err error) {
	s.mu.Lock()
	lifted = s.lift(which, by)
	s.mu.Unlock()
	if len(lifted) == 0 {
		return nil, nil, ErrNotFound
	}
	return lifted, s.share(ctx), nil
}

func (s *Set) lift(which func(*blocklist.Block) bool, by string) (lifted []blocklist.Block) {
	for _, b := range s.inForce() {
		if which(&b) {
			b.LiftedBy = by
			s.put(b)
			lifted = append(lifted, b)
		}
	}
	return lifted
}

// share saves the blocks here and in every place. It returns an error for each that does not have them yet.
func (s *Set) share(ctx context.Context) (unshared []error) {
	if err := s.enforce(); err != nil {
		unshared = append(unshared, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	results := make(chan error, len(s.places))
	for _, p := range s.places {
		s.running.Go(func() { results <- s.sync(ctx, p) })
	}
	for range s.places {
		select {
		case err := <-results:
			if err != nil {
				unshared = append(unshared, err)
			}
		case <-ctx.Done():
			return append(unshared, fmt.Errorf("share the blocks: no answer for %v", patience))
		}
	}
	return unshared
}

// put adds a block, or replaces the one with its ID. Among too many, it forgets the lifted one that ends first.
func (s *Set) put(b blocklist.Block) bool {
	if _, known := s.all[b.ID]; !known && len(s.all) >= maxKept && !s.forgetLifted() {
		return false
	}
	s.all[b.ID] = b
	return true
}

func (s *Set) forgetLifted() bool {
	first := blocklist.Block{}
	for _, b := range s.all {
		if b.LiftedBy != "" && (first.ID == "" || b.Until.Before(first.Until)) {
			first = b
		}
	}
	delete(s.all, first.ID)
	return first.ID != ""
}

// merge takes over blocks that this node does not know, and lifts those that others have lifted.
func (s *Set) merge(there []blocklist.Block, f *faults) (changed bool) {
	s.mu.Lock()
	now := s.options.Now()
	var invalid error // of the first invalid block
	ignored, surplus := 0, 0
	for _, b := range there {
		known, ok := s.all[b.ID]
		if ok && (known.LiftedBy != "" || b.LiftedBy == "") || !now.Before(b.Until) {
			continue
		}
		if err := b.Validate(); err != nil {
			if ignored++; invalid == nil {
				invalid = fmt.Errorf("block %.80q: %w", b.ID, err)
			}
			continue
		}
		if !ok && surplus > 0 || !s.put(b) { // once there is no room, there is none in this look
			surplus++
			continue
		}
		changed = true
	}
	s.tell(f, faults{ignored, surplus}, invalid)
	s.mu.Unlock()
	if changed {
		if err := s.enforce(); err != nil {
			s.options.Log.Warn("blocks are not kept for the next start", "error", err)
		}
	}
	return changed
}

// faults are how many blocks of a place are not enforced.
type faults struct{ invalid, surplus int }

// tell logs how many blocks of a place are not enforced, with the first reason, when there are some or twice as many:
// places are read twice a second, and anyone who can write to them could fill the log. logged is what was logged last.
func (s *Set) tell(logged *faults, now faults, invalid error) {
	if now.invalid >= max(1, 2*logged.invalid) {
		s.options.Log.Warn("invalid blocks ignored", "blocks", now.invalid, "first", invalid)
		logged.invalid = now.invalid
	}
	if now.surplus >= max(1, 2*logged.surplus) {
		s.options.Log.Error("blocks not enforced: too many are known", "blocks", now.surplus, "known", len(s.all))
		logged.surplus = now.surplus
	}
	if now.invalid == 0 {
		logged.invalid = 0
	}
	if now.surplus == 0 {
		logged.surplus = 0
	}
}

// prune forgets the blocks that have ended.
func (s *Set) prune() {
	s.mu.Lock()
	before, now := len(s.all), s.options.Now()
	maps.DeleteFunc(s.all, func(_ string, b blocklist.Block) bool { return !now.Before(b.Until) })
	changed := len(s.all) != before
	s.mu.Unlock()
	if changed {
		_ = s.enforce() // the file lists blocks that have ended; the next start forgets them
	}
}

// enforce passes the blocks on to the engine, and keeps them in the file.
func (s *Set) enforce() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list.Set(s.inForce())
	if s.options.File == "" {
		return nil
	}
	kept := slices.AppendSeq([]blocklist.Block{}, maps.Values(s.all)) // not nil, which is null in the file
	slices.SortFunc(kept, func(a, b blocklist.Block) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.ID, b.ID)) })
	return writeFile(s.options.File, kept)
}

// follow exchanges the blocks with a place, and logs when that begins or ceases to fail.
func (s *Set) follow(ctx context.Context, p *place) {
	err := s.sync(ctx, p)
	if ctx.Err() != nil {
		return
	}
	failed := ""
	if err != nil {
		failed = err.Error()
	}
	switch {
	case failed == p.failed:
	case failed == "":
		s.options.Log.Info("blocks are shared again", "through", p.String())
	case p.failed == "":
		s.options.Log.Warn("cannot share blocks, enforcing those that are known", "through", p.String(), "error", err)
	}
	p.failed = failed
}

// sync merges what a place has, and gives it what it lacks.
func (s *Set) sync(ctx context.Context, p *place) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	there, err := p.Read(ctx)
	s.merge(there, &p.faults)
	if err != nil {
		return err
	}
	put, drop := s.missing(there)
	for len(put)+len(drop) > 0 {
		n := min(perWrite, len(put))
		if err := p.Write(ctx, put[:n], drop); err != nil {
			return err
		}
		put, drop = put[n:], nil
	}
	return nil
}

// missing returns what a place lacks, and which of its blocks ended long ago.
func (s *Set) missing(there []blocklist.Block) (put []blocklist.Block, drop []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Now()
	lifted := make(map[string]bool, len(there))
	for _, b := range there {
		lifted[b.ID] = b.LiftedBy != ""
		if now.Sub(b.Until) > keptAfter {
			drop = append(drop, b.ID)
		}
	}
	for _, b := range s.all {
		if isLifted, ok := lifted[b.ID]; !ok || b.LiftedBy != "" && !isLifted {
			put = append(put, b)
		}
	}
	return put, drop
}
