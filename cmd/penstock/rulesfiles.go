package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/rules/live"
)

// stdinName is the name that problems use for rules from stdin.
const stdinName = "<stdin>"

// readRules reads a file, a directory or, for -, stdin. Files are named as the user named them.
func (a *app) readRules(ctx context.Context, path string) ([]rules.File, error) {
	if path == "-" {
		return a.readStdin()
	}
	origin, err := live.NewFiles(path)
	if err != nil {
		return nil, err
	}
	text, err := origin.Read(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, misused("%w", err)
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	files := make([]rules.File, len(text.Files))
	for i, file := range text.Files {
		files[i] = rules.File{Name: path, Data: file.Data}
		if info.IsDir() {
			files[i].Name = filepath.Join(path, filepath.Base(file.Name))
		}
	}
	return files, nil
}

// readDocument reads rules that are one text, as in a database.
func (a *app) readDocument(ctx context.Context, path string) (rules.File, error) {
	if info, err := os.Stat(path); path != "-" && err == nil && info.IsDir() {
		return rules.File{}, misused("%s is a directory: a database stores one document, use a file", path)
	}
	files, err := a.readRules(ctx, path)
	if err != nil {
		return rules.File{}, err
	}
	return files[0], nil
}

// compileRules reads and compiles rules for which a command needs no warnings.
func (a *app) compileRules(ctx context.Context, path string) (*rules.Snapshot, error) {
	files, err := a.readRules(ctx, path)
	if err != nil {
		return nil, err
	}
	return compile(files, rules.Options{})
}

func compile(files []rules.File, o rules.Options) (*rules.Snapshot, error) {
	snapshot, _, err := rules.CompileFiles(files, o)
	if err != nil {
		return nil, exitWithNo(err)
	}
	return snapshot, nil
}

func (a *app) readStdin() ([]rules.File, error) {
	data, err := io.ReadAll(io.LimitReader(a.stdin, rules.MaxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("read the rules from stdin: %w", err)
	}
	return []rules.File{{Name: stdinName, Data: data}}, nil
}
