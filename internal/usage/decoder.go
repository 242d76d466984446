package usage

import (
	"compress/gzip"
	"io"
)

// maxDecoded bounds how much of a compressed body is read, so that a small body cannot keep a node busy.
const maxDecoded = 1 << 30

// A decoder decompresses what is written to it. Decompressing pulls and a response is pushed, so a goroutine is
// between the two. It is done with all that it can decode when write returns.
type decoder struct {
	to    func([]byte)
	parts chan []byte   // the next part of the body, or nil at its end
	needs chan struct{} // the reader wants the next part
	ended chan struct{} // the reader wants no more
	part  []byte
}

func newDecoder(to func([]byte)) *decoder {
	d := &decoder{to: to, parts: make(chan []byte), needs: make(chan struct{}), ended: make(chan struct{})}
	go d.run()
	d.pause()
	return d
}

func (d *decoder) run() {
	defer close(d.ended)
	z, err := gzip.NewReader(d)
	if err != nil {
		return
	}
	_, _ = io.CopyN(writerFunc(d.to), z, maxDecoded)
}

// pause waits until the reader wants more, or none.
func (d *decoder) pause() {
	select {
	case <-d.needs:
	case <-d.ended:
	}
}

// Read implements io.Reader for gzip.
func (d *decoder) Read(p []byte) (int, error) {
	if len(d.part) == 0 {
		d.needs <- struct{}{}
		if d.part = <-d.parts; d.part == nil {
			return 0, io.ErrUnexpectedEOF
		}
	}
	n := copy(p, d.part)
	d.part = d.part[n:]
	return n, nil
}

func (d *decoder) write(p []byte) {
	if len(p) == 0 {
		return
	}
	select {
	case d.parts <- p:
		d.pause()
	case <-d.ended:
	}
}

func (d *decoder) close() {
	select {
	case d.parts <- nil:
		<-d.ended
	case <-d.ended:
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}
