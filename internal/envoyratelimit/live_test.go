package envoyratelimit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/rules/live"
)

const patience = 30 * time.Second

func follow(t *testing.T, path string) (*live.Rules, <-chan live.Status, error) {
	t.Helper()
	files, err := live.NewFiles(path)
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan live.Status, 100)
	followed, err := live.Follow(t.Context(), files, live.Options{
		Read: Options{}.Compile, Interval: 20 * time.Millisecond, Changed: func(s live.Status) { told <- s },
	})
	if err == nil {
		t.Cleanup(followed.Close)
	}
	return followed, told, err
}

func write(t *testing.T, path, text string) {
	t.Helper()
	next := path + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

// until waits for a status.
func until(t *testing.T, told <-chan live.Status, what string, is func(live.Status) bool) {
	t.Helper()
	end := time.After(patience)
	for {
		select {
		case s := <-told:
			if is(s) {
				return
			}
		case <-end:
			t.Fatalf("never told: %s", what)
		}
	}
}

func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	const first, second = "domain: one", "domain: two"
	write(t, path, first)
	followed, told, err := follow(t, filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	serves := func(domain string) bool { return followed.Load().Matcher.(*Config).domains[domain] != nil }
	if !serves("one") {
		t.Error("the first is not served")
	}
	write(t, path, second)
	until(t, told, "the second", func(s live.Status) bool { return s.Err == nil && serves("two") })
	write(t, path, "domain: ''")
	until(t, told, "a mistake", func(s live.Status) bool {
		return s.Refused != nil && strings.Contains(s.Refused.Err.Error(), "config.yaml:1:9: config file cannot have empty domain")
	})
	if !serves("two") {
		t.Error("a mistake replaced what was good")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	until(t, told, "that it is gone", func(s live.Status) bool { return s.Err != nil && strings.Contains(s.Err.Error(), "no *.yaml") })
	write(t, path, first)
	until(t, told, "the first again", func(s live.Status) bool { return s.Err == nil && serves("one") })
}

func TestFollowNeedsSoundFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	write(t, path, "domain: ''")
	if _, _, err := follow(t, path); err == nil || !strings.Contains(err.Error(), "cannot have empty domain") {
		t.Errorf("a mistake: %v", err)
	}
	if _, _, err := follow(t, path+".missing"); err == nil {
		t.Error("a file that is not there is followed")
	}
}
