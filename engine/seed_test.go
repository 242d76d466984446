package engine_test

import (
	"flag"
	"os"
)

// Random tests draw the same by default, something new in the long suite, and with PENSTOCK_SEED
// what another run drew.
func init() {
	seed := os.Getenv("PENSTOCK_SEED")
	if seed == "" && os.Getenv("PENSTOCK_LONG") == "" {
		seed = "1"
	}
	if seed == "" {
		return
	}
	if err := flag.Set("rapid.seed", seed); err != nil {
		panic(err)
	}
}
