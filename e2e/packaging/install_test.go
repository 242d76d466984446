package packaging

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the documents tell people to type exists: targets of make, files, the module, and one name of the image.
func TestInstallDocuments(t *testing.T) {
	t.Parallel()
	makefile := readFile(t, filepath.Join(root, "Makefile"))
	readme := readFile(t, filepath.Join(root, "README.md"))
	_, install, ok := strings.Cut(readme, "\n## Install\n")
	if !ok {
		t.Fatal("README.md has no section Install")
	}
	install, _, _ = strings.Cut(install, "\n## ")
	for name, text := range map[string]string{
		"README.md": install, "docs/how-to/install.md": readFile(t, filepath.Join(root, "docs/how-to/install.md")), "docs/how-to/kubernetes.md": readFile(t, filepath.Join(root, "docs/how-to/kubernetes.md")),
	} {
		for _, found := range regexp.MustCompile("(?m)(?:^|`|&& )make ([a-z-]+)").FindAllStringSubmatch(text, -1) {
			if !strings.Contains(makefile, "\n"+found[1]+":") {
				t.Errorf("%s: there is no make %s", name, found[1])
			}
		}
		for _, found := range regexp.MustCompile(`(?:^|[ (])(?:\.\./)?(deploy/[a-zA-Z0-9_./-]+)`).FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, found[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, found := range regexp.MustCompile(`go install (\S+)`).FindAllStringSubmatch(text, -1) {
			if strings.Trim(found[1], "`]") != found[1] {
				continue // a heading
			}
			if found[1] != module+"/cmd/penstock@latest" {
				t.Errorf("%s: go install %s", name, found[1])
			}
		}
	}
	for _, file := range []string{"docs/how-to/install.md", "deploy/compose/compose.yaml", "deploy/kubernetes/chart/values.yaml", "deploy/kubernetes/manifests/penstock.yaml"} {
		if !strings.Contains(readFile(t, filepath.Join(root, file)), "ghcr.io/penstock-io/penstock") {
			t.Errorf("%s has another name of the image", file)
		}
	}
}
