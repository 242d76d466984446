// Package secret has the type of texts that must not be shown.
package secret

import (
	"fmt"
	"io"
	"log/slog"
)

// Redacted stands for a secret wherever it would be shown.
const Redacted = "[redacted]"

// A Text is a secret, such as a password. Nothing prints it, encodes it or logs it; string(t) is the secret. An empty
// text is no secret and is shown as such.
//
// Where fmt cannot call methods, in unexported fields that are printed with their struct, it would print a Text like
// any string: print such structs by a method of their own.
type Text string

// String returns Redacted.
func (t Text) String() string {
	if t == "" {
		return ""
	}
	return Redacted
}

// GoString implements fmt.GoStringer.
func (t Text) GoString() string { return `"` + t.String() + `"` }

// Format implements fmt.Formatter, for every verb.
func (t Text) Format(s fmt.State, verb rune) {
	if text := t.String(); verb == 'q' || verb == 'v' && s.Flag('#') {
		fmt.Fprintf(s, "%q", text)
	} else {
		io.WriteString(s, text)
	}
}

// LogValue implements slog.LogValuer.
func (t Text) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText implements encoding.TextMarshaler, and with it what JSON, YAML and XML write.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }

// MarshalYAML implements the interface of YAML encoders.
func (t Text) MarshalYAML() (any, error) { return t.String(), nil }
