package packaging

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// source says what the packed program was built from where the tests may run without git.
var source = []string{"BUILD_COMMIT=0123456789abcdef0123456789abcdef01234567", "BUILD_DATE=2026-11-16T08:00:00Z"}

// pack runs tools/dist on the program.
func pack(t *testing.T, out string) {
	t.Helper()
	run(t, filepath.Join(root, "tools"), source, "go", "run", "./dist", "-root", root, "-out", out,
		"-version", "v0.1.0", "-binary", program, "-platforms", runtime.GOOS+"/"+runtime.GOARCH)
}

// What is packed twice is the same, and everything is there.
func TestDist(t *testing.T) {
	t.Parallel()
	first, second := filepath.Join(t.TempDir(), "dist"), filepath.Join(t.TempDir(), "dist")
	var packing sync.WaitGroup
	packing.Go(func() { pack(t, first) })
	pack(t, second)
	packing.Wait()
	if t.Failed() {
		return
	}
	compareTrees(t, first, second)
	inspectDist(t, first, "0.1.0", runtime.GOOS+"_"+runtime.GOARCH)
}

// Two clones in different places give the same binaries for all platforms, and the one for this machine runs.
func TestDistFromClones(t *testing.T) {
	t.Parallel()
	needLong(t)
	commit := strings.TrimSpace(run(t, root, nil, "git", "rev-parse", "HEAD"))
	var outs []string
	for range 2 {
		clone := filepath.Join(t.TempDir(), "penstock")
		run(t, root, nil, "git", "clone", "--quiet", root, clone)
		run(t, clone, nil, "git", "checkout", "--quiet", "--detach", commit) // there may be newer ones since
		run(t, clone, nil, "make", "dist", "VERSION=v0.1.0")
		outs = append(outs, filepath.Join(clone, "dist"))
	}
	compareTrees(t, outs[0], outs[1])
	for _, p := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"} {
		inspectDist(t, outs[0], "0.1.0", p)
	}
	testIndex(t, outs[0])
	var said struct{ Version, Commit, Date string }
	text := run(t, outs[0], nil, filepath.Join(outs[0], "bin", runtime.GOOS+"_"+runtime.GOARCH, "penstock"), "version", "-o", "json")
	if err := json.Unmarshal([]byte(text), &said); err != nil || said.Version != "v0.1.0" || said.Commit != commit || !strings.HasSuffix(said.Date, "Z") {
		t.Errorf("got %s: %v, want commit %s", text, err, commit)
	}
}

// testIndex builds the image for both architectures.
func testIndex(t *testing.T, dist string) {
	t.Run("index", func(t *testing.T) {
		buildah, dir := need(t, "buildah", "buildah"), t.TempDir()
		flags := []string{"--storage-driver", "vfs", "--root", filepath.Join(dir, "storage"), "--runroot", filepath.Join(dir, "run")}
		out := run(t, root, []string{"BUILDAH_FLAGS=" + strings.Join(flags, " ")}, filepath.Join(root, "scripts", "image"), dist, "localhost/penstock:index")
		t.Log(out)
		inspectSizes(t, out, "amd64", "arm64")
		index := run(t, root, nil, buildah, append(flags, "manifest", "inspect", "localhost/penstock:index")...)
		for _, arch := range []string{"amd64", "arm64"} {
			if !strings.Contains(index, `"architecture": "`+arch+`"`) {
				t.Errorf("the index has no %s:\n%s", arch, index)
			}
		}
	})
}

// inspectSizes checks that scripts/image prints how large the image of each architecture is.
func inspectSizes(t *testing.T, out string, archs ...string) {
	t.Helper()
	for _, arch := range archs {
		if !regexp.MustCompile(`(?m)^image linux/` + arch + `: [0-9a-f]{64} [0-9.]+ MB$`).MatchString(out) {
			t.Errorf("no size of the image for %s:\n%s", arch, out)
		}
	}
}

// sums returns the hash of every file below a directory.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256([]byte(readFile(t, path)))
		all[name] = hex.EncodeToString(sum[:])
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func compareTrees(t *testing.T, a, b string) {
	t.Helper()
	first, second := sums(t, a), sums(t, b)
	if len(first) == 0 || len(first) != len(second) {
		t.Errorf("%d and %d files", len(first), len(second))
	}
	for name, sum := range first {
		if second[name] != sum {
			t.Errorf("%s is not reproducible", name)
		}
	}
}

// inspectDist checks the files of a platform.
func inspectDist(t *testing.T, dir, version, platform string) {
	t.Helper()
	name := "penstock_" + version + "_" + platform
	packed := untar(t, filepath.Join(dir, name+".tar.gz"))
	for _, want := range []string{
		"penstock", "LICENSE", "NOTICE", "README.md", "CHANGELOG.md", "completions/penstock.bash", "completions/_penstock", "completions/penstock.fish",
		"completions/penstock.ps1", "man/penstock.1", "man/penstock-serve.1", "man/penstock-rules-validate.1",
	} {
		if len(packed[name+"/"+want]) == 0 {
			t.Errorf("%s.tar.gz has no %s", name, want)
		}
	}
	if page := packed[name+"/man/penstock-serve.1"]; !strings.Contains(page, `\fB\-\-config\fP`) || !strings.Contains(page, "2026-") {
		t.Errorf("the manual page of serve is\n%s", page)
	}
	inspectChecksums(t, dir, name+".tar.gz", name+".cdx.json", "penstock_"+version+"_console.cdx.json", "penstock_"+version+"_provenance.json")
	inspectSBOM(t, filepath.Join(dir, name+".cdx.json"), "github.com/redis/rueidis", "modernc.org/sqlite", "std")
	inspectSBOM(t, filepath.Join(dir, "penstock_"+version+"_console.cdx.json"), "preact", "@codemirror/state")
	inspectProvenance(t, filepath.Join(dir, "penstock_"+version+"_provenance.json"), name+".tar.gz", packed[name+"/penstock"])
}

func untar(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(zip); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		} else if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Uname != "" || header.ModTime.Year() != 2026 {
			t.Errorf("%s tells who packed it: %+v", header.Name, header)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(data)
	}
}

func inspectChecksums(t *testing.T, dir string, names ...string) {
	t.Helper()
	hashes := sums(t, dir)
	listed := map[string]string{}
	for line := range strings.Lines(readFile(t, filepath.Join(dir, "checksums.txt"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = sum
	}
	for _, name := range names {
		if listed[name] == "" || listed[name] != hashes[name] {
			t.Errorf("checksums.txt says %q of %s, which is %s", listed[name], name, hashes[name])
		}
	}
}

func inspectSBOM(t *testing.T, path string, names ...string) {
	t.Helper()
	var bom struct {
		Format     string `json:"bomFormat"`
		Serial     string `json:"serialNumber"`
		Components []struct{ Name, Version, Purl string }
	}
	if err := json.Unmarshal([]byte(readFile(t, path)), &bom); err != nil || bom.Format != "CycloneDX" || !strings.HasPrefix(bom.Serial, "urn:uuid:") {
		t.Fatalf("%s: %v: %+v", path, err, bom)
	}
	for _, name := range names {
		if !slices.ContainsFunc(bom.Components, func(c struct{ Name, Version, Purl string }) bool {
			return c.Name == name && c.Version != "" && strings.HasPrefix(c.Purl, "pkg:")
		}) {
			t.Errorf("%s does not list %s", path, name)
		}
	}
}

func inspectProvenance(t *testing.T, path, archive, binary string) {
	t.Helper()
	var statement struct {
		Type      string `json:"_type"`
		Predicate struct {
			BuildDefinition struct {
				ResolvedDependencies []struct{ Digest map[string]string }
			}
		}
		Subject []struct {
			Name   string
			Digest map[string]string
		}
	}
	if err := json.Unmarshal([]byte(readFile(t, path)), &statement); err != nil || statement.Type != "https://in-toto.io/Statement/v1" {
		t.Fatalf("%v: %+v", err, statement)
	}
	hash := sums(t, filepath.Dir(path))[archive]
	found := false
	for _, s := range statement.Subject {
		found = found || s.Name == archive && s.Digest["sha256"] == hash
	}
	from := statement.Predicate.BuildDefinition.ResolvedDependencies
	if !found || len(from) != 1 || len(from[0].Digest["gitCommit"]) != 40 || binary == "" {
		t.Errorf("%+v does not speak of %s %s", statement, archive, hash)
	}
}
