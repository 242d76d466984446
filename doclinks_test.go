package penstock_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var docLink = regexp.MustCompile(`\[\*?([a-z]+)\.([A-Z]\w*)(?:\.\w+)?\]`)

// A reference in a comment, such as [storage.ErrFull], names something that the package exports.
func TestReferencesInCommentsExist(t *testing.T) {
	exported := map[string]map[string]bool{} // by the name of the package
	for name, dir := range map[string]string{
		"penstock": ".", "algorithm": "algorithm", "attribute": "attribute", "engine": "engine", "grpclimit": "grpclimit", "httplimit": "httplimit",
		"memstore": "memstore", "redisstore": "redisstore", "rules": "rules", "stack": "stack", "storage": "storage",
	} {
		exported[name] = map[string]bool{}
		for _, f := range productFiles(t, dir) {
			for _, d := range f.Decls {
				for _, declared := range exportedNames(d) {
					exported[name][declared[strings.IndexByte(declared, ' ')+1:]] = true
				}
			}
		}
	}
	for _, file := range trackedFiles(t) {
		if filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		for i, line := range readLines(t, file) {
			_, text, _ := strings.Cut(line, "//")
			for _, m := range docLink.FindAllStringSubmatch(text, -1) {
				if names := exported[m[1]]; names != nil && !names[m[2]] {
					t.Errorf("%s:%d: %s: package %s does not export it", file, i+1, m[0], m[1])
				}
			}
		}
	}
}
