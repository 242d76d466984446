package ruledb

import "testing"

func TestDiffShowsLines(t *testing.T) {
	from := Version{Number: 1, Document: []byte("a\nb\nc\n")}
	to := Version{Number: 4, Document: []byte("a\nB\nc\n")}
	want := "--- version 1\n+++ version 4\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
	if got := Diff(from, to); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func FuzzDiff(f *testing.F) {
	f.Add([]byte(""), []byte("a"))
	f.Add([]byte("a\r\nb"), []byte("a\nb\n"))
	f.Add([]byte("\n\n\n"), []byte("\xff\n\x00"))
	f.Fuzz(func(t *testing.T, from, to []byte) {
		diff := Diff(Version{Document: from}, Version{Document: to})
		if same := string(from) == string(to); same != (diff == "") {
			t.Errorf("the same: %v, diff:\n%s", same, diff)
		}
	})
}
