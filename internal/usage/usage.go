// Package usage reads what a response cost from its body, while the body is streamed: a field of a JSON text or of
// server-sent events. It knows how language models report tokens.
package usage

import (
	"io"
	"math"
	"mime"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-io/penstock/internal/jsonscan"
)

// The token counts that Meter derives from what APIs report. Other fields are taken as they are.
const (
	TotalTokens  = "usage.total_tokens"
	InputTokens  = "usage.input_tokens"
	OutputTokens = "usage.output_tokens"
)

// IsTokens reports whether a field is one of the token counts.
func IsTokens(field string) bool {
	return field == TotalTokens || field == InputTokens || field == OutputTokens
}

// What APIs report, in this order in a Meter. OpenAI's Responses API has the usage in response, and Anthropic's
// Messages API has that of the prompt in message; the last value counts, because both grow.
var reported = []string{"total_tokens", "input_tokens", "prompt_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens", "completion_tokens"}

const (
	total = iota
	input
	prompt
	cacheCreation
	cacheRead
	output
	completion
)

// bytesPerToken is the usual size of a token. It stands in for counts that an API does not report.
const bytesPerToken = 4

// maxNumber bounds the text of a number.
const maxNumber = 64

// A Meter reads a body. Write never fails: bytes that it cannot read only leave the fields unknown. Its memory does
// not depend on the body. It is for one goroutine.
type Meter struct {
	fields  []string  // other than tokens; they follow the reported counts
	text    io.Writer // where the decoded body goes
	decoded *decoder  // nil: the body is not compressed
	events  *events   // nil: the body is not an event stream
	scanner *jsonscan.Scanner
	opaque  bool  // the encoding is unknown
	bytes   int64 // of the body, decoded
}

// New returns a meter of a body with the given Content-Type and Content-Encoding. Close it.
func New(fields []string, contentType, contentEncoding string) *Meter {
	m := &Meter{}
	var paths [][]string
	for _, name := range reported {
		paths = append(paths, []string{"usage." + name, "response.usage." + name, "message.usage." + name})
	}
	for _, field := range fields {
		if !IsTokens(field) && !slices.Contains(m.fields, field) {
			m.fields = append(m.fields, field)
			paths = append(paths, []string{field})
		}
	}
	m.scanner = jsonscan.New(jsonscan.Compile(paths...), maxNumber, true)
	m.text = m.scanner
	if media, _, _ := mime.ParseMediaType(contentType); media == "text/event-stream" {
		m.events = &events{to: m.scanner}
		m.text = m.events
	}
	switch strings.ToLower(strings.TrimSpace(contentEncoding)) {
	case "", "identity":
	case "gzip", "x-gzip":
		m.decoded = newDecoder(m.scan)
	default:
		m.opaque = true
	}
	return m
}

// Write reads the next part of the body.
func (m *Meter) Write(p []byte) {
	switch {
	case m.opaque:
		m.bytes += int64(len(p))
	case m.decoded != nil:
		m.decoded.write(p)
	default:
		m.scan(p)
	}
}

func (m *Meter) scan(p []byte) {
	m.bytes += int64(len(p))
	_, _ = m.text.Write(p) // after an error the scanner ignores the rest
}

// IsStream reports whether the body is an event stream.
func (m *Meter) IsStream() bool { return m.events != nil }

// IsBetweenEvents reports whether an event stream is where an event may be added.
func (m *Meter) IsBetweenEvents() bool {
	return m.events != nil && m.events.at == inName && m.events.name == 0 && !m.events.hasData
}

// Close ends the body. It must be called.
func (m *Meter) Close() {
	if m.decoded != nil {
		m.decoded.close()
	}
	_ = m.scanner.Close() // ends a number at the end of the body
}

// Field returns a number that the body reported, if it did.
func (m *Meter) Field(name string) (n int64, ok bool) {
	switch name {
	case InputTokens:
		return m.input()
	case OutputTokens:
		return m.output()
	case TotalTokens:
		if n, ok := m.number(total); ok {
			return n, true
		}
		in, hasInput := m.input()
		out, hasOutput := m.output()
		return sum(in, out), hasInput && hasOutput
	}
	if i := slices.Index(m.fields, name); i >= 0 {
		return m.number(len(reported) + i)
	}
	return 0, false
}

// input returns the tokens of the prompt. Anthropic counts those from and for its cache apart.
func (m *Meter) input() (n int64, ok bool) {
	if n, ok := m.number(prompt); ok {
		return n, true
	}
	n, ok = m.number(input)
	for _, i := range []int{cacheCreation, cacheRead} {
		more, _ := m.number(i)
		n = sum(n, more)
	}
	return n, ok
}

func (m *Meter) output() (n int64, ok bool) {
	if n, ok := m.number(completion); ok {
		return n, true
	}
	return m.number(output)
}

// Streamed returns how many tokens the body had so far, of a response that did not reach its end, or that does not
// report them: what it reported by then, and at least one for each event; a body that is not an event stream has one
// for every four bytes. A prompt that was not reported counts as given.
func (m *Meter) Streamed(field string, promptTokens int64) int64 {
	if n, ok := m.number(total); ok && field == TotalTokens {
		return n
	}
	in, ok := m.input()
	if !ok {
		in = promptTokens
	}
	out, _ := m.output()
	if out = max(out, m.counted()); field == OutputTokens {
		return out
	}
	if field == InputTokens {
		return in
	}
	return sum(in, out)
}

// counted returns the tokens of the answer so far, by its length.
func (m *Meter) counted() int64 {
	if m.events != nil && !m.opaque {
		return m.events.count
	}
	return PromptTokens(m.bytes)
}

// PromptTokens estimates the tokens of a text by its length.
func PromptTokens(bytes int64) int64 { return (max(bytes, 0) + bytesPerToken - 1) / bytesPerToken }

func (m *Meter) number(i int) (int64, bool) {
	v := m.scanner.Value(i)
	if v.Kind != jsonscan.Number {
		return 0, false
	}
	if n, err := strconv.ParseInt(v.Text, 10, 64); err == nil {
		return n, n >= 0
	}
	n, err := strconv.ParseFloat(v.Text, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	return int64(math.Ceil(min(n, 1<<62))), true
}

// sum adds without overflow.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
