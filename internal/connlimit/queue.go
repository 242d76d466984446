package connlimit

// A queue is a list of connections, which are linked through themselves: connections become idle and active with every
// request, so that must not allocate.
type queue struct {
	first, last *conn
	links       func(*conn) *links // those of this queue
}

// links are the neighbours of a connection in a queue.
type links struct{ previous, next *conn }

func inAll(c *conn) *links     { return &c.inAll }
func inClients(c *conn) *links { return &c.inClients }

// push appends a connection that is not in the queue.
func (q *queue) push(c *conn) {
	*q.links(c) = links{previous: q.last}
	if q.last != nil {
		q.links(q.last).next = c
	} else {
		q.first = c
	}
	q.last = c
}

// remove removes a connection that is in the queue.
func (q *queue) remove(c *conn) {
	l := q.links(c)
	if l.previous != nil {
		q.links(l.previous).next = l.next
	} else {
		q.first = l.next
	}
	if l.next != nil {
		q.links(l.next).previous = l.previous
	} else {
		q.last = l.previous
	}
	*l = links{}
}
