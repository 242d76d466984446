package live_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/penstock-io/penstock/rules/live"
)

func TestLeftoversAreRemoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "last-good")
	for name, age := range map[string]time.Duration{".last-good.new-1": time.Hour, ".last-good.new-2": 0, "last-good.new-3": time.Hour} {
		write(t, filepath.Join(dir, name), "half")
		must(t, os.Chtimes(filepath.Join(dir, name), time.Time{}, time.Now().Add(-age)))
	}
	served := follow(t, &memory{text: textOf(1, ruleNamed("one"))}, live.Options{LastGood: path})
	served.Close()
	var left []string
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if got := fmt.Sprint(left); got != "[.last-good.new-2 last-good last-good.new-3]" {
		t.Errorf("left are %s; want those that are young or somebody else's", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want a file for its owner only", info.Mode(), err)
	}
}
