package storage

import (
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

// epoch is when test tables begin: 2026-01-01T00:00:00Z.
const epoch algorithm.Instant = 1_767_225_600_000_000

var (
	threeStrikes = algorithm.PenaltyTerms{After: 3, Within: time.Minute, Bans: []time.Duration{time.Minute, 5 * time.Minute, time.Hour}, ForgiveAfter: 24 * time.Hour}
	onceAMinute  = algorithm.DedupTerms{TTL: time.Minute, MaxReplays: 1, Budget: 1, Beside: algorithm.Limit{Algorithm: algorithm.FixedWindow, Window: time.Minute}}
)

func compile(t testing.TB, l algorithm.Limit) *algorithm.Meter { return compiled(t, l.Compile) }

func penalty(t testing.TB, p algorithm.PenaltyTerms) *algorithm.Penalty {
	return compiled(t, p.Compile)
}

func dedup(t testing.TB, d algorithm.DedupTerms) *algorithm.Dedup { return compiled(t, d.Compile) }

func compiled[T any](t testing.TB, compile func() (T, error)) T {
	t.Helper()
	v, err := compile()
	if err != nil {
		t.Fatal(err)
	}
	return v
}
