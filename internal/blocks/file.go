package blocks

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/penstock-io/penstock/engine/blocklist"
)

// maxFile bounds the size of the file: a value can have 8 KiB, and its characters can be escaped.
const maxFile = 256 << 20

// readFile returns the blocks in a file; none if there is no file.
func readFile(path string) (found []blocklist.Block, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := json.NewDecoder(io.LimitReader(file, maxFile)).Decode(&found); err != nil {
		return nil, fmt.Errorf("read %s: %w; the next change of a block replaces the file", path, err)
	}
	return found, nil
}

// writeFile replaces the file atomically. Only the owner may read it, since values identify clients.
func writeFile(path string, all []blocklist.Block) error {
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*") // with mode 0600
	if err == nil {
		_, err = file.Write(append(text, '\n'))
		if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
			err = os.Rename(file.Name(), path)
		}
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("keep the blocks in %s: %w; a restart would forget them", path, err)
	}
	return nil
}
