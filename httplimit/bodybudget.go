package httplimit

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// A bodyBudget bounds the memory of the bodies that are read for their attributes.
//
// No client can make others go without:
//
//   - A client has at most half of the budget.
//   - If the budget is used up, only clients are refused that have more than their share, which is what each would have
//     if all clients with bodies had the same, without the bodies that are complete. For a client with less, bodies of
//     those with more are interrupted.
//   - Bodies that cannot be interrupted, because no rule would deny their requests, have at most half of the budget
//     together, and each client as much as is still free of that.
type bodyBudget struct {
	most int64 // bytes

	mu      sync.Mutex
	bytes   int64
	kept    int64 // of bodies that cannot be interrupted
	clients map[string]*clientBodies
}

// clientBodies are the bodies of one client.
type clientBodies struct {
	bytes   int64
	kept    int64                  // of these, of bodies that cannot be interrupted
	filling map[*bufferedBody]bool // that can be interrupted
}

// take adds memory to a body that is being read.
func (g *bodyBudget) take(b *bufferedBody, n int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.clients[b.client]
	if c == nil {
		c = &clientBodies{filling: map[*bufferedBody]bool{}}
	}
	switch {
	case c.bytes+n > g.most/2:
		return &BodyError{Reason: BodyMemory, Err: fmt.Errorf("the bodies of %s take more than %d bytes", b.client, g.most/2)}
	case b.interrupt == nil && c.kept+n > g.most/2-g.kept, g.bytes+n > g.most && !g.makeRoom(c, b.client, n):
		return &BodyError{Reason: BodyMemory, Err: fmt.Errorf("all bodies take more than %d bytes, and those of %s %d", g.most, b.client, c.bytes)}
	}
	if g.clients == nil {
		g.clients = map[string]*clientBodies{}
	}
	g.clients[b.client] = c
	g.add(c, b, n)
	if b.interrupt != nil {
		c.filling[b] = true
	}
	return nil
}

// add changes what is counted for a body.
func (g *bodyBudget) add(c *clientBodies, b *bufferedBody, n int64) {
	g.bytes += n
	c.bytes += n
	b.memory.Add(n)
	if b.interrupt == nil {
		g.kept += n
		c.kept += n
	}
}

// makeRoom interrupts bodies of clients with more than their share, until an eighth of the budget is free: so not every
// body causes a search during a flood. It reports whether there is room for n bytes of a client.
func (g *bodyBudget) makeRoom(of *clientBodies, name string, n int64) bool {
	clients := int64(len(g.clients))
	if g.clients[name] == nil {
		clients++
	}
	free := g.most - g.bytes // or can be freed
	for _, c := range g.clients {
		for b := range c.filling {
			free += b.memory.Load()
		}
	}
	share := free / clients
	if of.bytes+n > share {
		return false
	}
	above := make([]*clientBodies, 0, clients)
	for _, c := range g.clients {
		if c.bytes > share {
			above = append(above, c)
		}
	}
	slices.SortFunc(above, func(a, b *clientBodies) int { return cmp.Compare(b.bytes, a.bytes) })
	for _, c := range above {
		for b := range c.filling {
			if c.bytes <= share || g.bytes+n <= g.most-g.most/8 {
				break
			}
			g.drop(c, b)
		}
	}
	return g.bytes+n <= g.most
}

// drop interrupts a body. Its memory is free as soon as its reader notices.
func (g *bodyBudget) drop(c *clientBodies, b *bufferedBody) {
	b.dropped = true
	delete(c.filling, b)
	g.add(c, b, -b.memory.Load())
	b.interrupt()
}

// filled ends the time in which a body can be interrupted, and reports whether it was.
func (g *bodyBudget) filled(b *bufferedBody) (dropped bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.clients[b.client]; c != nil {
		delete(c.filling, b)
		g.forget(c, b.client)
	}
	return b.dropped
}

// forget drops a client without bodies.
func (g *bodyBudget) forget(c *clientBodies, name string) {
	if c.bytes == 0 && len(c.filling) == 0 {
		delete(g.clients, name)
	}
}

// release stops counting a body.
func (g *bodyBudget) release(b *bufferedBody) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.clients[b.client]
	if c == nil {
		return
	}
	g.add(c, b, -b.memory.Load())
	g.forget(c, b.client)
}

// used returns how much memory is counted.
func (g *bodyBudget) used() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.bytes
}
