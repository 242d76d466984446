package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/rulediff"
	"github.com/penstock-io/penstock/rules"
)

func newRulesDiffCommand(a *app) *cobra.Command {
	var from databaseFlags
	var version int64
	var textToo bool
	c := &cobra.Command{
		Use:   "diff [OLD] NEW",
		Short: "Compare two sets of rules",
		Long: `Compare two sets of rules: first the changes that affect clients, then the text. Each is a
file, a directory, or - for stdin. With NEW alone, it is compared with the database.

Exit status: 0 if they are the same, 1 if they differ.`,
		Example: `  penstock rules diff old.yaml new.yaml
  penstock rules diff rules.yaml --database sqlite:penstock.db
  penstock rules diff rules.yaml --version 7 --text=false`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 2 && (from.database != "" || from.file != "" || from.config != "" || version != 0) {
				return misused("OLD is %s: leave out --database, --database-file, --config and --version", args[0])
			}
			if len(args) == 2 && args[0] == "-" && args[1] == "-" {
				return misused("stdin can be only one of the two")
			}
			before, err := a.oldRules(c.Context(), args, &from, version)
			if err != nil {
				return answered(err)
			}
			after, err := a.readRules(c.Context(), args[len(args)-1])
			if err != nil {
				return err
			}
			diff, err := rulediff.Of(c.Context(), before, after)
			if err != nil {
				return answered(err)
			}
			return a.tellDiff(diff, textToo)
		},
	}
	from.add(c)
	c.Flags().Int64Var(&version, "version", 0, "compare with this `version` in the database; 0 is the current one")
	c.Flags().BoolVar(&textToo, "text", true, "also compare the text")
	return c
}

// oldRules reads the rules to compare with: the first of two arguments, or a version in the database.
func (a *app) oldRules(ctx context.Context, args []string, from *databaseFlags, version int64) ([]rules.File, error) {
	if len(args) == 2 {
		return a.readRules(ctx, args[0])
	}
	base, err := a.openRules(ctx, from, false)
	if err != nil {
		return nil, err
	}
	defer base.close()
	v, err := base.at(ctx, version)
	if err != nil {
		return nil, err
	}
	return []rules.File{documentOf(v)}, nil
}

// at returns a version, or the current one for 0. Before the first save, that is the empty version.
func (b *rulebase) at(ctx context.Context, version int64) (ruledb.Version, error) {
	if version == 0 {
		return b.Current(ctx)
	}
	return b.Version(ctx, version)
}

// documentOf returns the rules of a version. The empty version has none.
func documentOf(v ruledb.Version) rules.File {
	file := rules.File{Name: fmt.Sprintf("version %d", v.Number), Data: v.Document}
	if v.Number == 0 {
		file.Data = []byte("rules: []\n")
	}
	return file
}

func (a *app) tellDiff(d *rulediff.Diff, textToo bool) error {
	if !textToo {
		d.Text, d.Same = "", len(d.Changes) == 0
	}
	switch {
	case a.json():
		if err := a.writeJSON(d); err != nil {
			return err
		}
	case d.Same:
		fmt.Fprintln(a.stderr, "no differences")
	default:
		writeChanges(a.stdout, d.Changes)
		if d.Text != "" {
			fmt.Fprintf(a.stdout, "\n%s", d.Text)
		}
	}
	return exitWith(d.Same)
}

var opMarks = map[string]string{rulediff.Add: "+", rulediff.Alter: "~", rulediff.Remove: "-"}

// writeChanges writes one line for each change, and their number.
func writeChanges(w io.Writer, changes []rulediff.Change) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	counts := map[string]int{}
	for _, c := range changes {
		counts[c.Op]++
		name := c.Name
		if c.Kind != "rule" {
			name = strings.TrimSpace(c.Kind + " " + name)
		}
		if len(c.Fields) == 0 {
			fmt.Fprintf(table, "%s %s\t%s\n", opMarks[c.Op], name, c.Value)
		}
		for i, f := range c.Fields {
			start := opMarks[c.Op] + " " + name
			if i > 0 {
				start = ""
			}
			fmt.Fprintf(table, "%s\t%s %s → %s\n", start, f.Field, cmp.Or(f.From, "(none)"), cmp.Or(f.To, "(none)"))
		}
	}
	table.Flush()
	fmt.Fprintf(w, "%d to add, %d to change, %d to remove\n", counts[rulediff.Add], counts[rulediff.Alter], counts[rulediff.Remove])
}
