package live

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSettled(t *testing.T) {
	dir := t.TempDir()
	written := time.Date(2026, 11, 15, 8, 0, 0, 0, time.UTC)
	for name, age := range map[string]time.Duration{"a.yaml": time.Hour, "b.yaml": 0} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, written.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := (&Files{dir}).list()
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]time.Duration{
		0:                        settled,
		settled - 1:              1,
		settled:                  0,
		-time.Millisecond:        0, // by a clock that is behind
		settled - time.Hour:      0,
		settled/2 - time.Hour:    settled / 2, // the other one was
		settled/2 + time.Hour*24: 0,
	} {
		if got := all.settleWait(written.Add(after)); got != want {
			t.Errorf("%v after it was written: wait for %v, want %v", after, got, want)
		}
	}
}
