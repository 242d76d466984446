package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/rules"
)

func newRulesExportCommand(a *app) *cobra.Command {
	var from databaseFlags
	var version int64
	c := &cobra.Command{
		Use:   "export",
		Short: "Write the rules in the database to stdout",
		Long: `Write a version of the rules from the database to stdout, exactly as saved, and its number
to stderr. -o json converts the rules to JSON.`,
		Example: `  penstock rules export --database sqlite:penstock.db > rules.yaml
  penstock rules export --version 7 | penstock rules diff - rules.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			base, err := a.openRules(c.Context(), &from, false)
			if err != nil {
				return err
			}
			defer base.close()
			v, err := base.at(c.Context(), version)
			if err != nil {
				return answered(err)
			}
			if v.Number == 0 {
				return exitWithNo(fmt.Errorf("%v has no rules yet", base.DB))
			}
			fmt.Fprintf(a.stderr, "version %d by %s at %s\n", v.Number, v.Author, v.At.Format(time.RFC3339))
			document := v.Document
			if a.json() {
				doc, err := rules.Parse(fmt.Sprintf("version %d", v.Number), v.Document)
				if err != nil {
					return answered(err)
				}
				document = append(doc.JSON(), '\n')
			}
			_, err = a.stdout.Write(document)
			return err
		},
	}
	from.add(c)
	c.Flags().Int64Var(&version, "version", 0, "this `version`; 0 is the current one")
	return c
}

func newRulesHistoryCommand(a *app) *cobra.Command {
	var from databaseFlags
	var number int
	var before int64
	c := &cobra.Command{
		Use:   "history",
		Short: "List the versions of the rules",
		Example: `  penstock rules history --database sqlite:penstock.db
  penstock rules history -n 5 --before 40 -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if number < 1 || number > 10_000 || before < 0 {
				return misused("-n %d must be from 1 to 10000 and --before %d not negative", number, before)
			}
			base, err := a.openRules(c.Context(), &from, false)
			if err != nil {
				return err
			}
			defer base.close()
			versions, err := base.History(c.Context(), before, number)
			if err != nil {
				return answered(err)
			}
			shown := make([]versionJSON, len(versions))
			for i, v := range versions {
				shown[i] = shownVersion(v)
			}
			return a.tellHistory(shown)
		},
	}
	from.add(c)
	c.Flags().IntVarP(&number, "number", "n", 20, "`number` of versions to list, newest first")
	c.Flags().Int64Var(&before, "before", 0, "only versions before this `version`, for the next page")
	return c
}

func (a *app) tellHistory(versions []versionJSON) error {
	if a.json() {
		return a.writeJSON(versions)
	}
	if len(versions) == 0 {
		fmt.Fprintln(a.stderr, "no versions yet")
		return nil
	}
	table := newTable(a.stdout, "VERSION\tAT\tAUTHOR\tMESSAGE")
	for _, v := range versions {
		message, _, _ := strings.Cut(v.Message, "\n")
		if v.Restores != 0 {
			message = strings.TrimSpace(fmt.Sprintf("%s (version %d again)", message, v.Restores))
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\n", v.Version, v.At.Format(time.RFC3339), v.Author, message)
	}
	return table.Flush()
}

func newRulesRollbackCommand(a *app) *cobra.Command {
	var flags changeFlags
	c := &cobra.Command{
		Use:   "rollback [VERSION]",
		Short: "Restore an older version of the rules",
		Long: `Save the rules of an older version as the next version. Without a version, that is the one
before the current one. The history keeps both. Rules that no longer compile are rejected.

Bans that the current rules imposed stay: see penstock keys lift --rule.`,
		Example: `  penstock rules rollback --database sqlite:penstock.db -m "the new limit was too low"
  penstock rules history --database sqlite:penstock.db
  penstock rules rollback 3 --database sqlite:penstock.db -m "the new limit was too low"`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			to := int64(0)
			if len(args) > 0 {
				var err error
				if to, err = strconv.ParseInt(args[0], 10, 64); err != nil || to < 1 {
					return misused("version %q is not a number from 1 on", args[0])
				}
			}
			base, err := a.openRules(c.Context(), &flags.databaseFlags, false)
			if err != nil {
				return err
			}
			defer base.close()
			current, err := base.Current(c.Context())
			if err != nil {
				return err
			}
			switch {
			case to == 0 && current.Number < 2:
				return exitWithNo(fmt.Errorf("version %d is the first one: there is none before it", current.Number))
			case to == 0:
				to = current.Number - 1
			case current.Number == to:
				return exitWithNo(fmt.Errorf("version %d is the current one", to))
			}
			applied, err := base.service.Rollback(c.Context(), to, flags.change(a, current.Number))
			if err != nil {
				return a.tellRefused(err, applied.Warnings)
			}
			if err := a.tellApplied(c.Context(), base, current, applied); err != nil {
				return err
			}
			if bytes.Contains(current.Document, []byte("penalty")) {
				fmt.Fprintf(a.stderr, "bans that version %d imposed last until they end; to lift those of a rule: penstock keys lift --rule NAME --dry-run\n", current.Number)
			}
			return nil
		},
	}
	flags.add(c)
	return c
}
