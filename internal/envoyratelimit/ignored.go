package envoyratelimit

import (
	"os"
	"strings"

	"github.com/penstock-io/penstock/rules/live"
)

// IgnoredFiles returns the entries of a directory of envoyproxy/ratelimit files that are not read, because of their
// names or because they are directories. That service reads them, so they may contain limits.
func IgnoredFiles(dir string) (names []string) {
	entries, _ := os.ReadDir(dir) // a single file has no entries, and reading the files reports errors
	for _, e := range entries {
		if name := e.Name(); !strings.HasPrefix(name, ".") && (e.IsDir() || !live.IsRulesFile(name)) {
			names = append(names, name)
		}
	}
	return names
}
