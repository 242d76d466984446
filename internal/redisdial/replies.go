package redisdial

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
)

// maxDepth is how deeply arrays may be nested. CLUSTER SHARDS has five levels.
const maxDepth = 16

// maxText is how much is kept of a text that matters: an error, or one of the first elements of a push.
const maxText = 512

// A reader follows what the server sends. It is used by one goroutine at a time.
type reader struct {
	limits Limits
	book   *book
	broken error // what the server sent wrong

	// The value that is being read.
	part   part
	kind   byte
	line   int  // bytes of its line so far
	cr     bool // the last of them is a carriage return
	rest   int  // bytes left of a string, with its line end
	wanted bool // its text matters
	text   [maxText]byte
	length int // of text

	// The reply or push that it belongs to.
	within   bool
	top      byte // its type
	left     [maxDepth]int
	depth    int
	index    int // of the element of a push
	bytes    int // left for it
	elements int
	event    event
	fields   int // that the text of a message must still have

	// The commands that wait for a reply.
	replies uint64 // complete ones
	sent    uint64 // commands, when that was last looked up
	taken   uint64 // marks
	mark    mark   // of the next command that has one
	refused bool   // the UNSUBSCRIBE before the PING that is waiting
	confirm int    // further confirmations that are expected
}

// types are the types that servers send: neither attributes (|) nor streamed values (; and .).
const types = "$*:+-_#,(=!%~>"

// A part is what comes next.
type part uint8

const (
	partType part = iota
	partLine
	partString
)

// An event is what a push tells.
type event uint8

const (
	eventOther event = iota
	eventSubscribed
	eventUnsubscribed
)

func (r *reader) follow(p []byte) error {
	for len(p) > 0 {
		var err error
		switch r.part {
		case partType:
			r.kind, p = p[0], p[1:]
			err = r.begin()
		case partLine:
			p, err = r.readLine(p)
		case partString:
			p, err = r.readString(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// begin begins a value, whose type was read.
func (r *reader) begin() error {
	if !r.within {
		r.within, r.top, r.bytes, r.elements = true, r.kind, r.limits.Bytes, r.limits.Elements
		r.index, r.event, r.fields = 0, eventOther, 0
		if r.kind != '>' && !r.isAwaited() {
			return errors.New("a reply to no command")
		}
	} else if r.kind == '>' {
		return errors.New("a push within a reply")
	}
	if strings.IndexByte(types, r.kind) < 0 {
		return fmt.Errorf("a value of type %q", r.kind)
	}
	r.part, r.line, r.cr, r.length = partLine, 0, false, 0
	r.wanted = r.depth == 0 || r.top == '>' && r.depth == 1 && r.index < 3
	return r.spend(1)
}

// isAwaited reports whether a command waits for a reply, and looks up its mark.
func (r *reader) isAwaited() bool {
	if r.replies == r.sent {
		r.sent = r.book.sent.Load()
	}
	if r.mark.kind == markNone && r.taken != r.book.marked.Load() {
		r.mark = r.book.next()
		r.taken++
	}
	return r.replies != r.sent
}

// awaited returns the kind of the command that waits for a reply.
func (r *reader) awaited() markKind {
	if r.mark.command != r.replies {
		return markNone
	}
	return r.mark.kind
}

// answered counts a reply.
func (r *reader) answered() {
	if r.awaited() != markNone {
		r.mark = mark{}
	}
	r.replies++
}

func (r *reader) spend(n int) error {
	if r.bytes -= n; r.bytes < 0 {
		return fmt.Errorf("a reply of more than %d bytes", r.limits.Bytes)
	}
	return nil
}

// readLine reads the line of a value: all of it, or the length of what follows.
func (r *reader) readLine(p []byte) (rest []byte, err error) {
	piece, end := p, bytes.IndexByte(p, '\n')
	if end >= 0 {
		piece = p[:end+1]
	}
	if err := r.spend(len(piece)); err != nil {
		return nil, err
	}
	r.line += len(piece)
	longest := longestLine(r.kind)
	if r.wanted || longest < maxText {
		r.length += copy(r.text[r.length:], piece)
	}
	if r.line > longest || r.line == longest && end < 0 {
		return nil, r.invalid()
	}
	if end < 0 {
		r.cr = piece[len(piece)-1] == '\r'
		return nil, nil
	}
	if len(piece) > 1 {
		r.cr = piece[len(piece)-2] == '\r'
	}
	if !r.cr {
		return nil, fmt.Errorf("%w: its line does not end with CR LF", r.invalid())
	}
	r.length = min(r.length, r.line-2)
	return p[end+1:], r.endLine()
}

// longestLine returns the length of the longest line of values of the type, with its end. The library does not read the
// lines of nulls and booleans but skips as many bytes.
func longestLine(kind byte) int {
	switch kind {
	case '+', '-', ',', '(':
		return math.MaxInt
	case '_':
		return len("\r\n")
	case '#':
		return len("t\r\n")
	}
	return maxNumber - 1 // without the type
}

func (r *reader) invalid() error {
	return fmt.Errorf("%.40q", append([]byte{r.kind}, r.text[:r.length]...))
}

// endLine ends a value that is a line, or begins what its line announces.
func (r *reader) endLine() error {
	line := r.text[:r.length]
	isValue, ok := true, true
	switch r.kind {
	case '+', '-', ',', '(':
		return r.endValue()
	case ':':
		ok = isInteger(line)
	case '_':
		ok = len(line) == 0
	case '#':
		ok = len(line) == 1 && (line[0] == 't' || line[0] == 'f')
	case '$', '*':
		isValue = string(line) == "-1" // null in RESP2
	default:
		isValue = false
	}
	if !ok {
		return r.invalid()
	}
	if isValue {
		r.length = 0 // it has no text
		return r.endValue()
	}
	n, ok := parseLength(line)
	if !ok {
		return fmt.Errorf("%w: its length must be from 0 to %d", r.invalid(), maxLength)
	}
	r.length = 0
	if r.kind == '$' || r.kind == '!' || r.kind == '=' {
		r.part, r.rest = partString, n+2
		return r.spend(n + 2)
	}
	return r.beginNested(n)
}

func isInteger(line []byte) bool {
	digits := bytes.TrimPrefix(line, []byte("-"))
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(digits) > 0
}

// readString reads the text of a string, and its line end.
func (r *reader) readString(p []byte) (rest []byte, err error) {
	n := min(r.rest, len(p))
	piece := p[:n]
	if r.wanted {
		r.length += copy(r.text[r.length:], piece[:max(0, min(n, r.rest-2))])
	}
	for i := max(0, r.rest-2); i < n; i++ {
		if piece[i] != "\n\r"[r.rest-i-1] {
			return nil, fmt.Errorf("a string of type %q that does not end with CR LF", r.kind)
		}
	}
	if r.rest -= n; r.rest > 0 {
		return nil, nil
	}
	return p[n:], r.endValue()
}

// beginNested begins an array of n elements, or a map of n pairs.
func (r *reader) beginNested(n int) error {
	if r.kind == '%' {
		n *= 2
	}
	if r.elements -= n; r.elements < 0 {
		return fmt.Errorf("a reply of more than %d elements", r.limits.Elements)
	}
	if r.depth == 0 {
		if err := r.checkSize(n); err != nil {
			return err
		}
	}
	if n == 0 {
		return r.endValue()
	}
	if r.depth == maxDepth {
		return fmt.Errorf("a reply that is nested more than %d levels deep", maxDepth)
	}
	r.part = partType
	r.left[r.depth] = n
	r.depth++
	return nil
}

// checkSize checks the number of elements of a reply. The library reads the first ones without a look at it.
func (r *reader) checkSize(n int) error {
	least := 0
	switch {
	case r.top == '>':
		least = 1
	case r.awaited() == markRole:
		least = 1
	case r.awaited() == markMaster:
		least = 2
	}
	if n < least {
		return fmt.Errorf("an array of %d elements where at least %d are needed", n, least)
	}
	return nil
}

// endValue ends a value, and what it was the last element of.
func (r *reader) endValue() error {
	r.part = partType
	if r.wanted && r.top == '>' && r.depth == 1 {
		r.endOfPush()
	}
	for ; r.depth > 0; r.depth-- {
		if r.depth == 1 {
			r.index++
		}
		if r.left[r.depth-1]--; r.left[r.depth-1] > 0 {
			return nil
		}
	}
	r.within = false
	if r.top == '>' {
		return r.endPush()
	}
	return r.endReply()
}

// endOfPush looks at one of the first elements of a push.
func (r *reader) endOfPush() {
	text := r.text[:r.length]
	switch r.index {
	case 0:
		switch string(text) {
		case "subscribe", "psubscribe", "ssubscribe":
			r.event = eventSubscribed
		case "unsubscribe", "punsubscribe", "sunsubscribe":
			r.event = eventUnsubscribed
		}
	case 1: // a channel: the library reads fields of these sentinels' messages without counting them
		switch string(text) {
		case "+sentinel", "+reboot":
			r.fields = 4
		case "+switch-master":
			r.fields = 5
		}
	case 2:
		if bytes.Count(text, []byte(" ")) >= r.fields-1 {
			r.fields = 0
		}
	}
}

// endPush ends a push. Pushes answer commands only if they confirm subscriptions.
func (r *reader) endPush() error {
	switch {
	case r.event == eventOther && r.fields > 0:
		return fmt.Errorf("a message of sentinels with less than %d fields", r.fields)
	case r.event == eventOther || r.index < 2: // the library ignores it
	case r.confirm > 0:
		r.confirm--
	case r.event == eventSubscribed:
		if !r.isAwaited() || r.awaited() != markSubscribe {
			return errors.New("the confirmation of a subscription that was not asked for")
		}
		r.confirm = r.mark.extra
		r.answered()
	}
	return nil
}

// endReply ends the reply to a command.
func (r *reader) endReply() error {
	isError := r.top == '-' || r.top == '!'
	said := ""
	if isError || r.awaited() != markNone {
		said = string(r.text[:r.length])
	}
	if isError && !isComplete(said) {
		return fmt.Errorf("the error %.40q without its address", said)
	}
	switch r.awaited() {
	case markSubscribe:
		if !isError || said == "QUEUED" {
			return errors.New("a subscription that is neither confirmed nor refused")
		}
	case markUnsubscribe:
		return r.endUnsubscribe(said, isError)
	}
	r.answered()
	return nil
}

// endUnsubscribe ends the reply to the PING that follows an UNSUBSCRIBE. An error before it is about the UNSUBSCRIBE.
func (r *reader) endUnsubscribe(said string, isError bool) error {
	switch {
	case r.top == '+' && said == "PONG" || r.top == '-' && isForPing(said):
		r.refused = false
		r.answered()
		return nil
	case isError && said != "QUEUED" && !r.refused && r.length < maxText:
		r.refused = true
		return nil
	}
	return errors.New("no reply to the PING that ends a subscription")
}

// isComplete reports whether an error that redirects says where. The library reads the address without looking.
func isComplete(said string) bool {
	said = strings.TrimPrefix(said, "ERR ")
	switch {
	case strings.HasPrefix(said, "MOVED"), strings.HasPrefix(said, "ASK"):
		return strings.Count(said, " ") >= 2
	case strings.HasPrefix(said, "REDIRECT"):
		return strings.Count(said, " ") >= 1
	}
	return true
}

// isForPing reports whether the library takes an error for the reply to the PING that ends a subscription.
func isForPing(said string) bool {
	return strings.HasPrefix(said, "LOADING") || strings.HasPrefix(said, "BUSY") || strings.Contains(said, "'ping'")
}
