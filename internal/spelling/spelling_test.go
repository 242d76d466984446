package spelling_test

import (
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/spelling"
)

func TestClosest(t *testing.T) {
	known := []string{"rate", "key", "algorithm", "addresses", "a"}
	for word, want := range map[string]string{
		"rat":                   "rate", // dropped
		"ratee":                 "rate", // added
		"rste":                  "rate", // changed
		"raet":                  "rate", // swapped
		"algoritmh":             "algorithm",
		"adresses":              "addresses",
		"adreses":               "addresses", // two of a longer word
		"rtae2":                 "",          // two of a short one
		"kye":                   "key",
		"b":                     "", // one letter is not near any other
		"":                      "",
		"other":                 "",
		"penstock":              "",
		"algorithmx":            "algorithm",
		strings.Repeat("x", 65): "",
	} {
		if got := spelling.Closest(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := spelling.Closest("rat", []string{"rats", "rate", "rat"}); got != "rat" {
		t.Errorf("of three the nearest is %q, want rat", got)
	}
}
