package ruledb

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds, in bytes.
const (
	MaxDocument = 32 << 20 // more than a hundred thousand rules
	MaxAuthor   = 200
	MaxMessage  = 4000
	maxAction   = 40
)

// validate reports every error in a change, not only the first.
func (c *Change) validate() error {
	var errs []error
	if c.Base < 0 || c.Base == math.MaxInt64 {
		errs = append(errs, fmt.Errorf("base must be the number of a version, or 0 for the first, got %d", c.Base))
	}
	errs = append(errs, validateName("author", c.Author), validateText("message", c.Message))
	if len(c.Document) > MaxDocument {
		errs = append(errs, fmt.Errorf("the document may have at most %d bytes, got %d", MaxDocument, len(c.Document)))
	} else if !utf8.Valid(c.Document) {
		errs = append(errs, errors.New("the document must be valid UTF-8"))
	}
	return errors.Join(errs...)
}

// validateName checks a person's name: one line, not empty.
func validateName(what, name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return fmt.Errorf("%s must not be empty", what)
	case len(name) > MaxAuthor:
		return fmt.Errorf("%s may have at most %d bytes, got %d", what, MaxAuthor, len(name))
	case !utf8.ValidString(name):
		return fmt.Errorf("%s must be valid UTF-8, got %q", what, name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%s must be one line without control characters, got %q", what, name)
	}
	return nil
}

// validateText checks free text: any number of lines, possibly none.
func validateText(what, text string) error {
	switch {
	case len(text) > MaxMessage:
		return fmt.Errorf("%s may have at most %d bytes, got %d", what, MaxMessage, len(text))
	case !utf8.ValidString(text):
		return fmt.Errorf("%s must be valid UTF-8, got %q", what, text)
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' }):
		return fmt.Errorf("%s must have no control characters except line breaks and tabs, got %q", what, text)
	}
	return nil
}

func validateAction(action string) error {
	known := func(r rune) bool { return r >= 'a' && r <= 'z' || r == '-' }
	if action == "" || len(action) > maxAction || strings.ContainsFunc(action, func(r rune) bool { return !known(r) }) {
		return fmt.Errorf("action must be 1 to %d letters from a to z or dashes, got %q", maxAction, action)
	}
	return nil
}
