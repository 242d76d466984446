package live

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/penstock-io/penstock/internal/poll"
	"github.com/penstock-io/penstock/rules"
)

// Files is an origin: a file, or a directory whose *.yaml, *.yml and *.json are one set of rules. It skips names
// that begin with a dot, because editors and Kubernetes use them.
//
// It reads only when nothing has been written for a moment, and retries if something is written meanwhile, so
// that it never serves a file that is half written. Renaming a finished file into place, or swapping a symlink as
// Kubernetes does, is always safe.
type Files struct {
	path string
}

var _ Origin = (*Files)(nil)

// settled is how long the files must be unchanged before they are read.
const settled = 100 * time.Millisecond

// NewFiles returns the origin at a path. The path need not exist yet.
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
		wait := before.settleWait(time.Now())
		if wait == 0 {
			files, err := before.read()
			if after, again := f.list(); err == nil && again == nil && before.equal(after) {
				return NewText(0, time.Time{}, files...), nil
			} else if err != nil && (again != nil || before.equal(after)) {
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

// A fileList is the existing files, by name.
type fileList []listedFile

type listedFile struct {
	path string
	info os.FileInfo // of the target of a symlink
}

// IsRulesFile reports whether a file of that name in a rules directory is read.
func IsRulesFile(name string) bool {
	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

// A missingPathError says that the path of the rules does not exist.
type missingPathError struct{ error }

func (e *missingPathError) Unwrap() error { return e.error }

func (f *Files) list() (fileList, error) {
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &missingPathError{err}
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return fileList{{f.path, info}}, nil
	}
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return nil, err
	}
	var all fileList
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
			all = append(all, listedFile{path, info})
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

// settleWait returns how long to wait until the youngest file is old enough.
func (l fileList) settleWait(now time.Time) (wait time.Duration) {
	for _, f := range l {
		age := now.Sub(f.info.ModTime())
		if age >= 0 && age < settled { // a time in the future comes from another clock
			wait = max(wait, settled-age)
		}
	}
	return wait
}

func (l fileList) read() (files []rules.File, err error) {
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

func (l fileList) equal(other fileList) bool {
	return slices.EqualFunc(l, other, func(a, b listedFile) bool {
		return a.path == b.path && os.SameFile(a.info, b.info) && a.info.Size() == b.info.Size() && a.info.ModTime().Equal(b.info.ModTime())
	})
}

// Watch reports changes in the directories concerned. Changes to files elsewhere that single files of a directory
// link to are found by polling.
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
		if err := f.watchDirectories(watcher); err != nil {
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

// watchDirectories watches the directories that are concerned now. A symlink may be swapped just before its directory
// is watched, without an event. So aim repeats until the directories are the same before and after.
func (f *Files) watchDirectories(watcher *fsnotify.Watcher) error {
	for dirs := f.watchedDirectories(); ; {
		for _, old := range watcher.WatchList() {
			_ = watcher.Remove(old) // it may have gone by itself
		}
		for _, dir := range dirs {
			if err := watcher.Add(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		now := f.watchedDirectories()
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

// watchedDirectories returns the directory of the path, in which a symlink may be swapped, the path itself if it is a
// directory, and the targets of symlinks.
func (f *Files) watchedDirectories() []string {
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

// drain waits until the events that come together have all arrived.
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
