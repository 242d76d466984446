package httplimit

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// A bufferedBody is a body whose beginning was read. It returns that again, and then the rest. A transport may read it
// while the handler releases it.
type bufferedBody struct {
	read  []byte        // what was read
	next  []byte        // of that, what is to be returned
	rest  io.ReadCloser // the original body
	begun atomic.Bool   // something was returned
	other bool          // it is not JSON: the rest was not read

	budget *bodyBudget
	client string
	memory atomic.Int64 // as counted in the budget

	// interrupt ends a read that waits for the client, so that the memory can be used for others. It is nil for a body
	// that cannot be interrupted, or that must be passed on even if it cannot be read.
	interrupt func()
	dropped   bool // it was interrupted; guarded by the budget
}

func newBufferedBody(body io.ReadCloser, budget *bodyBudget, client string, denies bool) *bufferedBody {
	b := &bufferedBody{rest: body, budget: budget, client: client}
	if i, ok := body.(interface{ Interrupt() }); ok && denies {
		b.interrupt = i.Interrupt
	}
	return b
}

// fill reads the body. It stops beyond the given number of bytes, and if what was read is not wanted.
func (b *bufferedBody) fill(most int64, isWanted func([]byte) bool) error {
	err := b.readUpTo(most, isWanted)
	if b.budget.filled(b) {
		b.read = nil
		return &BodyError{Reason: BodyMemory, Err: fmt.Errorf("the bodies of %s take more than its share", b.client)}
	}
	return err
}

func (b *bufferedBody) readUpTo(most int64, isWanted func([]byte) bool) error {
	wanted := false
	for {
		if len(b.read) == cap(b.read) {
			if err := b.grow(most); err != nil {
				return err
			}
		}
		n, err := b.rest.Read(b.read[len(b.read):cap(b.read)])
		b.read = b.read[:len(b.read)+n]
		if n > 0 && !wanted {
			if b.other = !isWanted(b.read); b.other {
				return nil
			}
			wanted = len(b.read) >= decidedBy
		}
		switch {
		case errors.Is(err, io.EOF) && int64(len(b.read)) <= most:
			return nil
		case err != nil && !errors.Is(err, io.EOF):
			return err
		}
	}
}

// decidedBy is how much of a body tells whether it is JSON.
const decidedBy = 1 << 10

// grow makes room for more than was read.
func (b *bufferedBody) grow(most int64) error {
	const first = 4 << 10
	have := int64(cap(b.read))
	if int64(len(b.read)) > most {
		return &BodyError{Reason: BodyTooLarge, Err: fmt.Errorf("more than %d bytes", most)}
	}
	size := min(max(2*have, first), most+1)
	if err := b.budget.take(b, size-have); err != nil {
		return err
	}
	b.read = append(make([]byte, 0, size), b.read...)
	return nil
}

// Begun reports whether any part of the body was passed on.
func (b *bufferedBody) Begun() bool { return b.begun.Load() }

func (b *bufferedBody) Read(p []byte) (int, error) {
	b.begun.Store(true)
	if len(b.next) == 0 {
		b.read, b.next = nil, nil
		b.release()
		return b.rest.Read(p)
	}
	n := copy(p, b.next)
	b.next = b.next[n:]
	return n, nil
}

// Close closes the original body.
func (b *bufferedBody) Close() error {
	b.release()
	return b.rest.Close()
}

// release stops counting the memory: the body was passed on, or its request has ended.
func (b *bufferedBody) release() {
	if b.memory.Load() > 0 {
		b.budget.release(b)
	}
}
