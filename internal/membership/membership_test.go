package membership_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/membership"
)

func join(t *testing.T, o membership.Options) *membership.Members {
	t.Helper()
	if o.Self == nil {
		o.Self = func() membership.Node { return someNode }
	}
	o.ID = "ME"
	m, err := membership.Join(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

var someNode = membership.Node{
	Name: "web-1", Version: "v1.2.3-rc.1+dirty", Started: time.Unix(1_000_000, 0).UTC(),
	Rules: 7, Checksum: "0123456789abcdef", Quality: membership.Exact, Calls: 12.5, Denied: 0.25,
}

var errGone = errors.New("gone")

// The number follows the heartbeats, and stays when there are none.
func TestFollowsAndStays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodes")
	synctest.Test(t, func(t *testing.T) {
		type answer struct {
			n   int
			err error
		}
		var now atomic.Pointer[answer]
		now.Store(&answer{3, nil})
		var beats atomic.Int64
		m := join(t, membership.Options{File: file, Beat: func(context.Context, string) (int, []membership.Peer, error) {
			beats.Add(1)
			a := now.Load()
			return a.n, nil, a.err
		}})
		for _, step := range []struct {
			n    int
			err  error
			want int
		}{{3, nil, 3}, {5, nil, 5}, {0, errGone, 5}, {0, nil, 5}, {-1, nil, 5}, {membership.Most + 1, nil, 5}, {2, nil, 2}, {7, errGone, 2}} {
			now.Store(&answer{step.n, step.err})
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if got := m.Nodes(); got != step.want {
				t.Errorf("told %d and %v: %d nodes, want %d", step.n, step.err, got, step.want)
			}
		}
		if beats.Load() != 9 { // at once, and every three seconds
			t.Errorf("%d beats", beats.Load())
		}
		m.Close()
		silent := func(ctx context.Context, _ string) (int, []membership.Peer, error) {
			<-ctx.Done()
			return 0, nil, ctx.Err()
		}
		if again := join(t, membership.Options{File: file, Beat: silent}); again.Nodes() != 2 {
			t.Errorf("after a start without the store: %d nodes, want the last number, 2", again.Nodes())
		}
	})
}

// An error in the file is reported, and does not prevent the start.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "word": "three", "none": "0", "negative": "-4", "many": "10001", "long": strings.Repeat("1", 1<<20)} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var told error
		m := join(t, membership.Options{File: file, Failed: func(err error) { told = err }, Beat: func(context.Context, string) (int, []membership.Peer, error) { return 0, nil, errGone }})
		if m.Nodes() != 1 || told == nil || !strings.Contains(told.Error(), file) {
			t.Errorf("%s: %d nodes, told %v", name, m.Nodes(), told)
		}
		m.Close()
	}
	told := make(chan error, 1)
	m := join(t, membership.Options{
		File: filepath.Join(dir, "nowhere", "nodes"), Failed: func(err error) { told <- err }, Beat: func(context.Context, string) (int, []membership.Peer, error) { return 4, nil, nil },
	})
	if err := <-told; !errors.Is(err, os.ErrNotExist) || m.Nodes() != 4 {
		t.Errorf("%d nodes, told %v", m.Nodes(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestOptions(t *testing.T) {
	self := func() membership.Node { return someNode }
	for _, o := range []membership.Options{{}, {ID: "ME"}, {Self: self}, {Self: self, ID: "no word"}, {Self: self, ID: "ME", Interval: -1}} {
		if _, err := membership.Join(o); !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("%+v: got %v", o, err)
		}
	}
}
