package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/redistest"
)

// shellPages are pages whose commands run as they stand, in one shell.
var shellPages = []struct {
	name  string
	needs string // a program without which the page is not run
}{
	{"tutorials/quick-start.md", "curl"},
	{"tutorials/first-rules.md", ""},
	{"tutorials/nginx.md", "nginx"},
	{"tutorials/envoy.md", "curl"},
	{"how-to/gateway.md", ""},
	{"how-to/several-nodes.md", "curl"},
	{"how-to/plans.md", ""},
	{"how-to/shadow.md", ""},
	{"how-to/rotate-secrets.md", ""},
	{"how-to/backup.md", ""},
}

// pageFile is a file that a page shows, by the comment it begins with. Notes in brackets after the name are allowed.
var pageFile = regexp.MustCompile("(?s)```yaml\n(# ([a-z-]+\\.yaml)\n.*?)```")

// pagePorts are the ports that pages use. A test replaces them by free ones.
var pagePorts = []string{"8080", "8081", "8090", "8091", "8092"}

// Pages show what their commands print, run against the real program. To accept what they print now:
// PENSTOCK_TEST_UPDATE=1 go test ./cmd/penstock -run TestPages.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, p := range shellPages {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(p.needs); p.needs != "" && err != nil {
				t.Skipf("%s is not installed", p.needs)
			}
			path := filepath.Join("../../docs", p.name)
			page, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			updated := runPage(t, string(page))
			if updated == string(page) {
				return
			}
			if os.Getenv("PENSTOCK_TEST_UPDATE") == "" {
				t.Fatalf("%s does not show what its commands print:\n%s", p.name, firstDifference(string(page), updated))
			}
			if err := os.WriteFile(path, []byte(updated), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// runPage runs the commands of a page, and returns the page with what they print.
func runPage(t *testing.T, page string) string {
	t.Helper()
	var here, there []string // the page's ports to free ones, and back
	env := []string{}
	for _, port := range pagePorts {
		free := quietPort(t)
		here, there = append(here, port, free), append(there, free, port)
	}
	if strings.Contains(page, "6379") {
		addr := redistest.Start(t).Addr
		here = append(here, "6379", addr[strings.LastIndex(addr, ":")+1:], "timeout: 50ms", "timeout: 20s")
	}
	local, documented := strings.NewReplacer(here...), strings.NewReplacer(there...)
	for name, port := range map[string]string{"GATEWAY": "8080", "GRPC": "8081", "HTTP": "8090", "ADMIN": "8091"} {
		if !strings.Contains(page, "listen: {"+strings.ToLower(name)) { // the environment beats the file
			env = append(env, "PENSTOCK_LISTEN_"+name+"=127.0.0.1:"+local.Replace(port))
		}
	}
	dir := t.TempDir()
	for _, m := range pageFile.FindAllStringSubmatch(page, -1) {
		text, _ := strings.CutPrefix(m[1], "# "+m[2]+"\n") // exported documents are compared with the file
		if err := os.WriteFile(filepath.Join(dir, m[2]), []byte(local.Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := startShell(t, dir, append(env, "HOME="+dir)...)
	ran := 0
	updated := guideBlock.ReplaceAllStringFunc(page, func(block string) string {
		m := guideBlock.FindStringSubmatch(block)
		printed := documented.Replace(strings.TrimRight(s.run(local.Replace(m[1])), " \n"))
		ran++
		if printed == "" {
			return "```sh\n" + m[1] + "```\n"
		}
		return "```sh\n" + m[1] + "```\n\n```text\n" + printed + "\n```\n"
	})
	if ran == 0 {
		t.Error("the page has no commands")
	}
	return updated
}

// quietPort returns a free port below those that the kernel gives to connections, so that none takes it before the
// server does.
func quietPort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		port := fmt.Sprint(15000 + rand.IntN(15000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

func firstDifference(a, b string) string {
	lines := strings.Split(b, "\n")
	for i, line := range strings.Split(a, "\n") {
		if i >= len(lines) || lines[i] != line {
			return "-" + line + "\n+" + strings.Join(lines[min(i, len(lines)):min(i+3, len(lines))], "\n+")
		}
	}
	return strings.Join(lines[slices.Max([]int{0, len(lines) - 3}):], "\n")
}
