package redisdial

import (
	"errors"
	"sync"
	"sync/atomic"
)

// A book keeps which commands were written, for the goroutine that reads the replies.
type book struct {
	sent   atomic.Uint64 // commands that have a reply
	marked atomic.Uint64 // marks that were ever added
	mu     sync.Mutex
	marks  []mark
}

// A mark says what to know about a command when its reply arrives. Most commands have none.
type mark struct {
	command uint64 // its number, from 0
	kind    markKind
	extra   int // confirmations after the first one
}

type markKind uint8

const (
	markNone        markKind = iota
	markSubscribe            // its reply are pushes, one for each channel
	markUnsubscribe          // of the PING that follows an UNSUBSCRIBE: it ends the pushes
	markRole                 // the library reads its first element
	markMaster               // SENTINEL GET-MASTER-ADDR-BY-NAME: the library reads its first two
)

func (b *book) add(m mark) {
	b.mu.Lock()
	b.marks = append(b.marks, m)
	b.mu.Unlock()
	b.marked.Add(1)
}

// next removes the oldest mark.
func (b *book) next() mark {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.marks[0]
	b.marks = b.marks[1:]
	return m
}

// A writer follows the commands that the client library writes: arrays of bulk strings, cut anywhere.
type writer struct {
	book

	words int // left in the command
	skip  int // bytes left of a word, with its line end
	line  length

	number  int // of the word in the command, from 0
	args    int // words of the command
	first   word
	second  word
	unsub   bool // the command before was an UNSUBSCRIBE, which has no reply of its own
	hello2  bool // HELLO 2 was sent
	hello3  bool
	written uint64
}

// A word is the beginning of a word, in upper case.
type word struct {
	b [len("GET-MASTER-ADDR-BY-NAME") + 1]byte // the longest that matters, and one to tell it from longer ones
	n int
}

func (w *word) keep(p []byte) {
	for _, c := range p[:min(len(p), len(w.b)-w.n)] {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		w.b[w.n] = c
		w.n++
	}
}

var errCommand = errors.New("the client library wrote something that is no command")

// ErrOldPubSub is returned for subscriptions to servers without RESP3.
var ErrOldPubSub = errors.New("subscriptions need RESP3, which servers have since Redis 6")

func (w *writer) follow(p []byte) error {
	for len(p) > 0 {
		switch {
		case w.skip > 0:
			n := min(w.skip, len(p))
			switch w.number {
			case 0:
				w.first.keep(p[:max(0, min(n, w.skip-2))])
			case 1:
				w.second.keep(p[:max(0, min(n, w.skip-2))])
			}
			p = p[n:]
			if w.skip -= n; w.skip == 0 {
				if err := w.endWord(); err != nil {
					return err
				}
			}
		default:
			rest, whole, ok := w.line.read(p)
			if !ok || whole && !w.begin() {
				return errCommand
			}
			p = rest
		}
	}
	return nil
}

// begin begins a command or a word, whose head was read.
func (w *writer) begin() bool {
	kind, n, ok := w.line.take()
	switch {
	case !ok:
		return false
	case w.words == 0:
		w.words, w.args, w.number = n, n, 0
		w.first.n, w.second.n = 0, 0
		return kind == '*' && n > 0
	}
	w.skip = n + 2
	return kind == '$'
}

func (w *writer) endWord() error {
	w.number++
	if w.words--; w.words > 0 {
		return nil
	}
	m := mark{command: w.written}
	switch string(w.first.b[:w.first.n]) {
	case "HELLO":
		switch string(w.second.b[:w.second.n]) {
		case "2":
			w.hello2 = true
		case "3":
			w.hello3 = true
		}
	case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE":
		m.kind, m.extra = markSubscribe, w.args-2
	case "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE":
		w.unsub = true
		return w.modern()
	case "ROLE":
		m.kind = markRole
	case "SENTINEL":
		if string(w.second.b[:w.second.n]) == "GET-MASTER-ADDR-BY-NAME" {
			m.kind = markMaster
		}
	}
	if w.unsub {
		w.unsub, m.kind = false, markUnsubscribe
	}
	if m.kind == markSubscribe {
		if err := w.modern(); err != nil {
			return err
		}
	}
	if m.kind != markNone {
		w.book.add(m)
	}
	w.written++
	w.book.sent.Store(w.written)
	return nil
}

// modern returns an error on a connection that the library made for subscriptions in RESP2: there it takes any array
// for a message.
func (w *writer) modern() error {
	if w.hello2 && !w.hello3 {
		return ErrOldPubSub
	}
	return nil
}

// A length reads the head of an array or a string: a type, a number and a line end.
type length struct {
	b [maxNumber]byte
	n int
}

// maxNumber is the length of the longest head, with its line end.
const maxNumber = len("*-9223372036854775808\r\n")

// read reads up to the end of the line. It returns false if the line is too long.
func (l *length) read(p []byte) (rest []byte, whole, ok bool) {
	for i, c := range p {
		if l.n == len(l.b) {
			return nil, false, false
		}
		l.b[l.n] = c
		l.n++
		if c == '\n' {
			return p[i+1:], true, true
		}
	}
	return nil, false, true
}

// take returns the type and the number that were read, which must not be negative, and forgets them.
func (l *length) take() (kind byte, n int, ok bool) {
	b := l.b[:l.n]
	l.n = 0
	if len(b) < 4 || b[len(b)-2] != '\r' {
		return 0, 0, false
	}
	n, ok = parseLength(b[1 : len(b)-2])
	return b[0], n, ok
}

// maxLength is the longest length that is read: the longest that Redis allows for a string.
const maxLength = 512 << 20

func parseLength(b []byte) (n int, ok bool) {
	if len(b) == 0 || len(b) > 10 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, n <= maxLength
}
