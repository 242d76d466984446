package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/poll"
)

// Most is the maximum plausible number of nodes. A larger count is an error.
const Most = 10_000

// Options of a membership.
type Options struct {
	// ID distinguishes this node from all others, whatever their names.
	ID string

	// Self returns the facts about this node. It is called before every heartbeat, by one goroutine at a
	// time.
	Self func() Node

	// Beat sends the facts about this node, and returns how many nodes are alive and their facts. nil: there
	// is no shared place, and this node is alone.
	Beat func(ctx context.Context, about string) (nodes int, peers []Peer, err error)

	// Leave announces that this node shuts down; nil: the others notice a little later.
	Leave func(context.Context) error

	// File keeps the last number for the next start; "": it is not kept. Failed is called if it cannot be
	// written.
	File   string
	Failed func(error)

	Interval time.Duration // between two heartbeats; default 3 s
	Timeout  time.Duration // of one; default 1 s
}

// A Peer is a node as returned by Beat.
type Peer struct {
	ID, About string
	Ago       time.Duration // since its last heartbeat
}

// Members are the current nodes. They are safe for concurrent use.
type Members struct {
	options Options
	nodes   atomic.Int64
	known   atomic.Pointer[[]KnownNode] // this node first
	stop    context.CancelFunc
	ended   sync.WaitGroup
}

// Join starts the heartbeats. Before the first one the number is the last one on disk, or 1.
func Join(o Options) (*Members, error) {
	if o.Self == nil || !IsWord(o.ID) || o.Interval < 0 || o.Timeout < 0 {
		return nil, fmt.Errorf("join the nodes: %w: it needs what to say of itself, an ID that is a word, not %.80q, and interval %v and timeout %v must be positive",
			penstock.ErrInvalid, o.ID, o.Interval, o.Timeout)
	}
	o.Interval, o.Timeout = cmp.Or(o.Interval, 3*time.Second), cmp.Or(o.Timeout, time.Second)
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	m := &Members{options: o}
	m.nodes.Store(1)
	if o.File != "" {
		if n, err := read(o.File); err == nil {
			m.nodes.Store(n)
		} else if !errors.Is(err, os.ErrNotExist) {
			o.Failed(err)
		}
	}
	self := o.Self()
	m.update(&self, nil)
	var ctx context.Context
	ctx, m.stop = context.WithCancel(context.Background())
	m.ended.Go(func() {
		m.beat(ctx, &self)
		poll.Every(ctx, o.Interval, nil, func() {
			self := o.Self()
			m.beat(ctx, &self)
		})
	})
	return m, nil
}

// Nodes returns how many nodes there are, including this one, as far as known.
func (m *Members) Nodes() int { return int(m.nodes.Load()) }

// Close stops the heartbeats, and tells the other nodes.
func (m *Members) Close() {
	m.stop()
	m.ended.Wait()
	if m.options.Leave == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), m.options.Timeout)
	defer cancel()
	_ = m.options.Leave(ctx) // the others notice anyway
}

// beat keeps the number and the facts of the others if the shared place is unavailable: that is when they are
// needed.
func (m *Members) beat(ctx context.Context, self *Node) {
	if m.options.Beat == nil {
		m.update(self, nil)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.options.Timeout)
	defer cancel()
	n, peers, err := m.options.Beat(ctx, self.write())
	if err != nil { // requests will notice too
		cut := *self
		cut.Quality = Degraded
		m.rememberOthers(&cut)
		return
	}
	if n < 1 || n > Most {
		m.rememberOthers(self)
		return
	}
	m.update(self, peers)
	if m.nodes.Swap(int64(n)) == int64(n) || m.options.File == "" {
		return
	}
	if err := write(m.options.File, n); err != nil {
		m.options.Failed(err)
	}
}
