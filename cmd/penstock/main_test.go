package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/penstock-io/penstock/internal/nodetest"
)

func TestMain(m *testing.M) {
	if program := filepath.Base(os.Args[0]); program != "penstock" && program != "ratelimit" {
		nodetest.RunTogether()
	}
	testscript.Main(m, map[string]func(){
		"penstock":  main,
		"ratelimit": main,
	})
}

// TestScripts runs the documented commands and compares what they print. To accept what they print
// now: PENSTOCK_TEST_UPDATE=1 go test ./cmd/penstock -run TestScripts.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       os.Getenv("PENSTOCK_TEST_UPDATE") != "",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}
