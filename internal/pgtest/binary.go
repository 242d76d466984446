package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// binDirEnv is the environment variable with the directory of the PostgreSQL to use instead of the default.
const binDirEnv = "PENSTOCK_TEST_POSTGRES_BIN"

// Debian keeps every release in its own directory, and none of them on PATH.
const debianBinDirs = "/usr/lib/postgresql/*/bin"

// findBinary returns the path of a PostgreSQL program: in PENSTOCK_TEST_POSTGRES_BIN, on PATH, or in the
// newest release in Debian's directories.
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
	dirs, _ := filepath.Glob(debianBinDirs) // the pattern is valid; the result is sorted, and releases have two digits
	for i := len(dirs) - 1; i >= 0; i-- {
		if path, err := exec.LookPath(filepath.Join(dirs[i], name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("find %s: it is neither on PATH nor in %s; run `scripts/need postgres`, "+
		"or set %s to the directory of PostgreSQL's programs", name, debianBinDirs, binDirEnv)
}
