package ruledb

import (
	"fmt"

	"github.com/aymanbagabas/go-udiff"
)

// Diff returns a unified diff of the documents of two versions, empty if they are the same.
func Diff(from, to Version) string {
	return udiff.Unified(label(from), label(to), string(from.Document), string(to.Document))
}

func label(v Version) string { return fmt.Sprintf("version %d", v.Number) }
