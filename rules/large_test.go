package rules

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A long document is read in pieces, with the same result from YAML and from JSON. The long suite uses 100,000
// rules, and -v shows what they cost.
func TestManyRules(t *testing.T) {
	n := 5_000
	if os.Getenv("PENSTOCK_TEST_LONG") != "" {
		n = 100_000
	}
	var b strings.Builder
	b.WriteString("attributes: {user: {header: X-User}}\nrules:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - name: rule-%d\n    match:\n      path: /api/%d/{rest...}\n      method: [GET, POST]\n", i, i)
		b.WriteString("    key: [user]\n    limits:\n      - 100/1m\n      - {rate: 10/s, burst: 20, algorithm: token_bucket}\n")
	}
	b.WriteString("lists: {deny: [{user: mallory}]}\n")

	start := time.Now()
	doc, err := Parse("many.yaml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rules, %d bytes of YAML: read in %v", n, b.Len(), time.Since(start))
	if last := doc.found.source.find(path{"rules", n - 1, "limits", 0}).At; int(last.Line) != 2+8*n-1 || last.Column != 9 {
		t.Errorf("the last rule's limit is at %v", last)
	}

	text := doc.JSON()
	start = time.Now()
	again, err := Parse("many.json", text)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes of JSON: read in %v", len(text), time.Since(start))
	if diff := cmp.Diff(doc.Rules[n-2:], again.Rules[n-2:]); diff != "" || len(again.Rules) != n || len(again.Lists.Deny) != 1 {
		t.Error(diff)
	}

	before := heap()
	start = time.Now()
	s, _, err := Compile(doc, Options{Now: testNow})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	t.Logf("compiled in %v, %d bytes a rule beside the document's", took, (heap()-before)/int64(n))
	if len(s.Rules) != n {
		t.Errorf("%d rules", len(s.Rules))
	}
	checkNumbered(t, s)
	runtime.KeepAlive(doc)
	runtime.KeepAlive(again)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools hold goes with the second
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
