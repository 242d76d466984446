package faults

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/nodetest"
)

// long says whether to run all faults, and for how long.
var long = os.Getenv("PENSTOCK_TEST_LONG") == "1"

// program is the path of the binary.
var program string

func TestMain(m *testing.M) {
	os.Exit(nodetest.BuildAndRun(func(built string) int {
		program = built
		status := m.Run()
		if err := writeReport(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return status
	}))
}

// besideOthers lets a test run in parallel, except in the long version, which looks at latencies.
func besideOthers(t *testing.T) {
	if !long {
		t.Parallel()
	}
}

// atLast bounds the wait for what must come, whatever it has to wait for: sentinels on a busy machine
// may need several elections.
const atLast = 2 * time.Minute

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(atLast); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", atLast, what)
		}
	}
}

// must fails the test for an error of what a fault is made with.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
