package child

import (
	"os"
	"testing"
)

// SkipUnit skips a test that needs an installed program, if only tests that need none are to run.
func SkipUnit(t testing.TB) {
	t.Helper()
	if os.Getenv("PENSTOCK_TEST_UNIT") != "" {
		t.Skip("needs an installed program, which make unit does without")
	}
}
