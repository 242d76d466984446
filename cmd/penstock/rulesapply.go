package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/rulediff"
	"github.com/penstock-io/penstock/internal/ruleservice"
	"github.com/penstock-io/penstock/rules"
)

// changeFlags say who changes the rules, why, and based on which version.
type changeFlags struct {
	databaseFlags
	author, message string
	ifVersion       int64
	named           bool // ifVersion is set
}

func (f *changeFlags) add(c *cobra.Command) {
	f.databaseFlags.add(c)
	f.addRedis(c)
	c.Flags().StringVarP(&f.message, "message", "m", "", "`text` for the version history")
	c.Flags().StringVar(&f.author, "author", "", "`name` of the author; default: the current user")
	c.Flags().Int64Var(&f.ifVersion, "if-version", 0, "save only if this `version` is the current one; 0: if there is no version yet")
	c.PreRun = func(c *cobra.Command, _ []string) { f.named = c.Flags().Changed("if-version") }
}

// change returns the change that the flags describe, based on the current version unless they name another.
func (f *changeFlags) change(a *app, current int64) ruledb.Change {
	c := ruledb.Change{Base: current, Author: f.author, Message: f.message}
	if f.named {
		c.Base = f.ifVersion
	}
	if c.Author == "" {
		c.Author = a.currentUser()
	}
	return c
}

// A changeResult is the result of apply or rollback.
type changeResult struct {
	Applied   bool              `json:"applied"`
	Version   *versionJSON      `json:"version,omitempty"` // the saved one, or the current one if nothing was saved
	Changes   []rulediff.Change `json:"changes,omitempty"`
	Problems  rules.Problems    `json:"problems,omitempty"`
	Conflict  string            `json:"conflict,omitempty"`
	Diff      string            `json:"diff,omitempty"` // of the changes by others
	Published string            `json:"published,omitempty"`
}

func newRulesApplyCommand(a *app) *cobra.Command {
	var flags changeFlags
	var dryRun bool
	c := &cobra.Command{
		Use:   "apply FILE",
		Short: "Save rules as a new version in the database",
		Long: `Check rules and save them as the next version in the database, from which all nodes load
them. A missing SQLite database is created. If the rules are already the current version,
nothing changes. - reads stdin.

Nothing is overwritten: if someone else has saved a version after --if-version, the
command fails and shows the changes.

Exit status: 0 if the database has the rules, 1 if they are invalid or someone else
changed them, 3 if the database or Redis failed.`,
		Example: `  penstock rules apply rules.yaml --database sqlite:penstock.db -m "raise the search limit"
  export PENSTOCK_RULES_DATABASE=sqlite:penstock.db       # or --database, or --config
  penstock rules apply rules.yaml --dry-run               # show the changes
  penstock rules export > rules.yaml                      # prints the version
  penstock rules apply rules.yaml --if-version 7          # after editing`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := a.readDocument(c.Context(), args[0])
			if err != nil {
				return err
			}
			if dryRun {
				return a.dryApply(c.Context(), file, &flags)
			}
			return a.apply(c.Context(), file, &flags)
		},
	}
	flags.add(c)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "check the rules and show the changes without saving")
	return c
}

func (a *app) apply(ctx context.Context, file rules.File, flags *changeFlags) error {
	// Do not create a database for invalid rules.
	if _, warnings, err := rules.CompileFiles([]rules.File{file}, rules.Options{}); err != nil {
		return a.tellRefused(err, warnings)
	}
	base, err := a.openRules(ctx, &flags.databaseFlags, true)
	if err != nil {
		return answered(err)
	}
	defer base.close()
	current, err := base.Current(ctx)
	if err != nil {
		return err
	}
	if current.Number != 0 && bytes.Equal(current.Document, file.Data) {
		return a.tellUnchanged(ctx, base, current)
	}
	change := flags.change(a, current.Number)
	change.Document = file.Data
	applied, err := base.service.Apply(ctx, file.Name, change)
	if err != nil {
		return a.tellRefused(err, applied.Warnings)
	}
	return a.tellApplied(ctx, base, current, applied)
}

// dryApply shows what apply would do, also if it would create the database.
func (a *app) dryApply(ctx context.Context, file rules.File, flags *changeFlags) error {
	_, warnings, err := rules.CompileFiles([]rules.File{file}, rules.Options{})
	if err != nil {
		return a.tellRefused(err, warnings)
	}
	result := changeResult{Problems: warnings}
	var current ruledb.Version
	base, err := a.openRules(ctx, &flags.databaseFlags, false)
	if err == nil {
		defer base.close()
		if current, err = flags.expected(ctx, base); err != nil {
			return a.tellRefused(err, warnings)
		}
		result.Version = new(shownVersion(current))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return answered(err)
	}
	result.Changes = changesBetween(ctx, current, file)
	return a.tellChanged(&result, "dry run: nothing was saved")
}

// expected returns the current version, and a conflict if the flags name another one.
func (f *changeFlags) expected(ctx context.Context, base *rulebase) (ruledb.Version, error) {
	current, err := base.Current(ctx)
	if err != nil || !f.named || f.ifVersion == current.Number {
		return current, err
	}
	conflict := &ruledb.Conflict{Base: ruledb.Version{Number: f.ifVersion}, Current: current}
	if old, err := base.Version(ctx, f.ifVersion); err == nil {
		conflict.Base = old
	}
	return current, conflict
}

// changesBetween returns what a document changes, or nothing if the current one no longer compiles.
func changesBetween(ctx context.Context, current ruledb.Version, file rules.File) []rulediff.Change {
	d, err := rulediff.Of(ctx, []rules.File{documentOf(current)}, []rules.File{file})
	if err != nil {
		return nil
	}
	return d.Changes
}

// tellUnchanged publishes the current rules again, in case that failed the last time.
func (a *app) tellUnchanged(ctx context.Context, base *rulebase, current ruledb.Version) error {
	result := changeResult{Applied: true, Version: new(shownVersion(current))}
	if base.redis != nil {
		err := base.redis.Publish(ctx, current.Text())
		if base.publishError(err) != nil {
			return fmt.Errorf("version %d has these rules already, but they are not published: %w", current.Number, err)
		}
		if err == nil {
			result.Published = base.redis.String()
		}
	}
	return a.tellChanged(&result, fmt.Sprintf("version %d has these rules already", current.Number))
}

func (a *app) tellApplied(ctx context.Context, base *rulebase, before ruledb.Version, applied ruleservice.ApplyResult) error {
	result := changeResult{Applied: true, Version: new(shownVersion(applied.Version)), Changes: changesBetween(ctx, before, documentOf(applied.Version)), Problems: applied.Warnings}
	if base.redis != nil && applied.PublishErr == nil {
		result.Published = base.redis.String()
	}
	if err := a.tellChanged(&result, fmt.Sprintf("saved as version %d in %v", applied.Version.Number, base.DB)); err != nil {
		return err
	}
	if base.publishError(applied.PublishErr) != nil {
		return fmt.Errorf("version %d is saved but not published: %w: a server with the database will publish it, or apply it again", applied.Version.Number, applied.PublishErr)
	}
	return nil
}

func (a *app) tellChanged(result *changeResult, summary string) error {
	if a.json() {
		return a.writeJSON(result)
	}
	for _, p := range result.Problems {
		fmt.Fprintln(a.stderr, p)
	}
	if len(result.Changes) > 0 {
		writeChanges(a.stdout, result.Changes)
	}
	fmt.Fprintln(a.stderr, summary)
	if result.Published != "" {
		fmt.Fprintf(a.stderr, "published to %s\n", result.Published)
	}
	return nil
}

// tellRefused prints why nothing was saved: mistakes in the rules, or what others changed.
func (a *app) tellRefused(err error, warnings rules.Problems) error {
	if mistakes, ok := errors.AsType[rules.Problems](err); ok {
		problems := append(mistakes, warnings...)
		if a.json() {
			return errors.Join(a.writeJSON(changeResult{Problems: problems}), exitWithNo(nil))
		}
		for _, p := range problems {
			fmt.Fprintln(a.stderr, p)
		}
		return exitWithNo(errors.New("the rules are invalid and were not saved"))
	}
	conflict, ok := errors.AsType[*ruledb.Conflict](err)
	if !ok {
		return answered(err)
	}
	if a.json() {
		return errors.Join(a.writeJSON(changeResult{Version: new(shownVersion(conflict.Current)), Conflict: conflict.Error(), Diff: conflict.Diff()}), exitWithNo(nil))
	}
	fmt.Fprint(a.stdout, conflict.Diff())
	return exitWithNo(conflict)
}
