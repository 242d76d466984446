package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A build is the test binary of a package, and the folder of its source.
type build struct {
	name, binary, dir string
}

// prepare builds the tests of the package in a directory, or in a revision that it unpacks.
func prepare(ctx context.Context, o *options, of, dir string) (*build, error) {
	source := of
	if info, err := os.Stat(of); err != nil || !info.IsDir() {
		source = filepath.Join(dir, "source")
		if err := unpack(ctx, of, source); err != nil {
			return nil, fmt.Errorf("%q is neither a directory nor a revision of git: %w", of, err)
		}
	}
	b := &build{name: of, dir: filepath.Join(source, o.pkg), binary: filepath.Join(dir, "bench.test")}
	command := exec.CommandContext(ctx, "go", "test", "-c", "-o", b.binary, ".")
	command.Dir = b.dir
	if output, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the tests of %s in %s: %w\n%s", o.pkg, of, err, output)
	}
	if _, err := os.Stat(b.binary); err != nil {
		return nil, fmt.Errorf("%s has no tests in %s", o.pkg, of)
	}
	return b, nil
}

// unpack writes the files of a revision to a directory.
func unpack(ctx context.Context, revision, dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	var files, messages bytes.Buffer
	root, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	archive := exec.CommandContext(ctx, "git", "archive", "--format=tar", "--end-of-options", revision)
	archive.Dir = strings.TrimSpace(string(root)) // below it, only that part would be archived
	archive.Stdout, archive.Stderr = &files, &messages
	if err := archive.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(messages.Bytes()))
	}
	extract := exec.CommandContext(ctx, "tar", "-x", "-C", dir)
	extract.Stdin, extract.Stderr = &files, &messages
	if err := extract.Run(); err != nil {
		return fmt.Errorf("unpack: %w: %s", err, bytes.TrimSpace(messages.Bytes()))
	}
	return nil
}

// A result is what one benchmark reported.
type result struct {
	name  string
	value float64
}

// measure runs the benchmarks once.
func (b *build) measure(ctx context.Context, o *options) ([]result, error) {
	command := exec.CommandContext(ctx, b.binary, "-test.run=^$", "-test.bench="+o.bench, "-test.benchtime="+o.benchtime, "-test.benchmem", "-test.timeout=0")
	command.Dir = b.dir
	output, err := command.CombinedOutput()
	if ctx.Err() != nil {
		return nil, errors.New("stopped")
	}
	if err != nil {
		return nil, fmt.Errorf("benchmarks of %s: %w\n%s", b.name, err, output)
	}
	return parseResults(string(output), o.metric)
}

// resultLine is a line such as "BenchmarkAllow-2   1000   123.4 ns/op   0 B/op".
var resultLine = regexp.MustCompile(`(?m)^(Benchmark\S+)\s+\d+\s+(.*)$`)

func parseResults(output, metric string) (results []result, err error) {
	for _, match := range resultLine.FindAllStringSubmatch(output, -1) {
		fields := strings.Fields(match[2])
		for i := 1; i < len(fields); i += 2 {
			if fields[i] != metric {
				continue
			}
			value, err := strconv.ParseFloat(fields[i-1], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", match[1], err)
			}
			results = append(results, result{match[1], value})
		}
	}
	return results, nil
}
