package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	pageCommand = regexp.MustCompile("(?s)```console\n\\$ (.*?)\n(.*?)```")
	pageFile    = regexp.MustCompile("(?s)```yaml\n# ([a-z-]+\\.yaml)\n(.*?)```")
)

// The page about budgets of tokens shows what its commands print, with a fake model behind the gateway.
func TestLanguageModelPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/how-to/llm-gateway.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, up := t.TempDir(), newModel(t)
	for _, m := range pageFile.FindAllSubmatch(page, -1) {
		text := strings.NewReplacer("127.0.0.1:8080", "127.0.0.1:0", "https://api.openai.com", up.URL).Replace(string(m[2]))
		writeFile(t, filepath.Join(dir, string(m[1])), text)
	}
	config := filepath.Join(dir, "penstock.yaml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, config, strings.Replace(string(text), "listen: {", `listen: {http: "127.0.0.1:0", grpc: "127.0.0.1:0", admin: "127.0.0.1:0", `, 1))
	n := launch(t, dir, "serve", "--config", config)
	commands := pageCommand.FindAllSubmatch(page, -1)
	if len(commands) < 5 {
		t.Errorf("only %d commands", len(commands))
	}
	for _, m := range commands {
		command := strings.ReplaceAll(string(m[1]), "http://127.0.0.1:8080", n.url("gateway", ""))
		c := exec.Command("bash", "-c", command)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil || string(out) != string(m[2]) {
			t.Errorf("%s: %v\n%swant\n%s", command, err, out, m[2])
		}
	}
}
