package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// binDirEnv names the directory of another PostgreSQL than the one that would be found.
const binDirEnv = "PENSTOCK_TEST_POSTGRES_BIN"

// Debian keeps every release in a directory of its own, none of them on PATH.
const debianBinDirs = "/usr/lib/postgresql/*/bin"

// findBinary is a program of PostgreSQL: in PENSTOCK_TEST_POSTGRES_BIN, or on PATH, or of the newest release where
// Debian keeps them.
func findBinary(name string) (string, error) {
	if dir := os.Getenv(binDirEnv); dir != "" {
		path, err := exec.LookPath(filepath.Join(dir, name))
		if err != nil {
			return "", fmt.Errorf("find %s where %s says: %w", name, binDirEnv, err)
		}
		return path, nil
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	dirs, _ := filepath.Glob(debianBinDirs) // the pattern is sound; sorted, and releases have two digits
	for i := len(dirs) - 1; i >= 0; i-- {
		if path, err := exec.LookPath(filepath.Join(dirs[i], name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("find %s: it is neither on PATH nor in %s; run `scripts/need postgres`, "+
		"or set %s to the directory of PostgreSQL's programs", name, debianBinDirs, binDirEnv)
}
