package rules

import (
	"errors"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
)

// Other files are read by the same grammar, with their errors at their places.
func TestRead(t *testing.T) {
	type note struct {
		Name   string           `rules:"name,required" as:"name: a" max:"5"`
		Reason *penstock.Reason `rules:"reason"`
		Tags   []string         `rules:"tags"`
	}
	var n note
	r := Read("n.yaml", []byte("name: a\nreason: banned\ntags: [x, y]\n"), &n)
	if err := r.Err(); err != nil || n.Name != "a" || *n.Reason != penstock.ReasonBanned || len(n.Tags) != 2 {
		t.Errorf("got %+v, %v", n, err)
	}
	if place, line := r.Place("tags", 1); place != (Position{"n.yaml", 3, 11}) || line != "tags: [x, y]" {
		t.Errorf("got %v, %q", place, line)
	}
	r.Fail("y is too much", "leave it out", "tags", 1)
	if r.Sound("tags") || !r.Sound("name") {
		t.Error("not the tags are wrong")
	}
	if err := r.Err(); !errors.Is(err, penstock.ErrInvalid) || err.Error() != "n.yaml:3:11: y is too much, leave it out\n    tags: [x, y]\n              ^" {
		t.Errorf("got %v", err)
	}

	for text, want := range map[string]string{
		"":                       "1:1: the text is empty\n    \n    ^",
		"name: abcdef":           "1:7: name has 6 bytes, at most 5\n    name: abcdef\n          ^",
		"name: a\nreason: bored": "2:9: reason: unknown reason \"bored\"; one of ok, no_rule, over_limit, banned, deny_list, allow_list, duplicate, store_error, rule_error, blocked\n    reason: bored\n            ^",
	} {
		r := Read("", []byte(text), &note{})
		r.Fail("later", "", "name") // does no harm where there is nothing
		problems := r.Err().(Problems)
		if got := problems[0].String(); len(problems) != 2 || got != want && problems[1].String() != want {
			t.Errorf("%q: got\n%v\nwant\n%s", text, problems, want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	if d, err := ParseDuration("1m30s"); err != nil || d != 90*time.Second {
		t.Errorf("got %v, %v", d, err)
	}
	if d, err := ParseDuration("0s"); err != nil || d != 0 {
		t.Errorf("got %v, %v", d, err)
	}
	if _, err := ParseDuration("1x"); err == nil {
		t.Error("1x is a duration")
	}
}
