package live_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/rules/live"
)

// memory is an origin in this process.
type memory struct {
	mu     sync.Mutex
	text   *live.Text
	err    error
	reads  int
	silent bool // no notifications of changes
	told   func()
	failed func(error)
	hang   bool
}

func (m *memory) String() string { return "memory" }

func (m *memory) Read(ctx context.Context) (*live.Text, error) {
	m.mu.Lock()
	hang := m.hang
	m.reads++
	text, err := m.text, m.err
	m.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, fmt.Errorf("read the memory: %w", ctx.Err())
	}
	return text, err
}

func (m *memory) Watch(ctx context.Context, changed func(), failed func(error)) {
	m.mu.Lock()
	m.told, m.failed = changed, failed
	m.mu.Unlock()
	changed()
	<-ctx.Done()
}

func (m *memory) set(change func()) {
	m.mu.Lock()
	change()
	told := m.told
	if m.silent {
		told = nil
	}
	m.mu.Unlock()
	if told != nil {
		told()
	}
}

func (m *memory) has(version int64, document string) {
	text := textOf(version, document)
	m.set(func() { m.text, m.err = text, nil })
}

func textOf(version int64, document string) *live.Text {
	return live.NewText(version, time.Now(), rules.File{Name: fmt.Sprint("version ", version), Data: []byte(document)})
}

// ruleNamed is a document with one rule.
func ruleNamed(name string) string {
	return fmt.Sprintf("rules:\n  - name: %s\n    key: [ip]\n    limits: [100/1m]\n", name)
}

const badDocument = "rules:\n  - name: Bad Name\n    key: [ip]\n    limits: [100/1mn]\n"

func follow(t *testing.T, origin live.Origin, o live.Options) *live.Rules {
	t.Helper()
	served, err := live.Follow(t.Context(), origin, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(served.Close)
	return served
}

func serves(t *testing.T, served *live.Rules, version int64, name string) {
	t.Helper()
	s := served.Load()
	if s.Version != version || len(s.Rules) != 1 || s.Rules[0].Name != name {
		t.Fatalf("version %d with %d rules is served, want version %d with %s; %+v", s.Version, len(s.Rules), version, name, served.Status())
	}
	if got := served.Status().Version; got != version {
		t.Errorf("the status says that version %d is served, want %d", got, version)
	}
}

func TestLiveLearnsByPushAndByPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		origin := &memory{text: textOf(1, ruleNamed("one"))}
		served := follow(t, origin, live.Options{Interval: time.Minute})
		serves(t, served, 1, "one")
		if p := served.Status().Propagation; p != 0 {
			t.Errorf("at the start, which may be any time after the change, a propagation of %v was measured", p)
		}

		origin.has(2, ruleNamed("two"))
		synctest.Wait() // no time passes: this was the push
		serves(t, served, 2, "two")

		origin.silent = true
		time.Sleep(time.Second)
		origin.has(3, ruleNamed("three"))
		synctest.Wait()
		serves(t, served, 2, "two")
		time.Sleep(time.Minute)
		synctest.Wait()
		serves(t, served, 3, "three")
		if p := served.Status().Propagation; p <= 0 || p > time.Minute {
			t.Errorf("propagation %v, want up to the interval", p)
		}

		origin.has(1, ruleNamed("one")) // a database restored from its backup
		time.Sleep(time.Minute)
		synctest.Wait()
		serves(t, served, 1, "one")
		served.Close()
	})
}

func TestBadTextNeverReplacesAGoodOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []live.Status
		origin := &memory{text: textOf(1, ruleNamed("one"))}
		served := follow(t, origin, live.Options{Changed: func(s live.Status) { told = append(told, s) }})
		synctest.Wait()

		origin.has(2, badDocument)
		time.Sleep(time.Minute) // and a dozen looks
		synctest.Wait()
		serves(t, served, 1, "one")
		refused := served.Status().Refused
		if refused == nil || refused.Version != 2 {
			t.Fatalf("refused: %+v", refused)
		}
		for _, want := range []string{"version 2:2:11:", "version 2:4:19:"} {
			if !strings.Contains(refused.Err.Error(), want) {
				t.Errorf("the reason lacks %q:\n%v", want, refused.Err)
			}
		}

		origin.set(func() { origin.err = errors.New("the disk is on fire") })
		time.Sleep(time.Minute)
		synctest.Wait()
		serves(t, served, 1, "one")
		if s := served.Status(); s.Err == nil || s.Refused == nil {
			t.Errorf("status %+v, want the error and the refusal", s)
		}

		origin.has(3, ruleNamed("three"))
		synctest.Wait()
		serves(t, served, 3, "three")
		if s := served.Status(); s.Err != nil || s.Refused != nil {
			t.Errorf("what is over is still told: %+v", s)
		}
		served.Close()

		if len(told) != 4 {
			t.Fatalf("%d reports, want one of each change: %+v", len(told), told)
		}
		for i, is := range []bool{
			told[0].Version == 1 && told[0].Refused == nil,
			told[1].Version == 1 && told[1].Refused.Version == 2,
			told[2].Version == 1 && told[2].Err != nil,
			told[3].Version == 3 && told[3].Err == nil && told[3].Refused == nil,
		} {
			if !is {
				t.Errorf("report %d: %+v", i, told[i])
			}
		}
	})
}

// Reverting a change ends its rejection, though the served rules have not changed.
func TestRefusalEndsWithItsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := textOf(0, ruleNamed("one"))
		origin := &memory{text: first}
		served := follow(t, origin, live.Options{})
		origin.has(0, badDocument)
		synctest.Wait()
		if served.Status().Refused == nil {
			t.Fatal("not refused")
		}
		origin.set(func() { origin.text = first })
		synctest.Wait()
		if r := served.Status().Refused; r != nil {
			t.Errorf("still refused: %+v", r)
		}
		serves(t, served, 0, "one")
		served.Close()
	})
}

func TestHangingOriginIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		origin := &memory{text: textOf(1, ruleNamed("one"))}
		served := follow(t, origin, live.Options{Timeout: 3 * time.Second})
		origin.set(func() { origin.hang = true })
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := served.Status().Err; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the status says %v", err)
		}
		origin.set(func() { origin.hang = false })
		origin.has(2, ruleNamed("two"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		serves(t, served, 2, "two")

		origin.set(func() { origin.hang = true })
		synctest.Wait()
		before := time.Now()
		served.Close()
		if time.Now() != before { // on the bubble's clock: nothing had to time out
			t.Error("Close waited for the origin")
		}
	})
}

func TestPushThatFailsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []live.Status
		origin := &memory{text: textOf(1, ruleNamed("one"))}
		served := follow(t, origin, live.Options{Changed: func(s live.Status) { told = append(told, s) }})
		synctest.Wait()
		for range 3 {
			origin.failed(errors.New("nobody listens"))
			synctest.Wait()
		}
		origin.told()
		synctest.Wait()
		served.Close()
		if len(told) != 3 || told[1].PushErr == nil || told[2].PushErr != nil {
			t.Errorf("told %+v; want the start, the failure once and its end", told)
		}
	})
}

func TestStart(t *testing.T) {
	down := errors.New("the database is down")
	for _, test := range []struct {
		name   string
		origin *memory
		copy   func(path string) // prepares the last good copy
		serves string            // "": Follow fails
		says   []string
	}{
		{"origin", &memory{text: textOf(1, ruleNamed("one"))}, keep(0, "old"), "one", nil},
		{"down, copy", &memory{err: down}, keep(7, "old"), "old", []string{"down"}},
		{"bad, copy", &memory{text: textOf(9, badDocument)}, keep(7, "old"), "old", nil},
		{"nothing yet, copy", &memory{err: live.ErrNoRules}, keep(7, "old"), "old", []string{"no rules yet"}},
		{"nothing yet, no copy", &memory{err: live.ErrNoRules}, nil, "no rules", []string{"no rules yet"}},
		{"down, no copy", &memory{err: down}, nil, "", []string{"down", "last-good", "no such file"}},
		{"bad, no copy", &memory{text: textOf(9, badDocument)}, nil, "", []string{"version 9:2:11", "version 9:4:19"}},
		{"down, copy altered", &memory{err: down}, alter(func(b []byte) []byte { b[len(b)-3] ^= 1; return b }), "", []string{"down", "last-good", "cut off or altered", "delete"}},
		{"down, copy torn", &memory{err: down}, alter(func(b []byte) []byte { return b[:len(b)/2] }), "", []string{"cut off or altered"}},
		{"down, copy empty", &memory{err: down}, alter(func([]byte) []byte { return nil }), "", []string{"do not begin with"}},
		{"down, copy of another format", &memory{err: down}, alter(ofFormat("2")), "", []string{"down", `in format "2"`, "reads format 1", "another version of Penstock"}},
		{"copy of another format", &memory{text: textOf(1, ruleNamed("one"))}, alter(ofFormat("2")), "one", nil},
		{"nothing yet, copy torn", &memory{err: live.ErrNoRules}, alter(func(b []byte) []byte { return b[:len(b)/2] }), "", []string{"cut off or altered"}},
		{"down, copy a directory", &memory{err: down}, func(path string) { os.Mkdir(path, 0o700) }, "", []string{"not a regular file"}},
		{"down, copy of another origin", &memory{err: down}, keepFrom(&memory{text: textOf(7, ruleNamed("old"))}, "/etc/other.yaml"), "", []string{"down", "last-good are not used", "come from /etc/other.yaml, not from memory"}},
		{"bad, copy of another origin", &memory{text: textOf(9, badDocument)}, keepFrom(&memory{text: textOf(7, ruleNamed("old"))}, "/etc/other.yaml"), "", []string{"version 9:2:11", "/etc/other.yaml"}},
		{"nothing yet, copy of another origin", &memory{err: live.ErrNoRules}, keepFrom(&memory{text: textOf(7, ruleNamed("old"))}, "/etc/other.yaml"), "no rules", []string{"no rules yet"}},
		{"down, copy of an unknown origin", &memory{err: down}, keepNameless, "", []string{"down", "do not say where they come from"}},
		{"down, copy does not compile", &memory{err: down}, keepDocument(7, badDocument), "", []string{"down", "compile the last good rules", "version 7:2:11"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "last-good")
			if test.copy != nil {
				test.copy(path)
			}
			served, err := live.Follow(t.Context(), test.origin, live.Options{LastGood: path})
			switch test.serves {
			case "":
				if err == nil {
					served.Close()
					t.Fatalf("started: %+v", served.Status())
				}
			default:
				if err != nil {
					t.Fatal(err)
				}
				served.Close()
				err = served.Status().Err
				name := "no rules"
				if all := served.Load().Rules; len(all) > 0 {
					name = all[0].Name
				}
				if name != test.serves || served.Status().FromCopy != (name == "old") {
					t.Errorf("serves %s, %+v; want %s", name, served.Status(), test.serves)
				}
			}
			for _, want := range test.says {
				if !strings.Contains(fmt.Sprint(err), want) {
					t.Errorf("the error lacks %q: %v", want, err)
				}
			}
		})
	}
}

// A path that does not exist is probably misspelt: the copy does not hide that, not even one of the same path. A file
// that cannot be used is another matter.
func TestStartWithoutTheFile(t *testing.T) {
	dir := t.TempDir()
	file, options := filepath.Join(dir, "rules.yaml"), live.Options{LastGood: filepath.Join(t.TempDir(), "last-good")}
	write(t, file, ruleNamed("one"))
	follow(t, files(t, file), options).Close()

	write(t, file, badDocument)
	broken := follow(t, files(t, file), options)
	broken.Close()
	if s := broken.Status(); !s.FromCopy || s.Refused == nil {
		t.Errorf("a file that does not compile: %+v", s)
	}
	must(t, os.Remove(file))
	for _, path := range []string{file, filepath.Join(dir, "ruls.yaml"), filepath.Join(dir, "nowhere", "rules.yaml")} {
		if _, err := live.Follow(t.Context(), files(t, path), options); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "last good") {
			t.Errorf("%s: %v", path, err)
		}
	}
	other := filepath.Join(dir, "other.yaml")
	write(t, other, badDocument)
	if _, err := live.Follow(t.Context(), files(t, other), options); err == nil || !strings.Contains(err.Error(), "come from "+file+", not from "+other) {
		t.Errorf("another file: %v", err)
	}
}

// The status says that nothing is limited.
func TestEmptyRules(t *testing.T) {
	for document, want := range map[string]bool{
		"rules: []": true,
		"rules: []\nlists: {allow: [{ip: 192.0.2.1}]}": true,
		"rules: []\nlists: {deny: [{ip: 192.0.2.1}]}":  false,
		ruleNamed("one"): false,
	} {
		served := follow(t, &memory{text: textOf(1, document)}, live.Options{})
		served.Close()
		if got := served.Status().Empty; got != want {
			t.Errorf("%s: empty %v", document, got)
		}
	}
	served := follow(t, &memory{err: live.ErrNoRules}, live.Options{})
	served.Close()
	if !served.Status().Empty {
		t.Error("an origin without rules is not empty")
	}
}

// keep returns a function that leaves a last good copy, as a Live does.
func keep(version int64, name string) func(string) { return keepDocument(version, ruleNamed(name)) }

func keepDocument(version int64, document string) func(string) {
	return keepFrom(&memory{text: textOf(version, document)}, "")
}

// keepFrom leaves a copy of what an origin has, under a name of the origin, even if it does not compile.
func keepFrom(origin live.Origin, name string) func(string) {
	return func(path string) {
		served, err := live.Follow(context.Background(), origin, live.Options{LastGood: path, OriginName: name,
			Read: func(_ []rules.File, o rules.Options) (*rules.Snapshot, rules.Problems, error) {
				return rules.NewSnapshot(o), nil, nil
			}})
		if err != nil {
			panic(err)
		}
		served.Close()
	}
}

// keepNameless leaves a copy that does not say where it comes from.
func keepNameless(path string) {
	data, err := textOf(7, ruleNamed("old")).Encode()
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		panic(err)
	}
}

func alter(change func([]byte) []byte) func(string) {
	return func(path string) {
		keep(7, "old")(path)
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, change(data), 0o600)
		}
		if err != nil {
			panic(err)
		}
	}
}

func TestRecoversFromItsCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "last-good")
		origin := &memory{text: textOf(4, ruleNamed("four"))}
		served := follow(t, origin, live.Options{LastGood: path})
		served.Close()

		origin.set(func() { origin.err = errors.New("down") })
		served = follow(t, origin, live.Options{LastGood: path})
		serves(t, served, 4, "four")
		if s := served.Status(); !s.FromCopy || s.Err == nil {
			t.Errorf("status %+v", s)
		}
		origin.set(func() { origin.err = nil })
		synctest.Wait()
		if s := served.Status(); s.FromCopy || s.Err != nil {
			t.Errorf("the origin is back with the same rules, but %+v", s)
		}
		origin.has(5, ruleNamed("five"))
		synctest.Wait()
		serves(t, served, 5, "five")
		served.Close()
	})
}

func TestCopyIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "not-there-yet")
		path := filepath.Join(dir, "last-good")
		served := follow(t, &memory{text: textOf(1, ruleNamed("one"))}, live.Options{LastGood: path})
		serves(t, served, 1, "one") // a full or missing disk does not stop it
		if err := served.Status().CopyErr; err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("the status says %v", err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := served.Status().CopyErr; err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
		served.Close()
	})
}

func TestCloseEndsAllGoroutines(t *testing.T) {
	before := goleak.IgnoreCurrent()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), ruleNamed("one"))
	served, err := live.Follow(t.Context(), files(t, dir), live.Options{LastGood: filepath.Join(t.TempDir(), "last-good")})
	if err != nil {
		t.Fatal(err)
	}
	served.Close()
	served.Close() // twice does no harm
	// Find waits a little itself, but a busy machine needs longer.
	for end := time.Now().Add(time.Minute); goleak.Find(before) != nil && time.Now().Before(end); {
	}
	goleak.VerifyNone(t, before)
}

func TestNegativeOptionsAreRefused(t *testing.T) {
	_, err := live.Follow(t.Context(), &memory{}, live.Options{Interval: -1})
	if err == nil || !strings.Contains(err.Error(), "interval -1ns") {
		t.Error(err)
	}
}

// An origin that reports back learns the result for each text, also for one that is already known.
func TestConsideredTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		origin := &memory{text: textOf(1, ruleNamed("one"))}
		served := follow(t, origin, live.Options{Interval: time.Minute, Considered: func(text *live.Text, err error) {
			told = append(told, fmt.Sprint(text.Version, " ", err == nil))
		}})
		synctest.Wait()
		told = nil
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := strings.Join(told, ", "); got != want {
				t.Errorf("told %q, want %q", got, want)
			}
			told = nil
		}
		origin.has(2, badDocument)
		expect("2 false")
		origin.set(func() {}) // the same again
		expect("2 false")
		origin.set(func() { origin.text = textOf(1, ruleNamed("one")) })
		expect("1 true")
		origin.has(3, ruleNamed("three"))
		expect("3 true")
		served.Close()
	})
}
