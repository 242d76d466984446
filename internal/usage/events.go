package usage

import (
	"bytes"

	"github.com/penstock-io/penstock/internal/jsonscan"
)

// events splits an event stream into the data of its events, each a JSON text.
type events struct {
	to    *jsonscan.Scanner
	count int64 // of events with data

	at      part
	name    int  // how much of the line's beginning is "data"
	hasData bool // of the current event
	wasCR   bool // the last byte was a carriage return: a line feed belongs to it
}

// part is where in a line the stream is.
type part uint8

const (
	inName part = iota
	afterColon
	inData
	inOther // a field or comment without a meaning here
)

const dataField = "data"

// Write reads the next part of the stream.
func (e *events) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if e.at == inData || e.at == inOther {
			if end := bytes.IndexAny(rest, "\r\n"); end != 0 {
				if end < 0 {
					end = len(rest)
				}
				e.content(rest[:end])
				rest = rest[end:]
				continue
			}
		}
		e.step(rest[0])
		rest = rest[1:]
	}
	return len(p), nil
}

func (e *events) content(p []byte) {
	if e.at == inData {
		_, _ = e.to.Write(p) // data that is not JSON, such as [DONE], is ignored
	}
}

func (e *events) step(c byte) {
	wasCR := e.wasCR
	e.wasCR = c == '\r'
	switch {
	case c == '\n' && wasCR:
	case c == '\n' || c == '\r':
		e.endLine()
	case e.at == afterColon:
		e.at = inData
		if c != ' ' {
			e.content([]byte{c})
		}
	case e.name < len(dataField) && c == dataField[e.name]:
		e.name++
	case e.name == len(dataField) && c == ':':
		e.at, e.hasData = afterColon, true
	default:
		e.at = inOther
	}
}

func (e *events) endLine() {
	switch {
	case e.at == inName && e.name == 0: // an empty line ends the event
		if e.hasData {
			e.count++
			e.to.Restart()
		}
		e.hasData = false
	case e.at == inData:
		e.content([]byte{'\n'})
	}
	e.at, e.name = inName, 0
}
