package jsonl_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/penstock-io/penstock/tools/internal/jsonl"
)

func TestReadAppend(t *testing.T) {
	name := filepath.Join(t.TempDir(), "state")
	if got, err := jsonl.Read[int](name); err != nil || len(got) > 0 {
		t.Fatal(got, err)
	}
	if err := jsonl.Append(name, 1, 2); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("{\"cut o"); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is gone, so that the next line starts a line
		if got, err := jsonl.Read[int](name); err != nil || !slices.Equal(got, []int{1, 2}) {
			t.Fatal(got, err)
		}
	}
	if err := jsonl.Append(name, 3); err != nil {
		t.Fatal(err)
	}
	if got, err := jsonl.Read[int](name); err != nil || !slices.Equal(got, []int{1, 2, 3}) {
		t.Fatal(got, err)
	}
}
