package packaging

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const module = "github.com/penstock-io/penstock"

// `go install` refuses a module whose go.mod replaces or excludes others.
func TestModuleCanBeInstalled(t *testing.T) {
	t.Parallel()
	var file struct{ Replace, Exclude []any }
	if err := json.Unmarshal([]byte(run(t, root, nil, "go", "mod", "edit", "-json")), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Replace)+len(file.Exclude) > 0 {
		t.Errorf("go.mod replaces %v and excludes %v", file.Replace, file.Exclude)
	}
}

// `go install` builds the program from what the module proxy would have of this tree, and that says that it has no
// console.
func TestGoInstall(t *testing.T) {
	t.Parallel()
	needLong(t)
	version := fmt.Sprintf("v0.1.0-test.%d", time.Now().UnixNano()) // the module cache never forgets a version
	proxy, bin := writeProxy(t, version), t.TempDir()
	upstream := strings.TrimSpace(run(t, root, nil, "go", "env", "GOPROXY"))
	env := []string{"GOPROXY=file://" + proxy + "," + upstream, "GONOSUMDB=" + module, "GOFLAGS=-modcacherw", "GOBIN=" + bin, "GOWORK=off"}
	cache := strings.TrimSpace(run(t, root, nil, "go", "env", "GOMODCACHE"))
	t.Cleanup(func() {
		_ = os.RemoveAll(filepath.Join(cache, module+"@"+version))
		left, _ := filepath.Glob(filepath.Join(cache, "cache", "download", module, "@v", version+".*"))
		for _, path := range append(left, filepath.Join(cache, "cache", "download", module, "@v", "list")) {
			_ = os.Remove(path)
		}
	})
	run(t, t.TempDir(), env, "go", "install", module+"/cmd/penstock@"+version)
	said := run(t, bin, nil, filepath.Join(bin, "penstock"), "version")
	if !strings.HasPrefix(said, "penstock "+version+" ") || !strings.HasSuffix(said, " without the console\n") {
		t.Errorf("it says %q", said)
	}
}

// writeProxy writes the files of a module proxy that has this tree as a version.
func writeProxy(t *testing.T, version string) string {
	t.Helper()
	listed, err := tryRun(t, root, nil, "git", "ls-files", "-z")
	if err != nil {
		t.Skipf("this is not a git clone: %s", listed)
	}
	files := strings.Split(strings.TrimSuffix(listed, "\x00"), "\x00")
	var nested []string
	for _, name := range files {
		if dir, ok := strings.CutSuffix(name, "/go.mod"); ok {
			nested = append(nested, dir+"/")
		}
	}
	proxy := t.TempDir()
	dir := filepath.Join(proxy, module, "@v")
	writeFile(t, filepath.Join(dir, "list"), version+"\n")
	writeFile(t, filepath.Join(dir, version+".info"), fmt.Sprintf(`{"Version": %q, "Time": "2026-11-16T08:00:00Z"}`, version))
	writeFile(t, filepath.Join(dir, version+".mod"), readFile(t, filepath.Join(root, "go.mod")))
	archive, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	w := zip.NewWriter(archive)
	for _, name := range files {
		if inAny(name, nested) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted and not committed yet
		} else if err != nil {
			t.Fatal(err)
		}
		f, err := w.Create(module + "@" + version + "/" + name)
		if err == nil {
			_, err = f.Write(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return proxy
}

func inAny(name string, dirs []string) bool {
	for _, dir := range dirs {
		if strings.HasPrefix(name, dir) {
			return true
		}
	}
	return false
}
