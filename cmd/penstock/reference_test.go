package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const commandsPage = "../../docs/reference/cli.md"

// The page of the commands says what --help says.
func TestPageOfCommandsIsCurrent(t *testing.T) {
	t.Parallel()
	root := newRootCommand(&app{})
	var b strings.Builder
	fmt.Fprintf(&b, `# Commands

This page is generated from the commands: it says what %s says. Exit statuses are the same everywhere:

| status | |
|---|---|
| %d | yes: allowed, valid, the same |
| %d | no: denied, invalid, different |
| %d | the command line is invalid |
| %d | the server, or something it depends on, failed |
`, "`--help`", exitYes, exitNo, exitUsage, exitFailed)
	commandReference(&b, root)
	if os.Getenv("PENSTOCK_TEST_UPDATE") != "" {
		if err := os.WriteFile(commandsPage, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(commandsPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Error("docs/reference/cli.md is not what the commands say: make generate writes it")
	}
}

// commandReference writes a command and those below it.
func commandReference(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "\n## `%s`\n\n%s.\n", c.CommandPath(), strings.TrimSuffix(c.Short, "."))
	if c.Runnable() && c.HasParent() {
		fmt.Fprintf(b, "\n```\n%s\n```\n", c.UseLine())
	}
	if c.Long != "" && c.Long != c.Short {
		fmt.Fprintf(b, "\n%s\n", fenced(c.Long))
	}
	if c.Example != "" {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", unindented(c.Example))
	}
	if c.LocalNonPersistentFlags().HasAvailableFlags() {
		b.WriteString("\n| flag | default | |\n|---|---|---|\n")
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { flagRow(b, f) })
	}
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() && child.Name() != "help" {
			commandReference(b, child)
		}
	}
}

// fenced keeps a text as it is laid out if it has a table or a list of its own.
func fenced(text string) string {
	if strings.Contains(text, "\n  ") {
		return "```\n" + text + "\n```"
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, "<", "&lt;"), "*", "\\*")
}

func unindented(text string) string {
	return strings.TrimSpace(strings.ReplaceAll("\n"+text, "\n  ", "\n"))
}

func flagRow(b *strings.Builder, f *pflag.Flag) {
	if f.Hidden || f.Name == "help" {
		return
	}
	kind, usage := pflag.UnquoteUsage(f)
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if kind != "" {
		name += " " + kind
	}
	value := ""
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
		value = "`" + f.DefValue + "`"
	}
	usage = strings.NewReplacer("|", "\\|", "<", "&lt;").Replace(usage)
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", strings.ReplaceAll(name, "|", "\\|"), value, usage)
}
