package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// howTos are pages whose commands run as they stand, in an order, in one directory.
var howTos = []string{"login-failures.md", "backtest.md", "suggest.md", "plan.md", "simulate.md", "bench.md"}

// consoleBlock is a command and its output, compared without numbers if it says that they vary. Other blocks are
// not run.
var consoleBlock = regexp.MustCompile("(?s)```console( varies)?\n\\$ (.*?)\n(.*?)```")

// varying are numbers with their units, plots, and space that depends on both.
var varying = regexp.MustCompile(`(?m)^.*[┤┼].*\n|[0-9][0-9.,]*(ns|µs|ms|s)?|[ ]+`)

// yamlFile is a file that a page shows, by the comment it begins with.
var yamlFile = regexp.MustCompile("(?s)```yaml\n# ([a-z-]+\\.yaml)\n(.*?)```")

// How-to pages show what the commands print. To accept what they print now: PENSTOCK_TEST_UPDATE=1 go test
// ./cmd/penstock -run TestHowTos.
func TestHowTos(t *testing.T) {
	for _, name := range howTos {
		t.Run(name, func(t *testing.T) {
			path, err := filepath.Abs(filepath.Join("../../docs/how-to", name))
			if err != nil {
				t.Fatal(err)
			}
			page, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(t.TempDir())
			writeSampleLog(t)
			for _, m := range yamlFile.FindAllSubmatch(page, -1) {
				if err := os.WriteFile(string(m[1]), m[2], 0o600); err != nil {
					t.Fatal(err)
				}
			}
			ran := 0
			updated := consoleBlock.ReplaceAllFunc(page, func(block []byte) []byte {
				m := consoleBlock.FindSubmatch(block)
				ran++
				printed := runDocumented(t, string(m[2]))
				if len(m[1]) > 0 && varying.ReplaceAllString(printed, " ") == varying.ReplaceAllString(string(m[3]), " ") {
					return block
				}
				return fmt.Appendf(nil, "```console%s\n$ %s\n%s```", m[1], m[2], printed)
			})
			if ran == 0 {
				t.Error("the page has no command that runs")
			}
			if bytes.Equal(updated, page) {
				return
			}
			if os.Getenv("PENSTOCK_TEST_UPDATE") == "" {
				t.Fatalf("%s does not show what its commands print; PENSTOCK_TEST_UPDATE=1 go test ./cmd/penstock -run TestHowTos makes it", name)
			}
			if err := os.WriteFile(path, updated, 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// runDocumented runs one line of a page. | head -n cuts what is shown, as it does in a shell.
func runDocumented(t *testing.T, line string) string {
	t.Helper()
	line, head, _ := strings.Cut(line, " | head -n ")
	args := strings.Fields(line)
	if len(args) == 0 || args[0] != "penstock" {
		t.Fatalf("%q is not a command of penstock", line)
	}
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	if code := a.run(t.Context(), args[1:]); code != exitYes {
		t.Fatalf("%s: exit status %d\n%s%s", line, code, &out, &errs)
	}
	text := out.String()
	if head != "" {
		var n int
		if _, err := fmt.Sscan(head, &n); err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(text, "\n")
		text = strings.Join(lines[:min(n, len(lines))], "")
	}
	return text
}

// writeSampleLog writes access.log, an hour of a small site: ordinary clients, one that reads many pages, and one
// that guesses passwords from 09:40 on.
func writeSampleLog(t *testing.T) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(random, 1.3, 4, 400)
	var b strings.Builder
	start := time.Date(2026, 11, 16, 9, 0, 0, 0, time.UTC)
	line := func(at time.Time, ip, method, path string, status int) {
		fmt.Fprintf(&b, "%s - - [%s] \"%s %s HTTP/1.1\" %d %d \"-\" \"Mozilla/5.0\"\n", ip, at.Format("02/Jan/2006:15:04:05 -0700"), method, path, status, 200+random.IntN(5000))
	}
	for second := range 3600 {
		at := start.Add(time.Duration(second) * time.Second)
		for range random.IntN(4) {
			client := zipf.Uint64()
			path, method := []string{"/", "/search?q=a", "/items/17", "/login"}[min(3, random.IntN(5))], "GET"
			if path == "/login" {
				method = "POST"
			}
			line(at, fmt.Sprintf("198.51.100.%d", client%250), method, path, 200)
		}
		if second%2 == 0 {
			line(at, "203.0.113.50", "GET", fmt.Sprintf("/items/%d", second), 200)
		}
		if second >= 2400 && second%3 == 0 {
			line(at, "203.0.113.66", "POST", "/login", 401)
		}
		if second == 1800 {
			b.WriteString("198.51.100.3 - - [16/Nov/2026:09:30:00 +0000] \"\\x16\\x03\\x01\" 400 0 \"-\" \"-\"\n")
		}
	}
	if err := os.WriteFile("access.log", []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
