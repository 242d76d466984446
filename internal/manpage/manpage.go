// Package manpage generates manual pages from the commands of a program, so that they match --help.
package manpage

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Write writes a page for a command and each of its subcommands into a directory, which must exist.
func Write(root *cobra.Command, dir, version string, date time.Time) error {
	for _, c := range commands(root) {
		path := filepath.Join(dir, name(c)+".1")
		if err := os.WriteFile(path, []byte(page(c, version, date)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// commands returns the command and all those below it that --help shows.
func commands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() {
			all = append(all, commands(child)...)
		}
	}
	return all
}

func name(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func page(c *cobra.Command, version string, date time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %q 1 %q %q \"Penstock\"\n", strings.ToUpper(name(c)), date.UTC().Format(time.DateOnly), "penstock "+version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escape(name(c)), escape(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fP", escape(c.CommandPath()))
	if c.HasAvailableSubCommands() {
		b.WriteString(" \\fICOMMAND\\fP")
	}
	if _, arguments, ok := strings.Cut(c.Use, " "); ok {
		b.WriteString(" " + escape(arguments))
	}
	b.WriteString(" [\\fIOPTIONS\\fP]\n")
	if c.Long != "" {
		b.WriteString(".SH DESCRIPTION\n" + verbatim(c.Long))
	}
	if c.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
		for _, child := range c.Commands() {
			if child.IsAvailableCommand() {
				fmt.Fprintf(&b, ".TP\n\\fB%s\\fP(1)\n%s\n", escape(name(child)), escape(child.Short))
			}
		}
	}
	flags(&b, "OPTIONS", c.NonInheritedFlags())
	flags(&b, "OPTIONS OF ALL COMMANDS", c.InheritedFlags())
	if c.Example != "" {
		b.WriteString(".SH EXAMPLES\n" + verbatim(c.Example))
	}
	if c.HasParent() {
		related := []string{name(c.Parent())}
		for _, sibling := range c.Parent().Commands() {
			if sibling != c && sibling.IsAvailableCommand() {
				related = append(related, name(sibling))
			}
		}
		slices.Sort(related)
		for i, r := range related {
			related[i] = fmt.Sprintf("\\fB%s\\fP(1)", escape(r))
		}
		b.WriteString(".SH SEE ALSO\n")
		b.WriteString(strings.Join(related, ",\n") + "\n")
	}
	return b.String()
}

func flags(b *strings.Builder, title string, set *pflag.FlagSet) {
	if !set.HasAvailableFlags() {
		return
	}
	b.WriteString(".SH " + title + "\n")
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		argument, usage := pflag.UnquoteUsage(f)
		b.WriteString(".TP\n")
		if f.Shorthand != "" {
			fmt.Fprintf(b, "\\fB\\-%s\\fP, ", escape(f.Shorthand))
		}
		fmt.Fprintf(b, "\\fB\\-\\-%s\\fP", escape(f.Name))
		if argument != "" {
			fmt.Fprintf(b, " \\fI%s\\fP", escape(argument))
		}
		fmt.Fprintf(b, "\n%s", escape(usage))
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
			fmt.Fprintf(b, " (default %s)", escape(f.DefValue))
		}
		b.WriteByte('\n')
	})
}

// verbatim keeps the lines of a text, which has examples and tables among its sentences.
func verbatim(text string) string {
	return ".nf\n" + escape(strings.Trim(text, "\n")) + "\n.fi\n"
}

var special = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// escape quotes what roff would take for its own: backslashes, dashes, and a dot at the start of a line.
func escape(text string) string {
	lines := strings.Split(special.Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
