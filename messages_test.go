package penstock_test

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/penstock-io/penstock/internal/messages"
)

const messagesFile = "testdata/messages.txt"

// messagesHeader explains the list to its readers.
const messagesHeader = `# Every message that a user can see, from the sources: read it to review the wording. Errors, log events (with their
# fields), help of settings, and other text: printed, part of a problem document, or on a page of the console.
# make generate writes this file.
`

// The committed list has every message. To accept what the sources say now: make generate.
func TestListOfMessagesIsCurrent(t *testing.T) {
	fromGo, err := messages.Go(".", onlyForTests(t))
	if err != nil {
		t.Fatal(err)
	}
	console, err := messages.Web("internal/console/web/src")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(messagesHeader)
	pkg := ""
	for _, m := range append(fromGo, console...) {
		if m.Package != pkg {
			pkg = m.Package
			fmt.Fprintf(&b, "\n## %s\n\n", pkg)
		}
		kind := string(m.Kind)
		if m.Level != "" {
			kind += " " + m.Level
		}
		fmt.Fprintf(&b, "%s: %s", kind, strings.ReplaceAll(strings.TrimSpace(m.Text), "\n", "\n    "))
		if len(m.Fields) > 0 {
			fmt.Fprintf(&b, " [%s]", strings.Join(m.Fields, " "))
		}
		b.WriteString("\n")
	}
	checkGenerated(t, messagesFile, b.String())
}

// checkGenerated compares a generated file with what it should be, and writes it under PENSTOCK_TEST_UPDATE.
func checkGenerated(t *testing.T, file, want string) {
	t.Helper()
	if os.Getenv("PENSTOCK_TEST_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got := strings.Split(readText(t, file), "\n")
	for i, line := range strings.Split(want, "\n") {
		if i >= len(got) || got[i] != line {
			t.Fatalf("%s is not what the sources say, from line %d on: make generate writes it\nwant: %s", file, i+1, line)
		}
	}
	if got := readText(t, file); len(got) != len(want) {
		t.Fatalf("%s has lines that the sources do not have: make generate writes it", file)
	}
}

// onlyForTests says which packages only tests import, as the page on the architecture lists them.
func onlyForTests(t *testing.T) func(pkg string) bool {
	t.Helper()
	_, sections := architecture(t)
	listed := map[string]bool{}
	for _, row := range tableName.FindAllStringSubmatch(sections["For tests"], -1) {
		listed[row[1]] = true
	}
	return func(pkg string) bool { return listed[pkg] }
}

// The page of log events lists every event with its level and fields.
func TestPageOfLogEventsIsCurrent(t *testing.T) {
	found, err := messages.Go(".", onlyForTests(t))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# Log events\n\nEvery event that a node logs, by package. `log.level` and `log.format` choose what is written and how ([configuration](configuration.md)); denied requests are logged as `log.decisions` says. Fields that every line has (`time`, `level`, `msg`) are left out.\n\nThis page is generated from the sources.\n")
	pkg := ""
	for _, m := range found {
		if m.Kind != messages.Log || m.Package == "cmd/penstock" && m.Level == "" {
			continue
		}
		if m.Package != pkg {
			pkg = m.Package
			fmt.Fprintf(&b, "\n## %s\n\n| event | level | fields |\n|---|---|---|\n", path.Base(pkg))
		}
		fields := ""
		for _, name := range m.Fields {
			fields += "`" + name + "` "
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", tableCell(m.Text), m.Level, strings.TrimSpace(fields))
	}
	checkGenerated(t, "docs/reference/log-events.md", b.String())
}

// errorGroups are the sections of the page of errors, and the packages whose messages they list.
var errorGroups = []struct{ title, about, packages string }{
	{"In a rules document", "With file, line and column. [Rules](rules.md) explains them with examples.", "rules rules/live rules/internal/expr rules/internal/pattern algorithm internal/strictdoc"},
	{"In the configuration", "With the file and line, the variable or the flag that set the value.", "internal/config internal/listener internal/envoyenv"},
	{"From commands", "After `penstock: `, on the standard error.", "cmd/penstock internal/accesslog internal/backtest internal/simulator/replay internal/suggest internal/plan internal/simulate internal/loadgen internal/ruletest internal/rulediff"},
	{"From the decision API", "As the `detail` or `errors` of a problem document, or as a gRPC status.", "internal/api internal/wire internal/grpcapi internal/rls engine storage internal/webguard internal/onevalue internal/bounds"},
	{"From the admin API", "As the `detail` or `errors` of a problem document.", "internal/admin internal/ruleservice internal/playground"},
	{"From the gateway", "As the `detail` of a problem document.", "internal/gateway internal/urlform internal/reqbody httplimit httplimit/jwtclaims"},
	{"From databases and Redis", "In logs, in `/readyz`, and from `penstock doctor`.", "internal/ruledb internal/ruleredis redisstore internal/redisdial internal/membership internal/xdsconfig internal/envoyratelimit"},
	{"In a Go program", "Wrapped: compare with `errors.Is`.", ". client client/grpcclient grpclimit stack memstore"},
}

// The page of errors lists what a user can be told, by where it is seen.
func TestPageOfErrorsIsCurrent(t *testing.T) {
	found, err := messages.Go(".", onlyForTests(t))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(errorsHead)
	for i, g := range errorGroups { // the first two make their errors with functions of their own
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", g.title, g.about)
		listed := map[string]bool{}
		for _, m := range found {
			text := strings.TrimSpace(verbs.ReplaceAllString(m.Text, "…"))
			isWrapper := !strings.ContainsFunc(strings.ReplaceAll(text, "…", ""), unicode.IsLetter)
			if m.Kind != messages.Error && (m.Kind != messages.Text || i > 1) || !slices.Contains(strings.Fields(g.packages), m.Package) || isWrapper || listed[text] {
				continue
			}
			listed[text] = true
			fmt.Fprintf(&b, "- `%s`\n", strings.ReplaceAll(strings.ReplaceAll(text, "\n", " "), "`", "'"))
		}
		if len(listed) == 0 {
			t.Errorf("%s: there are none", g.title)
		}
	}
	checkGenerated(t, "docs/reference/errors.md", b.String())
}

// verbs are the places of values in a message.
var verbs = regexp.MustCompile(`%[-+#0-9.]*[a-zA-Z]`)

const errorsHead = `# Errors

An error says what failed, the value, where it is, and what is allowed. … stands for a value.

Penstock's HTTP APIs answer errors as problem documents (RFC 9457, ` + "`application/problem+json`" + `): ` + "`title`" + `, ` + "`status`" + `, ` + "`detail`" + `, ` + "`errors`" + ` with one entry for each invalid field, and in some cases ` + "`code`" + ` for programs. [The decision API](http-api.md) and [the admin API](admin-http-api.md) list the statuses of each request, [commands](cli.md) their exit statuses.

This page is generated from the sources.
`

func tableCell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "|", "\\|"), "<", "&lt;")
}
