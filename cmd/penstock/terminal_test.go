package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/penstock-io/penstock/internal/admin"
)

// What clients send does not reach the terminal as it is, neither in a line nor in JSON, and imitates no other field.
func TestVerdictsAreSafeToPrint(t *testing.T) {
	odd := "a\x1b[2J\u009b1m\u202e\u2066\U000e0001\n x=\"1\""
	e := &admin.Event{Rule: "r", Attributes: admin.Attributes{odd: odd, "user-id": "alice"}}
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	line, document := eventText(e), escapeJSON(data)
	for _, text := range []string{line, document} {
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q", text)
		}
	}
	if !strings.Contains(line, `user-id="alice"`) || strings.Contains(line, ` x="1"`) {
		t.Errorf("%s", line)
	}
	var before, after any
	if json.Unmarshal(data, &before) != nil || json.Unmarshal([]byte(document), &after) != nil {
		t.Fatalf("invalid JSON: %s", document)
	}
	if !reflect.DeepEqual(before, after) {
		t.Errorf("%v became %v", before, after)
	}
}
