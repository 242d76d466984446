package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"penstock":  main,
		"ratelimit": main,
	})
}

// TestScripts runs the documented commands and compares what they print. To accept what they print
// now: PENSTOCK_TEST_UPDATE=1 go test ./cmd/penstock -run TestScripts.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       os.Getenv("PENSTOCK_TEST_UPDATE") != "",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}
