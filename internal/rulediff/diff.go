package rulediff

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/aymanbagabas/go-udiff"

	"github.com/penstock-io/penstock/rules"
)

// A Diff is how two sets of rules differ, in meaning and in text.
type Diff struct {
	Same    bool     `json:"same"` // in meaning and in text
	Changes []Change `json:"changes"`
	Text    string   `json:"text,omitempty"` // a unified diff
}

// Of compares two sets of rules, each of one or more files. An error is of type [rules.Problems], or that of the
// context.
func Of(ctx context.Context, before, after []rules.File) (*Diff, error) {
	for _, files := range [][]rules.File{before, after} {
		if _, _, err := rules.CompileContext(ctx, files, rules.Options{}); err != nil {
			return nil, err
		}
	}
	changes, err := Changes(before, after)
	if err != nil {
		return nil, err
	}
	d := &Diff{Changes: changes, Text: diffText(before, after)}
	d.Same = len(d.Changes) == 0 && d.Text == ""
	return d, nil
}

// Changes compares the meaning of two sets, without checking that they compile. The result is not nil.
func Changes(before, after []rules.File) ([]Change, error) {
	from, err := factsOf(before)
	if err != nil {
		return nil, err
	}
	to, err := factsOf(after)
	if err != nil {
		return nil, err
	}
	return append([]Change{}, changesOf(from, to)...), nil
}

// diffText compares single files directly, and several by their names.
func diffText(before, after []rules.File) (text string) {
	if len(before) == 1 && len(after) == 1 {
		return udiff.Unified(before[0].Name, after[0].Name, string(before[0].Data), string(after[0].Data))
	}
	find := func(files []rules.File, like rules.File) rules.File {
		i := slices.IndexFunc(files, func(f rules.File) bool { return filepath.Base(f.Name) == filepath.Base(like.Name) })
		if i < 0 {
			return rules.File{Name: "/dev/null"}
		}
		return files[i]
	}
	for _, old := range before {
		now := find(after, old)
		text += udiff.Unified(old.Name, now.Name, string(old.Data), string(now.Data))
	}
	for _, now := range after {
		if old := find(before, now); old.Name == "/dev/null" {
			text += udiff.Unified(old.Name, now.Name, "", string(now.Data))
		}
	}
	return text
}
