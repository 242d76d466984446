//go:build linux

package survive

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// A line is a connection on which a test speaks HTTP/1.1 by itself.
type line struct {
	net.Conn
	from *bufio.Reader
}

// dial connects for as long as the test lasts. It returns nil if it cannot.
func dial(t *testing.T, address string) *line {
	conn, err := net.DialTimeout("tcp", address, 2*patience)
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(2 * patience))
	return &line{conn, newBuffer(conn)}
}

// A reply is a response.
type reply struct {
	status int
	header http.Header
	body   []byte
	closes bool // the connection ends with it
}

// read returns the next response.
func (l *line) read() (reply, error) {
	res, err := http.ReadResponse(l.from, nil)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, body, res.Close}, err
}

// converse sends a text on a connection of its own and returns what is answered until the gateway
// closes it.
func converse(t *testing.T, address, text string) (replies []reply) {
	l := dial(t, address)
	if l == nil {
		return nil
	}
	defer l.Close()
	go io.WriteString(l, text) // all of it is not always wanted; Close ends it
	for {
		r, err := l.read()
		if r.status != 0 {
			replies = append(replies, r)
		}
		if err != nil {
			return replies
		}
	}
}

// ask sends a request and returns the answer, which may come before all is sent. The line is closed
// if it cannot be used again.
func (l *line) ask(text string) (reply, error) {
	l.SetDeadline(time.Now().Add(2 * patience))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		io.WriteString(l, text) // if it fails, there is still an answer to be had, or none
	}()
	r, err := l.read()
	if err != nil || r.closes {
		l.Close()
	}
	<-sent
	return r, err
}

// ask sends requests one after the other on connections that are kept as long as the gateway keeps
// them, and hands each answer to got.
func ask(t *testing.T, address string, texts []string, got func(text string, r reply)) {
	const workers = 4
	lines := make(chan *line, workers)
	for range workers {
		lines <- nil
	}
	inParallel(texts, workers, func(text string) {
		l := <-lines
		if l == nil {
			l = dial(t, address)
		}
		if l == nil {
			lines <- nil
			return
		}
		r, err := l.ask(text)
		if err != nil {
			t.Errorf("%.300q: %v", text, err)
		} else {
			got(text, r)
		}
		if err != nil || r.closes {
			l = nil
		}
		lines <- l
	})
	for range workers {
		if l := <-lines; l != nil {
			l.Close()
		}
	}
}

func newBuffer(conn net.Conn) *bufio.Reader { return bufio.NewReaderSize(conn, 512) }
