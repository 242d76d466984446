package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// A result is what is kept of a package.
type result struct {
	Package string     `json:"package"`
	Seconds float64    `json:"seconds"`
	Failed  bool       `json:"failed,omitempty"`
	Tests   []testTime `json:"tests,omitempty"`   // top-level tests that took a tenth of a second or longer
	Skipped []skipped  `json:"skipped,omitempty"` // tests and subtests
	Broken  []string   `json:"broken,omitempty"`  // tests and subtests that failed or did not end

	part string // the file's name
}

type testTime struct {
	Test    string  `json:"test"`
	Seconds float64 `json:"seconds"`
}

type skipped struct {
	Test   string `json:"test"`
	Reason string `json:"reason"`
}

// An event is a line of `go test -json`; `go doc cmd/test2json` and `go help buildjson` define them.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// packageLog is the output of a package that has not ended.
type packageLog struct {
	result result
	order  []string            // of tests; "" is the package itself
	output map[string][]string // by test
	done   map[string]string   // the last action of tests that ended
}

// digest reads events. It prints the line of each package that passes, and the whole output of failed tests, one test
// after the other. Lines that are no events it prints as they are.
func digest(in io.Reader, out io.Writer) (results []result, err error) {
	open := map[string]*packageLog{}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				fmt.Fprint(out, line)
			} else if e.Package == "" { // of a build
				fmt.Fprint(out, e.Output)
			} else if r := follow(open, &e, out); r != nil {
				results = append(results, *r)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return results, err
		}
	}
	for _, name := range sortedNames(open) { // go test was killed
		open[name].fail(out)
		fmt.Fprintf(out, "FAIL\t%s\t(go test ended before it)\n", name)
		results = append(results, open[name].result)
	}
	return results, nil
}

func sortedNames(open map[string]*packageLog) (names []string) {
	for name := range open {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// follow applies an event. It returns the result of the package if the event is its end.
func follow(open map[string]*packageLog, e *event, out io.Writer) *result {
	p := open[e.Package]
	if p == nil {
		p = &packageLog{result: result{Package: e.Package}, output: map[string][]string{}, done: map[string]string{}}
		open[e.Package] = p
	}
	switch {
	case e.Action == "output":
		if _, known := p.output[e.Test]; !known {
			p.order = append(p.order, e.Test)
		}
		p.output[e.Test] = append(p.output[e.Test], e.Output)
	case e.Action != "pass" && e.Action != "fail" && e.Action != "skip":
	case e.Test != "":
		p.end(e)
	default:
		delete(open, e.Package)
		p.result.Seconds = e.Elapsed
		if e.Action == "fail" {
			p.fail(out)
		}
		for _, line := range p.output[""] {
			if e.Action == "fail" || strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "?   \t") {
				fmt.Fprint(out, line)
			}
		}
		if e.Action != "skip" { // it has tests
			return &p.result
		}
	}
	return nil
}

// end notes the end of a test, and forgets its output unless it failed.
func (p *packageLog) end(e *event) {
	p.done[e.Test] = e.Action
	if e.Action == "skip" {
		p.result.Skipped = append(p.result.Skipped, skipped{e.Test, reasonOf(p.output[e.Test])})
	}
	if e.Action != "fail" {
		p.output[e.Test] = nil
	}
	if e.Elapsed >= 0.1 && !strings.Contains(e.Test, "/") {
		p.result.Tests = append(p.result.Tests, testTime{e.Test, e.Elapsed})
	}
}

// fail prints the output of tests that failed, or had not ended when the package did.
func (p *packageLog) fail(out io.Writer) {
	p.result.Failed = true
	for _, test := range p.order {
		if test == "" || p.done[test] == "pass" || p.done[test] == "skip" {
			continue
		}
		p.result.Broken = append(p.result.Broken, test)
		for _, line := range p.output[test] {
			if !turns.MatchString(line) {
				fmt.Fprint(out, line)
			}
		}
	}
}

// turns matches the lines that say whose output follows, which are noise if it is in order.
var turns = regexp.MustCompile(`^=== (PAUSE|CONT|NAME) `)

// message matches the first line of what a test logs.
var message = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)\n$`)

// reasonOf returns why a test was skipped: the first line of its last message.
func reasonOf(output []string) string {
	for _, line := range slices.Backward(output) {
		if found := message.FindStringSubmatch(line); found != nil {
			return found[1]
		}
	}
	return "no reason given"
}
