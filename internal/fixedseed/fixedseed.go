// Package fixedseed is imported by tests for what it does to rapid: random tests draw the same by
// default, so that a change breaks them and not the day; something new in the long suite; and with
// PENSTOCK_TEST_SEED what another run drew.
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
