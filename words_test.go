package penstock_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// avoidedPhrase is a phrase that nobody should have to read twice, and what to write instead.
type avoidedPhrase struct {
	phrase, instead string
	first           string // its first word in lower case: most lines lack it, and need no regular expression
	pattern         *regexp.Regexp
}

// Text people read (code, comments, pages, console) avoids the phrases in testdata/avoid.txt.
func TestPlainEnglish(t *testing.T) {
	phrases, exceptions := readAvoided(t)
	for _, name := range textFiles(t) {
		for i, line := range readLines(t, name) {
			lower := strings.ToLower(line)
			for _, a := range phrases {
				if strings.Contains(lower, a.first) && a.pattern.MatchString(line) && !exceptions[name+": "+a.phrase] {
					t.Errorf("%s:%d: %q: write %s", name, i+1, a.phrase, a.instead)
				}
			}
		}
	}
}

// The patterns match whole words in any case, and nothing else.
func TestAvoidedPatterns(t *testing.T) {
	for _, c := range []struct {
		line string
		want bool
	}{
		{"limits hold twice over", true},
		{"Twice  over, it holds", true},
		{"twice as often, over a day", false},
		{"twice overdue", false},
		{"thrice over", false},
	} {
		if got := avoidedPattern("twice over").MatchString(c.line); got != c.want {
			t.Errorf("%q: got %v", c.line, got)
		}
	}
}

func avoidedPattern(phrase string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b` + strings.ReplaceAll(regexp.QuoteMeta(phrase), " ", `\s+`) + `\b`)
}

// readAvoided reads "phrase | what to write" and "except file: phrase".
func readAvoided(t *testing.T) (phrases []avoidedPhrase, exceptions map[string]bool) {
	t.Helper()
	exceptions = map[string]bool{}
	for _, line := range readLines(t, "testdata/avoid.txt") {
		if rest, ok := strings.CutPrefix(line, "except "); ok {
			exceptions[rest] = true
			continue
		}
		phrase, instead, ok := strings.Cut(line, " | ")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if !ok {
			t.Fatalf("testdata/avoid.txt: %q is not: phrase | what to write", line)
		}
		first, _, _ := strings.Cut(strings.ToLower(phrase), " ")
		phrases = append(phrases, avoidedPhrase{phrase, instead, first, avoidedPattern(phrase)})
	}
	if len(phrases) == 0 {
		t.Fatal("testdata/avoid.txt has no phrases")
	}
	return phrases, exceptions
}

// textFiles are the files of the tree that people read.
func textFiles(t *testing.T) (names []string) {
	t.Helper()
	for _, name := range trackedFiles(t) {
		switch filepath.Ext(name) {
		case ".go", ".md", ".ts", ".tsx", ".mjs", ".py", ".yaml", ".yml", ".lua", ".json", ".proto", ".scenario", ".txtar", ".conf", ".service":
			if !strings.HasSuffix(name, ".pb.go") && name != "words_test.go" && !strings.HasSuffix(name, "package-lock.json") {
				names = append(names, name)
			}
		}
	}
	return names
}

// trackedFiles are the files that are committed, or staged to be.
func trackedFiles(t *testing.T) (names []string) {
	t.Helper()
	out, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() {
			names = append(names, name)
		}
	}
	return names
}

func readLines(t *testing.T, name string) (lines []string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	if err := scanner.Err(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return lines
}
