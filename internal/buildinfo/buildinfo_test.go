package buildinfo

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"
)

func TestRead(t *testing.T) {
	recorded := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v0.1.0"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-16T08:00:00Z"}, {Key: "vcs.modified", Value: "true"},
	}}
	for _, test := range []struct {
		info *debug.BuildInfo
		want Info
		text string
	}{
		{recorded, Info{"v0.1.0", "abc with changes", "2026-11-16T08:00:00Z", "go1.26.8"}, "v0.1.0 (commit abc with changes, 2026-11-16T08:00:00Z, go1.26.8)"},
		{&debug.BuildInfo{}, Info{"unknown", "unknown", "unknown", "unknown"}, "unknown (commit unknown, unknown, unknown)"},
	} {
		if got := read(test.info); got != test.want || got.String() != test.text {
			t.Errorf("%v: got %+v, %v", test.info, got, got)
		}
	}
}

// The linker's flags name variables by a string that no compiler checks.
func TestLinker(t *testing.T) {
	const here = "github.com/penstock-io/penstock/internal/buildinfo"
	dir := t.TempDir()
	flags := "-X " + here + ".version=v9.8.7 -X " + here + ".commit=c0ffee -X " + here + ".date=2026-11-16T08:00:00Z"
	if out, err := exec.Command("go", "test", "-c", "-ldflags", flags, "-o", filepath.Join(dir, "linked"), ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	linked := exec.Command(filepath.Join(dir, "linked"), "-test.run", "^TestPrint$")
	linked.Env = append(os.Environ(), "PENSTOCK_TEST_BUILDINFO="+filepath.Join(dir, "said"))
	if out, err := linked.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	said, err := os.ReadFile(filepath.Join(dir, "said"))
	if err != nil {
		t.Fatal(err)
	}
	var got Info
	if err := json.Unmarshal(said, &got); err != nil || got.Version != "v9.8.7" || got.Commit != "c0ffee" || got.Date != "2026-11-16T08:00:00Z" {
		t.Errorf("got %s: %v", said, err)
	}
}

// TestPrint is the program that TestLinker links.
func TestPrint(t *testing.T) {
	path := os.Getenv("PENSTOCK_TEST_BUILDINFO")
	if path == "" {
		t.Skip("run by TestLinker")
	}
	text, err := json.Marshal(Read())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
