package rls

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/bounds"
)

// keptBytes is how much of a long value remains at its start and at its end, for patterns to match.
const keptBytes = 4000

// Countable returns entries whose values the engine accepts. It shortens a longer value to its start, its SHA-256 and
// its end, so that it is counted like any other. An error would not do: clients choose the values, and Envoy lets
// requests pass if the answer is an error.
func Countable(entries []penstock.Attribute) []penstock.Attribute {
	isLong := func(e penstock.Attribute) bool { return len(e.Value) > bounds.AttributeValue }
	if !slices.ContainsFunc(entries, isLong) {
		return entries
	}
	entries = slices.Clone(entries)
	for i := range entries {
		if v := entries[i].Value; isLong(entries[i]) {
			entries[i].Value = fmt.Sprintf("%s...sha256:%x...%s", v[:keptBytes], sha256.Sum256([]byte(v)), v[len(v)-keptBytes:])
		}
	}
	return entries
}
