package wire

import (
	"fmt"
	"strings"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/problem"
)

// A FieldError is an error at one position of a request.
type FieldError = problem.FieldError

// MaxMistakes is how many errors are reported. The rest of the request is then not read.
const MaxMistakes = 32

// FieldErrors are all errors of a request. They wrap [penstock.ErrInvalid].
type FieldErrors struct {
	List []FieldError
	More bool // some are not listed
}

func (m *FieldErrors) Error() string {
	var b strings.Builder
	for i, mistake := range m.List {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(mistake.String())
	}
	if m.More {
		b.WriteString("; and more")
	}
	return b.String()
}

func (m *FieldErrors) Unwrap() error { return penstock.ErrInvalid }

// Add adds an error, unless there are MaxMistakes already.
func (m *FieldErrors) Add(at, format string, args ...any) {
	if len(m.List) == MaxMistakes {
		m.More = true
		return
	}
	m.List = append(m.List, FieldError{At: at, Message: fmt.Sprintf(format, args...)})
}

// Err returns nil if there are none, and not an error that holds a nil *FieldErrors.
func (m *FieldErrors) Err() error {
	if len(m.List) == 0 {
		return nil
	}
	return m
}
