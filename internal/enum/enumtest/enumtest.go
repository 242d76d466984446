// Package enumtest tests enumerations that are written and read by name.
package enumtest

import (
	"encoding"
	"encoding/json"
	"testing"
)

// ReadBack writes from as JSON and reads it into into.
func ReadBack(t testing.TB, from encoding.TextMarshaler, into encoding.TextUnmarshaler) {
	t.Helper()
	text, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Errorf("%s: %v", text, err)
	}
}
