package e2e

import (
	"os"
	"testing"

	"github.com/penstock-io/penstock/internal/nodetest"
)

// patient is how long a test waits for what must come. None depends on how soon it does.
const patient = nodetest.Timeout

// program is the path of the binary.
var program string

func TestMain(m *testing.M) {
	os.Exit(nodetest.BuildAndRun(func(built string) int {
		program = built
		return m.Run()
	}))
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	nodetest.Eventually(t, what, holds)
}

// writeFile replaces a file atomically, so that no reader sees half of it.
func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	nodetest.WriteFile(t, path, text)
	return path
}
