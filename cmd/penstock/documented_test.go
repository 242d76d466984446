package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	shellBlock     = regexp.MustCompile("(?ms)^```(sh|console)[^\n]*\n(.*?)^```$")
	documentedLine = regexp.MustCompile(`(?m)(?:^|[;|&(=] ?|\$ )(penstock [^\n|;&>#<]*)`)
	prompted       = regexp.MustCompile(`(?m)^\$ .*$`)
	quotedText     = regexp.MustCompile(`"[^"]*"|'[^']*'`)
)

// Every command line on a page names commands and flags that exist, also where the page does not run.
func TestDocumentedCommandLines(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, _ := filepath.Glob("../../*.md")
	checked := 0
	for _, page := range append(pages, more...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range shellBlock.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\\\n", " "), -1) {
			commands := block[2]
			if block[1] == "console" {
				commands = strings.Join(prompted.FindAllString(commands, -1), "\n")
			}
			for _, m := range documentedLine.FindAllStringSubmatch(commands, -1) {
				checked++
				if problem := unknownCommandLine(m[1]); problem != "" {
					t.Errorf("%s: %s: %s", page, m[1], problem)
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d command lines are on the pages", checked)
	}
	for _, line := range []string{"penstock serv", "penstock serve --rulez x", "penstock rules aply x"} {
		if unknownCommandLine(line) == "" {
			t.Errorf("%s: nothing is wrong with it", line)
		}
	}
}

// unknownCommandLine says which command or flag of a line does not exist, if one does not.
func unknownCommandLine(line string) string {
	words := strings.Fields(quotedText.ReplaceAllString(line, "x"))
	root := newRootCommand(&app{})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	c, rest, err := root.Find(words[1:])
	if err != nil {
		return err.Error()
	}
	c.InitDefaultHelpFlag()
	if c.HasAvailableSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return "unknown command " + rest[0]
	}
	for _, word := range rest {
		name, isFlag := strings.CutPrefix(word, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && name != "" && c.Flag(name) == nil && c.InheritedFlags().Lookup(name) == nil {
			return "unknown flag --" + name
		}
	}
	return ""
}
