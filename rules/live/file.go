package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/penstock-io/penstock/internal/poll"
	"github.com/penstock-io/penstock/rules"
)

// Files is an origin: a file, or a directory whose *.yaml, *.yml and *.json are one set of rules.
// Names that begin with a dot are passed over: editors and Kubernetes use them.
//
// It is read only when nothing has been written to it for a moment and nothing is while it is
// read, so that what somebody is still writing is not taken for what he wants. Who renames a
// finished file into place, or swaps a symlink as Kubernetes does, is on the safe side.
type Files struct {
	path string
}

var _ Origin = (*Files)(nil)

// settled is how long nothing must have been written.
const settled = 100 * time.Millisecond

// NewFiles returns the origin at a path. It need not be there yet.
func NewFiles(path string) (*Files, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the rules at %q: %w", path, err)
	}
	return &Files{absolute}, nil
}

func (f *Files) String() string { return f.path }

// Read reads all files, as they were at one moment.
func (f *Files) Read(ctx context.Context) (*Text, error) {
	for {
		before, err := f.list()
		if err != nil {
			return nil, fmt.Errorf("read the rules: %w", err)
		}
		wait := before.unsettled(time.Now())
		if wait == 0 {
			files, err := before.read()
			if after, again := f.list(); err == nil && again == nil && before.same(after) {
				return NewText(0, time.Time{}, files...), nil
			} else if err != nil && (again != nil || before.same(after)) {
				return nil, fmt.Errorf("read the rules: %w", err)
			}
			wait = settled
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("read the rules in %s: they are being written all the time: %w", f.path, ctx.Err())
		case <-time.After(wait):
		}
	}
}

// listing is the files there are, by name.
type listing []listed

type listed struct {
	path string
	info os.FileInfo // of what a symlink leads to
}

// IsRulesFile reports whether a file of that name in a directory of rules is read.
func IsRulesFile(name string) bool {
	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

func (f *Files) list() (listing, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return listing{{f.path, info}}, nil
	}
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return nil, err
	}
	var all listing
	for _, entry := range entries {
		name := entry.Name()
		if !IsRulesFile(name) {
			continue
		}
		path := filepath.Join(f.path, name)
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			all = append(all, listed{path, info})
		}
	}
	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("%s has no *.yaml, *.yml or *.json: for no rules, write a file with rules: [] (with domain: any for files of envoyproxy/ratelimit)", f.path)
	case len(all) > maxFiles:
		return nil, fmt.Errorf("%s has %d files, at most %d", f.path, len(all), maxFiles)
	}
	return all, nil
}

// unsettled returns how long to wait until the youngest file is old enough.
func (l listing) unsettled(now time.Time) (wait time.Duration) {
	for _, f := range l {
		age := now.Sub(f.info.ModTime())
		if age >= 0 && age < settled { // one from the future is of another clock
			wait = max(wait, settled-age)
		}
	}
	return wait
}

func (l listing) read() (files []rules.File, err error) {
	room := rules.MaxDocument
	for _, f := range l {
		data, err := readBounded(f.path, room)
		if err != nil {
			return nil, err
		}
		room -= len(data)
		files = append(files, rules.File{Name: f.path, Data: data})
	}
	return files, nil
}

func (l listing) same(other listing) bool {
	return slices.EqualFunc(l, other, func(a, b listed) bool {
		return a.path == b.path && os.SameFile(a.info, b.info) && a.info.Size() == b.info.Size() && a.info.ModTime().Equal(b.info.ModTime())
	})
}

// Watch tells when something happens in the directories concerned. What single files of a directory
// link to elsewhere is found by polling.
func (f *Files) Watch(ctx context.Context, changed func(), failed func(error)) {
	poll.Listen(ctx, f.watch, changed, func(err error) { failed(fmt.Errorf("watch %s: %w", f.path, err)) })
}

func (f *Files) watch(ctx context.Context, changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close()
	for {
		if err := f.aim(watcher); err != nil {
			return err
		}
		changed()
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Events:
		case err := <-watcher.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return err
			}
		}
		drain(ctx, watcher)
	}
}

// aim watches the directories concerned as they are now. A symlink may be swapped just before its
// directory is watched, which nothing would tell: so they are the same ones before and after.
func (f *Files) aim(watcher *fsnotify.Watcher) error {
	for dirs := f.concerned(); ; {
		for _, old := range watcher.WatchList() {
			_ = watcher.Remove(old) // it may have gone by itself
		}
		for _, dir := range dirs {
			if err := watcher.Add(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		now := f.concerned()
		if slices.Equal(dirs, now) {
			break
		}
		dirs = now
	}
	if len(watcher.WatchList()) == 0 {
		return fmt.Errorf("%s is not there", filepath.Dir(f.path))
	}
	return nil
}

// concerned returns the directory of the path, in which a symlink may be swapped, the path itself if
// it is one, and where it leads.
func (f *Files) concerned() []string {
	dirs := []string{filepath.Dir(f.path)}
	if real, err := filepath.EvalSymlinks(f.path); err == nil {
		if info, err := os.Stat(real); err == nil && !info.IsDir() {
			real = filepath.Dir(real)
		}
		dirs = append(dirs, real)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// drain waits until what comes with an event has come too.
func drain(ctx context.Context, watcher *fsnotify.Watcher) {
	quiet := time.NewTimer(settled / 2)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-quiet.C:
			return
		case <-watcher.Events:
		case <-watcher.Errors:
		}
	}
}
