// Command testlog shortens the output of `go test -json` to that of `go test`, keeps the results in a file, and prints
// tables of them. `make test` runs it if TESTLOG names the folder for the files, as .ci/run does.
//
//	go test -json ./... | testlog -to bin/tests/main   # prints what go test prints, and keeps the results
//	testlog bin/tests/*                                # what took longest, what was skipped and why, what failed
//
// It exits with 1 if a test or a build failed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/penstock-io/penstock/tools/internal/jsonl"
)

func main() {
	to := flag.String("to", "", "read `go test -json` from the standard input and keep the results in this `file`")
	flag.Parse()
	failed, err := run(*to, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

func run(to string, files []string) (failed bool, err error) {
	switch {
	case to != "" && len(files) > 0:
		return false, fmt.Errorf("-to and files are both given (%q, %q); use one", to, files)
	case to != "":
		results, err := digest(os.Stdin, os.Stdout)
		return anyFailed(results), errors.Join(err, keep(to, results))
	case len(files) == 0:
		return false, errors.New("no files are given; testlog -h explains")
	}
	var all []result
	for _, name := range files {
		results, err := jsonl.Read[result](name)
		if err != nil {
			return false, err
		}
		for _, r := range results {
			r.part = filepath.Base(name)
			all = append(all, r)
		}
	}
	printTables(os.Stdout, all)
	return anyFailed(all), nil
}

// keep replaces the file.
func keep(name string, results []result) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return jsonl.Append(name, results...)
}

func anyFailed(results []result) bool {
	for _, r := range results {
		if r.Failed {
			return true
		}
	}
	return false
}
