package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/tools/internal/jsonl"
)

// events is what go test writes about packages that pass, fail, cannot be built, have no tests, panic, or do not end.
const events = `go: downloading example.com/other v1.0.0
{"ImportPath":"m/c [m/c.test]","Action":"build-output","Output":"c_test.go:3:31: declared and not used: x\n"}
{"ImportPath":"m/c [m/c.test]","Action":"build-fail"}
{"Action":"start","Package":"m/a"}
{"Action":"output","Package":"m/a","Test":"TestOK","Output":"=== RUN   TestOK\n"}
{"Action":"output","Package":"m/a","Test":"TestOK","Output":"    a_test.go:3: of no interest\n"}
{"Action":"pass","Package":"m/a","Test":"TestOK","Elapsed":2.5}
{"Action":"output","Package":"m/a","Test":"TestSkip","Output":"    a_test.go:4: before\n"}
{"Action":"output","Package":"m/a","Test":"TestSkip","Output":"    a_test.go:5: gcc is not installed\n"}
{"Action":"output","Package":"m/a","Test":"TestSkip","Output":"        or not found\n"}
{"Action":"output","Package":"m/a","Test":"TestSkip","Output":"--- SKIP: TestSkip (0.00s)\n"}
{"Action":"skip","Package":"m/a","Test":"TestSkip","Elapsed":0}
{"Action":"skip","Package":"m/a","Test":"TestNoReason","Elapsed":0}
{"Action":"output","Package":"m/a","Output":"PASS\n"}
{"Action":"output","Package":"m/a","Output":"ok  \tm/a\t2.6s\n"}
{"Action":"pass","Package":"m/a","Elapsed":2.6}
{"Action":"output","Package":"m/b","Output":"?   \tm/b\t[no test files]\n"}
{"Action":"skip","Package":"m/b","Elapsed":0}
{"Action":"output","Package":"m/c","Output":"FAIL\tm/c [build failed]\n"}
{"Action":"fail","Package":"m/c","Elapsed":0,"FailedBuild":"m/c [m/c.test]"}
{"Action":"output","Package":"m/d","Test":"TestBad","Output":"=== RUN   TestBad\n"}
{"Action":"output","Package":"m/d","Test":"TestGood","Output":"    d_test.go:9: of no interest\n"}
{"Action":"output","Package":"m/d","Test":"TestBad/sub","Output":"=== PAUSE TestBad/sub\n"}
{"Action":"output","Package":"m/d","Test":"TestBad/sub","Output":"    d_test.go:4: got 1, want 2\n"}
{"Action":"fail","Package":"m/d","Test":"TestBad/sub","Elapsed":0.2}
{"Action":"pass","Package":"m/d","Test":"TestGood","Elapsed":0}
{"Action":"output","Package":"m/d","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"fail","Package":"m/d","Test":"TestBad","Elapsed":0}
{"Action":"output","Package":"m/d","Test":"TestPanics","Output":"panic: boom\n"}
{"Action":"output","Package":"m/d","Output":"FAIL\tm/d\t3.0s\n"}
{"Action":"fail","Package":"m/d","Elapsed":3}
{"Action":"output","Package":"m/e","Test":"TestHangs","Output":"    e_test.go:1: waiting\n"}
`

func TestDigest(t *testing.T) {
	var out strings.Builder
	results, err := digest(strings.NewReader(events), &out)
	if err != nil || !anyFailed(results) {
		t.Fatal(results, err)
	}
	if got, want := out.String(), `go: downloading example.com/other v1.0.0
c_test.go:3:31: declared and not used: x
ok  	m/a	2.6s
?   	m/b	[no test files]
FAIL	m/c [build failed]
=== RUN   TestBad
--- FAIL: TestBad (0.00s)
    d_test.go:4: got 1, want 2
panic: boom
FAIL	m/d	3.0s
    e_test.go:1: waiting
FAIL	m/e	(go test ended before it)
`; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}

	// The tables come from what is kept of them, and of the same package in another part.
	dir := t.TempDir()
	for _, part := range []string{"root", "race"} {
		if err := keep(filepath.Join(dir, "new", part), results); err != nil {
			t.Fatal(err)
		}
		results = results[:1]
	}
	var all []result
	for _, part := range []string{"root", "race"} {
		results, err := jsonl.Read[result](filepath.Join(dir, "new", part))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			r.part = part
			all = append(all, r)
		}
	}
	out.Reset()
	printTables(&out, all)
	if got, want := out.String(), `slowest packages:
FAIL	m/d	3.000s	(root)
ok  	m/a	2.600s	(root)
ok  	m/a	2.600s	(race)
FAIL	m/c	0.000s	(root)
FAIL	m/e	0.000s	(root)
slowest tests:
    2.50s  TestOK  m/a (root)
    2.50s  TestOK  m/a (race)
skipped: 4
     2  gcc is not installed: a.TestSkip (root), a.TestSkip (race)
     2  no reason given: a.TestNoReason (root), a.TestNoReason (race)
failed:
FAIL	m/d	(root) TestBad TestBad/sub TestPanics
FAIL	m/c	(root) 
FAIL	m/e	(root) TestHangs
`; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// A file of an earlier run is replaced, and a run without results leaves an empty one.
func TestKeepReplaces(t *testing.T) {
	name := filepath.Join(t.TempDir(), "root")
	for _, results := range [][]result{{{Package: "a"}, {Package: "b"}}, nil} {
		if err := keep(name, results); err != nil {
			t.Fatal(err)
		}
		kept, err := jsonl.Read[result](name)
		if err != nil || len(kept) != len(results) {
			t.Errorf("%d kept of %d, %v", len(kept), len(results), err)
		}
	}
	if _, err := os.Stat(name); err != nil {
		t.Error(err)
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		to    string
		files []string
		want  string
	}{
		{"a", []string{"b"}, "-to and files are both given"},
		{"", nil, "no files are given"},
	} {
		if _, err := run(c.to, c.files); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("run(%q, %q): %v, want %q", c.to, c.files, err, c.want)
		}
	}
}
