package progress

import (
	"strings"
	"testing"
)

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		if got := Grouped(n); got != want {
			t.Errorf("Grouped(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestBar(t *testing.T) {
	var b strings.Builder
	bar := New(&b, true, "requests")
	bar.Set(0.5, 1_500)
	if got := b.String(); !strings.HasPrefix(got, "\r[===============               ]  50 %  1,500 requests, ") || !strings.Contains(got, " left") {
		t.Errorf("got %q", got)
	}
	bar.Set(0.6, 1_600) // too soon
	bar.Done()
	if got := b.String(); strings.Contains(got, "1,600") || !strings.HasSuffix(got, " \r") {
		t.Errorf("got %q", got)
	}
	var none *Bar
	none.Set(1, 1)
	none.Done()
	if New(&b, false, "x") != nil {
		t.Error("a bar without a terminal")
	}
}
