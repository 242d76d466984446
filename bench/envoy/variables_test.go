package envoy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/envoyenv"
)

// Penstock knows every variable of envoyproxy/ratelimit, at the version that this benchmark runs.
func TestVariablesOfTheSource(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "github.com/envoyproxy/ratelimit")
	list.Dir = "ratelimit"
	out, err := list.Output()
	dir := regexp.MustCompile(`"Dir": "(.+)"`).FindSubmatch(out)
	if err != nil || dir == nil {
		t.Fatalf("download envoyproxy/ratelimit: %v: %s", err, out)
	}
	source, err := os.ReadFile(filepath.Join(string(dir[1]), "src", "settings", "settings.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`envconfig:"([A-Z0-9_]+)"`).FindAllSubmatch(source, -1)
	if len(names) < 100 {
		t.Fatalf("settings.go has only %d variables", len(names))
	}
	for _, name := range names {
		if !slices.ContainsFunc(envoyenv.Variables, func(v envoyenv.Variable) bool {
			prefix, all := strings.CutSuffix(v.Name, "*")
			return v.Name == string(name[1]) || all && strings.HasPrefix(string(name[1]), prefix)
		}) {
			t.Errorf("%s is neither read, ignored with a reason nor refused", name[1])
		}
	}
}
