package pgtest

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/penstock-io/penstock/internal/child"
)

// superuser owns the databases of every server.
const superuser = "penstock"

// template is a data directory as initdb leaves it, some thirty megabytes. It is made once per process,
// because initdb takes longer than everything else. It is kept in memory, because no process would remove
// it from the disk.
var template struct {
	sync.Mutex
	files []templateFile // in walk order: a directory before its contents
}

type templateFile struct {
	path string // within the data directory
	dir  bool
	data []byte
}

// createData fills dir, which exists and belongs to the owner, with a new data directory.
func createData(ctx context.Context, dir string, as owner) error {
	template.Lock()
	defer template.Unlock()
	if template.files != nil {
		if err := writeTemplate(dir, template.files); err != nil {
			return err
		}
		return as.give(dir)
	}
	if err := initdb(ctx, dir, as); err != nil {
		return err
	}
	files, err := readTemplate(dir)
	if err != nil {
		return err
	}
	template.files = files
	return nil
}

func initdb(ctx context.Context, dir string, as owner) error {
	binary, err := findBinary("initdb")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, binary, "--pgdata", dir, "--username", superuser, "--auth", "trust",
		"--encoding", "UTF8", "--no-locale", "--no-sync", "--wal-segsize", "1")
	as.run(cmd)
	// initdb takes the locale from its environment, and a test's may name one that is not installed.
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if out, err := child.Run(cmd); err != nil {
		return fmt.Errorf("run %s: %w\n%s", binary, err, out)
	}
	return nil
}

func readTemplate(dir string) (files []templateFile, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		f := templateFile{dir: entry.IsDir()}
		if f.path, err = filepath.Rel(dir, path); err == nil && !f.dir {
			f.data, err = os.ReadFile(path)
		}
		files = append(files, f)
		return err
	})
	return files, err
}

func writeTemplate(dir string, files []templateFile) error {
	for _, f := range files {
		path := filepath.Join(dir, f.path)
		var err error
		if f.dir {
			err = os.Mkdir(path, 0o700)
		} else {
			err = os.WriteFile(path, f.data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
