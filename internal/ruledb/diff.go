package ruledb

import (
	"fmt"

	"github.com/aymanbagabas/go-udiff"
)

// Diff is a unified diff of two versions' documents, empty if they are the same.
func Diff(from, to Version) string {
	return udiff.Unified(label(from), label(to), string(from.Document), string(to.Document))
}

func label(v Version) string { return fmt.Sprintf("version %d", v.Number) }
