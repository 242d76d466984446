package redisstore

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A pendingTicket is a ticket in flight. It holds a copy, because a caller that gives up may reuse its ticket while
// a run still carries it.
type pendingTicket struct {
	ticket storage.Ticket
	flat   []algorithm.Charge // backs ticket.Groups
	since  int64              // when it began to wait, see clock
	until  callerDeadline
	watchEntry

	items     int  // states that decide it
	replySize int  // bytes of the script's reply for them
	guarded   bool // some group has guards

	hold uint64 // identifies what is taken, so that it can be undone; 0: not needed

	now    algorithm.Instant
	reply  string
	err    error
	found  []storage.ChargeResult
	sights []storage.GuardResult
}

var calls = sync.Pool{New: func() any { return &pendingTicket{watchEntry: watchEntry{wake: make(chan wakeReason, 2)}} }}

func newCall(t *storage.Ticket) *pendingTicket {
	c := calls.Get().(*pendingTicket)
	c.flat = c.flat[:0]
	c.items, c.replySize, c.guarded = 0, 0, false
	for i := range t.Groups {
		g := &t.Groups[i]
		c.flat = append(c.flat, g.Charges...)
		c.items += itemsOf(g)
		c.guarded = c.guarded || g.Guarded()
		for j := range g.Charges {
			if g.Charges[j].Overdraw {
				c.replySize += amountSize
			}
		}
	}
	c.replySize += c.items * itemSize
	groups := append(c.ticket.Groups[:0], t.Groups...)
	c.ticket = *t
	c.ticket.Groups = groups
	flat := c.flat
	for i := range groups {
		n := len(groups[i].Charges)
		groups[i].Charges, flat = flat[:n:n], flat[n:]
	}
	c.err, c.reply, c.hold = nil, "", 0
	return c
}

// settle fills the outcome of the ticket from the script's reply.
func (c *pendingTicket) settle(t *storage.Ticket, out *storage.Outcome) {
	sights := c.sights
	if !c.guarded {
		sights = nil
	}
	out.Settle(t, c.now, c.found, sights)
}

// A lane carries calls whose keys may share a script run.
type lane struct {
	mu      sync.Mutex
	waiting []*pendingTicket
	running int
}

// enter queues the call and reports whether its caller must lead: send a run itself, because fewer than
// enough runs are in flight. A run takes everything that is waiting when it starts, so calls gather only
// while they would have to wait anyway.
func (l *lane) enter(c *pendingTicket, enough int) (lead, alone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, c)
	if l.running < enough {
		l.running++
		return true, l.running == 1
	}
	return false, false
}

// sendRun sends the run that the caller's own call leaves with. A goroutine sends what has gathered in the
// meantime, so no caller works for others after its own answer has arrived. A single call runs under its
// caller's context. A shared run does not end when one of its callers gives up, and it holds no caller
// longer than that caller can wait.
func (l *lane) sendRun(ctx context.Context, s *Store, c *pendingTicket, alone bool) {
	r := s.requests.Get().(*request)
	if !alone {
		l.gather()
	}
	batch := l.next(r)
	if len(batch) == 0 { // another run has taken the call
		s.requests.Put(r)
		return
	}
	if len(batch) > 1 || batch[0] != c { // the run is shared, so the caller's deadline does not apply
		go l.run(s, r, batch)
		return
	}
	took := s.send(ctx, r, batch)
	if alone && took > 0 {
		s.pace.observe(took)
	}
	if more := l.next(r); len(more) > 0 {
		go l.run(s, r, more)
		return
	}
	s.requests.Put(r)
}

// run sends runs until the queue is empty.
func (l *lane) run(s *Store, r *request, batch []*pendingTicket) {
	for len(batch) > 0 {
		s.send(context.Background(), r, batch)
		l.gather()
		batch = l.next(r)
	}
	s.requests.Put(r)
}

// gather lets other goroutines run for as long as calls join the queue. While the process is busy, runs are then fewer
// and larger, which costs it and Redis less. While it is not, there is nobody to wait for.
func (l *lane) gather() {
	for before := -1; ; {
		l.mu.Lock()
		now := len(l.waiting)
		l.mu.Unlock()
		if now == before || now >= maxRunTickets {
			return
		}
		before = now
		runtime.Gosched()
	}
}

// remove removes a call that has not been sent, and reports whether it did.
func (l *lane) remove(c *pendingTicket) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, c)
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	return true
}

// next takes the calls of the next run off the queue. If there are none, the run is over.
func (l *lane) next(r *request) []*pendingTicket {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch, items := r.batch[:0], 0
	for _, c := range l.waiting {
		items += c.items
		if len(batch) == maxRunTickets || len(batch) > 0 && items > maxRunItems {
			break
		}
		batch = append(batch, c)
	}
	if len(batch) == 0 {
		l.running--
	}
	n := copy(l.waiting, l.waiting[len(batch):])
	clear(l.waiting[n:])
	l.waiting = l.waiting[:n]
	r.batch = batch
	return batch
}

// send decides the calls in one script run and gives each its result. It returns how long the answer took,
// or 0 if there was none. It also sends calls that have waited long: a call whose caller has given up has
// left the queue.
func (s *Store) send(ctx context.Context, r *request, batch []*pendingTicket) (took time.Duration) {
	now := time.Now()
	s.runs.Add(1)
	s.tickets.Add(int64(len(batch)))
	keys, arg := r.pack(batch, s.prefix, algorithm.InstantOf(now))
	conn := s.conns.Load()
	if conn.direct == conn.pipelined { // otherwise the connection has a deadline
		var cancel context.CancelFunc
		ctx, cancel = s.withLimit(ctx, conn.wires)
		defer cancel()
	}
	reply, err := s.eval(ctx, conn.direct, &s.script, keys, arg)
	if err == nil {
		took = time.Since(now)
		err = split(reply, batch)
	}
	for _, c := range batch {
		c.err = err
		c.wake <- finished
	}
	clear(batch)
	return took
}
