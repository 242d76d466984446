// Package racetest spares the race detector tests in which it can find nothing. A test runs under it unless it says
// otherwise here, so that no test is forgotten.
package racetest

import (
	"os"
	"testing"
)

// OneGoroutine is the most frequent reason for [Skip].
const OneGoroutine = "one goroutine at a time"

// Skip skips a test if it runs under the race detector in short form, as `make test` does once more for some packages.
// It is for long tests that share no memory between goroutines which shorter ones do not share, too. The long suite
// skips none.
func Skip(t testing.TB, why string) {
	t.Helper()
	if Enabled && testing.Short() && os.Getenv("PENSTOCK_TEST_LONG") != "1" {
		t.Skip("nothing here for the race detector: " + why)
	}
}
