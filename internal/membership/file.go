package membership

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func read(path string) (int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	text := make([]byte, 16)
	length, _ := file.Read(text) // a missing file holds no number
	n, err := strconv.ParseInt(strings.TrimSpace(string(text[:length])), 10, 64)
	if err != nil || n < 1 || n > Most {
		return 0, fmt.Errorf("read the number of nodes from %s: %.16q is not a number from 1 to %d; delete the file, and a new one is written", path, text[:length], Most)
	}
	return n, nil
}

// write replaces the file atomically: a reader finds the old number or the new one.
func write(path string, n int) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*")
	if err == nil {
		_, err = fmt.Fprintln(file, n)
		if err = errors.Join(err, file.Close()); err == nil {
			err = os.Rename(file.Name(), path)
		}
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("keep the number of nodes in %s: %w; a start without the store would not know it", path, err)
	}
	return nil
}
