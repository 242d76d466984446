package packaging

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// goreleaser is the newest version whose modules can all be downloaded.
const goreleaser = "github.com/goreleaser/goreleaser/v2@v2.14.3"

// GoReleaser sets the same variables as `make dist`, and uploads what that has made.
func TestGoReleaserFile(t *testing.T) {
	t.Parallel()
	text := readFile(t, filepath.Join(root, ".goreleaser.yaml"))
	var file struct {
		Dist   string
		Builds []struct{ LDFlags, Goos, Goarch []string }
	}
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Builds) != 1 || len(file.Builds[0].Goos)*len(file.Builds[0].Goarch) != 4 || file.Dist == "" || file.Dist == "dist" {
		t.Errorf("got %+v", file)
	}
	flags := run(t, root, source, filepath.Join(root, "scripts", "ldflags"), "v0.1.0")
	for _, flag := range strings.Split(strings.TrimSpace(flags), " -X ")[1:] {
		name, _, _ := strings.Cut(flag, "=")
		if !strings.Contains(strings.Join(file.Builds[0].LDFlags, " "), "-X "+name+"=") {
			t.Errorf("GoReleaser does not set %s", name)
		}
	}
}

func TestGoReleaserCheck(t *testing.T) {
	t.Parallel()
	needLong(t)
	if out, err := tryRun(t, root, nil, "go", "install", goreleaser); err != nil {
		t.Skipf("GoReleaser cannot be built here: %v\n%s", err, out)
	}
	run(t, root, nil, "go", "run", goreleaser, "check")
}

// actionlint checks workflows of GitHub.
const actionlint = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.11"

func TestReleaseWorkflowLint(t *testing.T) {
	t.Parallel()
	needLong(t)
	if out, err := tryRun(t, root, nil, "go", "install", actionlint); err != nil {
		t.Skipf("actionlint cannot be built here: %v\n%s", err, out)
	}
	run(t, root, nil, "go", "run", actionlint, filepath.Join(root, ".github", "workflows", "release.yml"))
}

func TestReleaseWorkflowFile(t *testing.T) {
	t.Parallel()
	var file struct {
		Jobs map[string]struct {
			Steps []struct{ Uses, Run string }
		}
	}
	if err := yaml.Unmarshal([]byte(readFile(t, filepath.Join(root, ".github", "workflows", "release.yml"))), &file); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, step := range file.Jobs["release"].Steps {
		all.WriteString(step.Uses + step.Run + "\n")
	}
	for _, want := range []string{".ci/run", "goreleaser/goreleaser-action@", "actions/attest-build-provenance@"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no step runs %s:\n%s", want, all.String())
		}
	}
}
