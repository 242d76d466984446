// Package fixedseed sets the seed of rapid for the tests that import it. The seed is fixed by default,
// so that only a change in the code can break a test; it is new for each run of the long suite, and
// PENSTOCK_TEST_SEED repeats a run.
package fixedseed

import (
	"flag"
	"os"

	_ "pgregory.net/rapid" // has the flag
)

func init() {
	seed := os.Getenv("PENSTOCK_TEST_SEED")
	if seed == "" && os.Getenv("PENSTOCK_TEST_LONG") == "" {
		seed = "1"
	}
	if seed == "" {
		return
	}
	if err := flag.Set("rapid.seed", seed); err != nil {
		panic(err)
	}
}
