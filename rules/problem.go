package rules

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-io/penstock"
)

// Severity separates errors, which must be fixed, from warnings.
type Severity uint8

const (
	Mistake Severity = iota // the document cannot be used
	Warning                 // the document can be used, but probably does not do what was intended
)

var severityNames = [...]string{"error", "warning"}

func (s Severity) String() string               { return severityNames[min(int(s), len(severityNames)-1)] }
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads "error" or "warning".
func (s *Severity) UnmarshalText(text []byte) error {
	at := slices.Index(severityNames[:], string(text))
	if at < 0 {
		return fmt.Errorf("unknown severity %.64q; one of %v", text, severityNames)
	}
	*s = Severity(at)
	return nil
}

// A Position is a position in a text. Line and column count from 1, columns in characters. Line 0 means that there
// is no text.
type Position struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

func (p Position) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.File == "":
		return fmt.Sprintf("%d:%d", p.Line, p.Column)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// A Problem is one error or warning about a document.
type Problem struct {
	Severity Severity `json:"severity"`
	Path     string   `json:"path,omitempty"` // rules[3].limits[0].rate
	Position
	Text       string `json:"text,omitempty"`        // the line at that place
	TextColumn int    `json:"text_column,omitempty"` // column at which Text begins, for part of a long line; 0: the whole line
	Message    string `json:"message"`
	Hint       string `json:"hint,omitempty"` // suggested fix
}

// String formats the problem as compilers do, with the line and a caret below it.
func (p Problem) String() string {
	var b strings.Builder
	if place := p.Position.String(); place != "" {
		b.WriteString(place + ": ")
	}
	if p.Line == 0 && p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	if p.Severity != Mistake {
		b.WriteString(p.Severity.String() + ": ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString(", " + p.Hint)
	}
	if p.Line > 0 {
		b.WriteString("\n" + excerpt(p.Text, p.Column-max(p.TextColumn-1, 0)))
	}
	return b.String()
}

// excerpt shows the part of a line around a column, and a caret below it.
func excerpt(line string, column int) string {
	const before, most = 60, 100
	text := []rune(line)
	at := min(max(column-1, 0), len(text))
	if at > before {
		text = append([]rune("…"), text[at-before:]...)
		at = before + 1
	}
	if len(text) > most {
		text = append(text[:most:most], '…')
	}
	indent := make([]rune, at)
	for i := range indent {
		indent[i] = ' '
		if text[i] == '\t' {
			indent[i] = '\t'
		}
	}
	return fmt.Sprintf("    %s\n    %s^", string(text), string(indent))
}

// Problems are all errors or warnings found in a document, ordered by place. As an error they wrap
// [penstock.ErrInvalid].
type Problems []Problem

func (p Problems) Error() string {
	texts := make([]string, len(p))
	for i := range p {
		texts[i] = p[i].String()
	}
	return strings.Join(texts, "\n")
}

func (p Problems) Unwrap() error { return penstock.ErrInvalid }

// maxProblems is how many problems of one severity are reported. Reading and compiling stop after that many
// errors, so that the cost of a document is bounded by its size and not by its errors.
const maxProblems = 1000

// problemCollector collects the problems of one document.
type problemCollector struct {
	ctx      context.Context
	stopped  error // the context ended
	steps    int   // work done so far
	checked  int   // step at which the context was last checked
	source   *source
	problems [Warning + 1]Problems // by severity
	untold   [Warning + 1]int
	mistakes int             // reported or not
	broken   map[string]bool // paths at or below which there is an error
}

// copied returns a copy that can be added to without changing f.
func (f *problemCollector) copied() *problemCollector {
	c := *f
	for i := range c.problems {
		c.problems[i] = slices.Clone(c.problems[i])
	}
	c.broken = maps.Clone(c.broken)
	return &c
}

// A valueProblem is a problem with some part of a document, before its place is known.
type valueProblem struct {
	message string
	hint    string
	offset  int // into the scalar concerned, in characters
}

func (c *valueProblem) Error() string {
	if c.hint == "" {
		return c.message
	}
	return c.message + ", " + c.hint
}

func complain(format string, args ...any) *valueProblem {
	return &valueProblem{message: fmt.Sprintf(format, args...)}
}

func (c *valueProblem) suggest(format string, args ...any) *valueProblem {
	c.hint = fmt.Sprintf(format, args...)
	return c
}

func (c *valueProblem) in(offset int) *valueProblem {
	c.offset = offset
	return c
}

func (f *problemCollector) add(severity Severity, at path, where position, c *valueProblem) {
	if severity == Mistake {
		f.mistakes++
		f.mark(at)
	}
	if len(f.problems[severity]) >= maxProblems {
		f.untold[severity]++
		return
	}
	p := Problem{Severity: severity, Path: at.String(), Message: c.message, Hint: c.hint}
	var from int
	if p.Position, p.Text, from = f.source.show(where); from > 1 {
		p.TextColumn = from
	}
	f.problems[severity] = append(f.problems[severity], p)
}

// mark records that a path is invalid, so that nothing further is concluded from it.
func (f *problemCollector) mark(at path) {
	if f.broken == nil {
		f.broken = map[string]bool{}
	}
	for ; len(at) > 0; at = at[:len(at)-1] {
		f.broken[at.String()] = true
	}
}

// checkEvery is the number of steps between two checks of the context.
const checkEvery = 256

// goOn reports whether to read or compile another part of the document. It returns false after too many errors or
// when the context has ended.
func (f *problemCollector) goOn() bool { return f.work(1) }

// work is goOn for several steps.
func (f *problemCollector) work(steps int) bool {
	if f.steps += steps; f.steps-f.checked >= checkEvery {
		f.checked = f.steps
		if f.stopped == nil && f.ctx.Err() != nil {
			f.stopped = context.Cause(f.ctx)
		}
	}
	return f.stopped == nil && f.untold[Mistake] == 0
}

// isValid reports whether no error has been found at or below a path.
func (f *problemCollector) isValid(at path) bool {
	return len(f.broken) == 0 || !f.broken[at.String()]
}

// sorted returns the problems of a severity, ordered by place.
func (f *problemCollector) sorted(severity Severity) Problems {
	problems := f.problems[severity]
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	more := Problem{Severity: severity, Position: Position{File: f.source.name}}
	switch n := f.untold[severity]; {
	case n == 0:
		return problems
	case severity == Mistake:
		more.Message = fmt.Sprintf("checking stopped after %d errors; more are not shown", maxProblems)
	default:
		more.Message = fmt.Sprintf("%d more are not shown", n)
	}
	return append(problems, more)
}
