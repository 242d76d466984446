package race

import "sync"

// outbox holds chunks that have arrived until the receiver reads them. It is unbounded: if the clock waited for
// one slow receiver, all the others, and that receiver's own responses, would wait with it.
type outbox struct {
	mu     sync.Mutex
	filled sync.Cond
	chunks [][]byte
}

func newOutbox() *outbox {
	o := &outbox{}
	o.filled.L = &o.mu
	return o
}

// put adds a chunk and never blocks; nil ends the stream.
func (o *outbox) put(data []byte) {
	o.mu.Lock()
	o.chunks = append(o.chunks, data)
	o.mu.Unlock()
	o.filled.Signal()
}

// take waits for the next chunk.
func (o *outbox) take() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.chunks) == 0 {
		o.filled.Wait()
	}
	data := o.chunks[0]
	o.chunks = o.chunks[1:]
	return data
}
