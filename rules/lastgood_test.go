package rules_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/rules"
)

// writerEnv names the last good file that a child of the test writes until it is killed.
const writerEnv = "PENSTOCK_TEST_LAST_GOOD"

// endless is an origin that has the next version at every look. It prints which ones were kept.
type endless struct{ version int64 }

func (e *endless) String() string { return "endless" }
func (e *endless) Watch(ctx context.Context, changed func(), failed func(error)) {
	changed()
	<-ctx.Done()
}
func (e *endless) Read(context.Context) (*rules.Text, error) {
	e.version++
	return longText(e.version), nil
}

// longText takes more than one write to a disk.
func longText(version int64) *rules.Text {
	return textOf(version, ruleNamed(fmt.Sprint("v", version))+strings.Repeat(fmt.Sprintf("# %d\n", version), 20_000))
}

// TestLastGoodWriter is the child: it serves version after version and says which are on disk.
func TestLastGoodWriter(t *testing.T) {
	path := os.Getenv(writerEnv)
	if path == "" {
		return // nobody's child
	}
	var first int64
	if old, err := readLastGood(path); err == nil {
		first = old.Version
	}
	live, err := rules.Follow(t.Context(), &endless{first}, rules.LiveOptions{
		LastGood: path, Interval: time.Microsecond,
		Changed: func(s rules.Status) {
			if s.CopyErr != nil {
				t.Error(s.CopyErr)
			}
			fmt.Println("kept", s.Version)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	select {} // until killed
}

func readLastGood(path string) (*rules.Text, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return rules.DecodeText(data)
}

// A process killed while it writes leaves the last good copy as it was or as it should be.
func TestKillsLeaveAWholeCopy(t *testing.T) {
	t.Parallel()
	kills := 30
	if os.Getenv("PENSTOCK_LONG") != "" {
		kills = 1000
	}
	path := filepath.Join(t.TempDir(), "last-good")
	for kill := range kills {
		kept := writeUntilKilled(t, path, 1+rand.IntN(8), time.Duration(rand.IntN(3000))*time.Microsecond)
		text, err := readLastGood(path)
		if err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		if text.Version < kept || !text.Same(longText(text.Version)) {
			t.Fatalf("kill %d: version %d is on disk, but version %d was kept", kill, text.Version, kept)
		}
	}
	live, err := rules.Follow(t.Context(), &memory{err: errors.New("down")}, rules.LiveOptions{LastGood: path})
	if err != nil {
		t.Fatal(err)
	}
	live.Close()
}

// writeUntilKilled runs a child until it has kept so many versions and a moment more, and returns the last of them.
func writeUntilKilled(t *testing.T, path string, versions int, moment time.Duration) (kept int64) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestLastGoodWriter$")
	child.Env = append(os.Environ(), writerEnv+"="+path)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	lines := bufio.NewScanner(out)
	for ; versions > 0 && lines.Scan(); versions-- {
		if _, err := fmt.Sscanf(lines.Text(), "kept %d", &kept); err != nil {
			t.Errorf("the child says %q", lines.Text())
		}
	}
	time.Sleep(moment) // into the midst of the next write
	must(t, child.Process.Kill())
	for lines.Scan() { // what it kept before it died
		fmt.Sscanf(lines.Text(), "kept %d", &kept)
	}
	if err := child.Wait(); err == nil || versions > 0 {
		t.Fatalf("the child ended by itself: %v", err)
	}
	return kept
}

func TestLeftoversAreRemoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "last-good")
	for name, age := range map[string]time.Duration{".last-good.new-1": time.Hour, ".last-good.new-2": 0, "last-good.new-3": time.Hour} {
		write(t, filepath.Join(dir, name), "half")
		must(t, os.Chtimes(filepath.Join(dir, name), time.Time{}, time.Now().Add(-age)))
	}
	live := follow(t, &memory{text: textOf(1, ruleNamed("one"))}, rules.LiveOptions{LastGood: path})
	live.Close()
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
