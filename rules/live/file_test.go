package live_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/rules/live"
)

// never is an interval longer than any test: whatever arrives was noticed.
const never = 24 * time.Hour

func files(t *testing.T, path string) *live.Files {
	t.Helper()
	f, err := live.NewFiles(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// following follows an origin and returns the rules with a function that waits until a condition holds.
func following(t *testing.T, origin live.Origin, interval time.Duration) (*live.Rules, func(what string, is func(live.Status) bool)) {
	t.Helper()
	told := make(chan struct{}, 1)
	served := follow(t, origin, live.Options{Interval: interval, Timeout: time.Minute, Changed: func(live.Status) {
		select {
		case told <- struct{}{}:
		default:
		}
	}})
	return served, func(what string, is func(live.Status) bool) {
		t.Helper()
		giveUp := time.After(time.Minute)
		for !is(served.Status()) {
			select {
			case <-told:
			case <-giveUp:
				t.Fatalf("not yet: %s; %+v", what, served.Status())
			}
		}
	}
}

func servesRules(served *live.Rules, names ...string) func(live.Status) bool {
	return func(live.Status) bool {
		var got []string
		for _, r := range served.Load().Rules {
			got = append(got, r.Name)
		}
		return fmt.Sprint(got) == fmt.Sprint(names)
	}
}

// refuses waits for one reason: a file that is half written is rejected too, for another reason.
func refuses(reason string) func(live.Status) bool {
	return func(s live.Status) bool { return s.Refused != nil && strings.Contains(s.Refused.Err.Error(), reason) }
}

func TestFileIsFollowed(t *testing.T) {
	t.Parallel()
	for name, interval := range map[string]time.Duration{"by events": never, "by polling": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rules.yaml")
			write(t, path, ruleNamed("one"))
			served, wait := following(t, files(t, path), interval)
			wait("one", servesRules(served, "one"))

			write(t, path, ruleNamed("two"))
			wait("written in place", servesRules(served, "two"))

			write(t, path+".new", ruleNamed("three"))
			must(t, os.Rename(path+".new", path))
			wait("renamed into place", servesRules(served, "three"))

			write(t, path, badDocument)
			wait("refused", refuses(path+":2:11:"))
			if s := served.Status(); !servesRules(served, "three")(s) {
				t.Errorf("a bad file: %+v", s)
			}
			write(t, path, ruleNamed("four"))
			wait("mended", servesRules(served, "four"))

			must(t, os.Remove(path))
			wait("gone", func(s live.Status) bool { return s.Err != nil })
			if !servesRules(served, "four")(served.Status()) {
				t.Error("the rules went with their file")
			}
			write(t, path, ruleNamed("five"))
			wait("there again", servesRules(served, "five"))
		})
	}
}

func TestDirectoryIsFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write(t, in("b.yaml"), ruleNamed("b"))
	write(t, in("a.yml"), ruleNamed("a"))
	write(t, in("notes.txt"), "not rules")
	write(t, in(".a.yml.swp.yaml"), "not rules")
	must(t, os.Mkdir(in("folder.yaml"), 0o700))
	served, wait := following(t, files(t, dir), never)
	wait("a, b", servesRules(served, "a", "b"))

	write(t, in("c.json"), `{"rules": [{"name": "c", "key": [], "limits": ["1/s"]}]}`)
	wait("another", servesRules(served, "a", "b", "c"))
	must(t, os.Remove(in("a.yml")))
	wait("one less", servesRules(served, "b", "c"))
	write(t, in("d.yaml"), "# ours too\n"+ruleNamed("b"))
	wait("the same rule twice", refuses(fmt.Sprintf("%s:3:11: the name b is taken, by the rule at %s:2:11", in("d.yaml"), in("b.yaml"))))
	must(t, os.Rename(in("d.yaml"), in("b.yaml")))
	wait("moved over the other", func(s live.Status) bool { return s.Refused == nil })
	wait("b, c", servesRules(served, "b", "c"))
}

// kubernetes is a ConfigMap as the kubelet projects it: files are links to ..data/file, ..data is
// a link to a directory with a time for a name, and an update swaps ..data by a rename.
type kubernetes struct {
	t     *testing.T
	dir   string
	round int
}

func (k *kubernetes) update(contents map[string]string) {
	k.t.Helper()
	k.round++
	old, _ := os.Readlink(filepath.Join(k.dir, "..data"))
	next := fmt.Sprintf("..2026_11_15_08_30_%02d.1", k.round)
	must(k.t, os.Mkdir(filepath.Join(k.dir, next), 0o700))
	for name, text := range contents {
		write(k.t, filepath.Join(k.dir, next, name), text)
	}
	must(k.t, os.Symlink(next, filepath.Join(k.dir, "..data_tmp")))
	must(k.t, os.Rename(filepath.Join(k.dir, "..data_tmp"), filepath.Join(k.dir, "..data")))
	for name := range contents {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(k.dir, name)); err != nil && !os.IsExist(err) {
			k.t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(k.dir)
	must(k.t, err)
	for _, e := range entries {
		if _, still := contents[e.Name()]; !still && !strings.HasPrefix(e.Name(), "..") {
			must(k.t, os.Remove(filepath.Join(k.dir, e.Name())))
		}
	}
	if old != "" {
		must(k.t, os.RemoveAll(filepath.Join(k.dir, old)))
	}
}

func TestConfigMapsAreFollowed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, path string }{{"directory", ""}, {"file", "rules.yaml"}} {
		t.Run(test.name, func(t *testing.T) {
			k := &kubernetes{t: t, dir: t.TempDir()}
			k.update(map[string]string{"rules.yaml": ruleNamed("one")})
			served, wait := following(t, files(t, filepath.Join(k.dir, test.path)), never)
			wait("one", servesRules(served, "one"))
			for _, name := range []string{"two", "three", "four"} {
				k.update(map[string]string{"rules.yaml": ruleNamed(name)})
				wait(name, servesRules(served, name))
			}
			k.update(map[string]string{"rules.yaml": badDocument})
			wait("bad", refuses("rules.yaml:2:11:"))
			if !servesRules(served, "four")(served.Status()) {
				t.Error("a bad one replaced a good one")
			}
		})
	}
}

// A directory that is itself a link to the release in use.
func TestSwappedDirectoryIsFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	current := filepath.Join(dir, "current")
	for _, release := range []string{"one", "two"} {
		must(t, os.Mkdir(filepath.Join(dir, release), 0o700))
		write(t, filepath.Join(dir, release, "rules.yaml"), ruleNamed(release))
	}
	must(t, os.Symlink("one", current))
	served, wait := following(t, files(t, current), never)
	wait("one", servesRules(served, "one"))
	must(t, os.Symlink("two", current+".new"))
	must(t, os.Rename(current+".new", current))
	wait("two", servesRules(served, "two"))
	for _, name := range []string{"three", "four", "five"} {
		write(t, filepath.Join(dir, "two", "rules.yaml"), ruleNamed(name))
		wait("changes in the new one", servesRules(served, name))
	}
}

// A directory that is removed with its contents is watched again when it is back.
func TestRemovedDirectoryIsFollowed(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "etc")
	dir := filepath.Join(parent, "rules")
	make := func(name string) {
		must(t, os.MkdirAll(dir, 0o700))
		write(t, filepath.Join(dir, "rules.yaml"), ruleNamed(name))
	}
	make("one")
	served, wait := following(t, files(t, dir), never)
	wait("one", servesRules(served, "one"))
	must(t, os.RemoveAll(parent))
	wait("gone", func(s live.Status) bool { return s.Err != nil && s.PushErr != nil })
	for _, name := range []string{"two", "three", "four"} {
		make(name)
		wait(name, servesRules(served, name))
	}
}

// A file is written in pieces while it is read repeatedly. Each state in between parses, and none of them may be
// served.
func TestNothingHalfWrittenIsServed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.yaml")
	version := func(n int) string {
		var b strings.Builder
		b.WriteString("rules:\n")
		for i := range 20 {
			fmt.Fprintf(&b, "  - {name: v%d-%d, key: [ip], limits: [100/1m]}\n", n, i)
		}
		return b.String()
	}
	write(t, path, version(0))
	served, wait := following(t, files(t, dir), 10*time.Millisecond)
	for n := 1; n <= 5; n++ {
		file, err := os.Create(path)
		must(t, err)
		stalled := false // a machine that stops for long in the midst of writing looks like one that has finished
		last := time.Now()
		for line := range strings.Lines(version(n)) {
			_, err := file.WriteString(line)
			must(t, err)
			time.Sleep(5 * time.Millisecond) // so that there is a chance to see it half written
			got := len(served.Load().Rules)
			// Two gaps between the same two lines are still shorter than what looks finished. The machine may also stop
			// before the rules are loaded, so the gap ends after that.
			stalled = stalled || time.Since(last) > 40*time.Millisecond
			last = time.Now()
			if got != 20 && !stalled {
				t.Fatalf("%d rules are served while the file is written", got)
			}
		}
		must(t, file.Close())
		wait(fmt.Sprint("version ", n), func(live.Status) bool {
			all := served.Load().Rules
			return len(all) == 20 && all[0].Name == fmt.Sprintf("v%d-0", n)
		})
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.Mkdir(in("empty"), 0o700))
	must(t, syscall.Mkfifo(in("pipe.yaml"), 0o600))
	must(t, os.Symlink("nowhere", in("dangling.yaml")))
	must(t, os.Mkdir(in("many"), 0o700))
	for i := range 1001 {
		write(t, filepath.Join(in("many"), fmt.Sprint(i, ".yaml")), "")
	}
	write(t, in("large.yaml"), "")
	must(t, os.Truncate(in("large.yaml"), rules.MaxDocument+1))
	for path, want := range map[string]string{
		"nowhere":       "no such file",
		"empty":         "has no *.yaml, *.yml or *.json: for no rules, write a file with rules: []",
		"pipe.yaml":     "not a regular file",
		"dangling.yaml": "no such file",
		"many":          "1001 files, at most 1000",
		"large.yaml":    "more than",
	} {
		_, err := files(t, in(path)).Read(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), in(path)) {
			t.Errorf("%s: %v; want %q", path, err, want)
		}
	}
}

func TestFileThatAlwaysChanges(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no time to wait
	for {
		write(t, path, ruleNamed("one"))
		_, err := files(t, path).Read(ctx)
		if err == nil {
			continue // the machine took its time after the write
		}
		if !strings.Contains(err.Error(), "being written") || !strings.Contains(err.Error(), path) {
			t.Error(err)
		}
		return
	}
}
