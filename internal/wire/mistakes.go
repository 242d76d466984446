package wire

import (
	"fmt"
	"strings"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/problem"
)

// A Mistake is what is wrong at one place of what was asked.
type Mistake = problem.Mistake

// MaxMistakes is how many are told. What comes after them is not read: it would only cost.
const MaxMistakes = 32

// Mistakes are all that is wrong with what was asked. They wrap [penstock.ErrInvalid].
type Mistakes struct {
	List []Mistake
	More bool // there are some that are not listed
}

func (m *Mistakes) Error() string {
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

func (m *Mistakes) Unwrap() error { return penstock.ErrInvalid }

func (m *Mistakes) add(at, format string, args ...any) {
	if len(m.List) == MaxMistakes {
		m.More = true
		return
	}
	m.List = append(m.List, Mistake{At: at, Message: fmt.Sprintf(format, args...)})
}

// err is nil if there are none: a nil *Mistakes in an error would not be.
func (m *Mistakes) err() error {
	if len(m.List) == 0 {
		return nil
	}
	return m
}
