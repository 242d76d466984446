// Package jsonl keeps results in files of one JSON value a line, so that a command that is stopped can continue.
package jsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Read returns the values of a file; none if there is no file. A last line that is cut off, because the process was
// killed while it wrote, is removed.
func Read[T any](name string) (values []T, err error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(data) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			return values, os.Truncate(name, int64(len(data)-len(line)))
		}
		var value T
		if err := json.Unmarshal(line, &value); err != nil {
			return nil, fmt.Errorf("%s: %w (run with -fresh to start again)", name, err)
		}
		values = append(values, value)
	}
	return values, nil
}

// Append adds values to a file.
func Append[T any](name string, values ...T) error {
	var lines bytes.Buffer
	for _, value := range values {
		if err := json.NewEncoder(&lines).Encode(value); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = file.Write(lines.Bytes())
	return errors.Join(err, file.Close())
}
