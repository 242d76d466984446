package live

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// lastGood is the copy on disk of the text served last, for a start while the origin is down. It is replaced
// atomically, so a crash leaves either the old copy or the new one. Its checksum reveals any other damage.
type lastGood struct {
	path   string
	origin string // of the rules; a copy from another one is not read
}

// An otherOriginError says that a copy has the rules of another origin.
type otherOriginError struct{ path, origin, wanted string }

func (e *otherOriginError) Error() string {
	if e.origin == "" {
		return fmt.Sprintf("the last good rules in %s are not used: they do not say where they come from", e.path)
	}
	return fmt.Sprintf("the last good rules in %s are not used: they come from %s, not from %s", e.path, e.origin, e.wanted)
}

// read returns the copy. The error is an *otherOriginError if its rules come from another origin.
func (g lastGood) read() (*Text, error) {
	data, err := readBounded(g.path, MaxEncoded)
	if err != nil {
		return nil, fmt.Errorf("read the last good rules: %w", err)
	}
	t, origin, err := DecodeLastGood(data)
	if err != nil {
		return nil, fmt.Errorf("read the last good rules from %s: %w; delete the file, it is written again when the rules can be read again", g.path, err)
	}
	if origin != g.origin {
		return nil, &otherOriginError{g.path, origin, g.origin}
	}
	return t, nil
}

func (g lastGood) write(t *Text) error {
	if err := g.replace(t); err != nil {
		return fmt.Errorf("keep the last good rules in %s: %w; a start while their origin is down would not know them", g.path, err)
	}
	return nil
}

func (g lastGood) replace(t *Text) error {
	data, err := t.encode(g.origin)
	if err != nil {
		return err
	}
	dir := filepath.Dir(g.path)
	g.removeLeftovers(dir)
	file, err := os.CreateTemp(dir, g.temporary()+"*")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), g.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return syncDir(dir)
}

// temporary returns the prefix of the names of files that are still being written.
func (g lastGood) temporary() string { return "." + filepath.Base(g.path) + ".new-" }

// removeLeftovers removes files of processes that died while writing. A recent file may be in use by another
// process with the same path.
func (g lastGood) removeLeftovers(dir string) {
	entries, _ := os.ReadDir(dir) // if it cannot be read, the write reports why
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), g.temporary()) {
			continue
		}
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > time.Minute {
			_ = os.Remove(filepath.Join(dir, entry.Name())) // the next write tries again
		}
	}
}

// syncDir makes a rename in the directory survive a power failure.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// readBounded reads a file of at most most bytes. It does not wait for the writer of a pipe.
func readBounded(path string, most int) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, int64(most)+1))
	if err == nil && len(data) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return data, err
}
