package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/rules"
)

// A validation is what was found in some sets of rules.
type validation struct {
	Valid    bool           `json:"valid"`
	Rules    int            `json:"rules"` // of the sets without mistakes
	Files    int            `json:"files"`
	Errors   int            `json:"errors"`
	Warnings int            `json:"warnings"`
	Problems rules.Problems `json:"problems"`
}

func newRulesValidateCommand(a *app) *cobra.Command {
	var strict bool
	c := &cobra.Command{
		Use:   "validate FILE|DIR...",
		Short: "Find every mistake in rules",
		Long: `Find every mistake in rules, each with its file, line and column and with what would
do, and warn of what is hardly meant. Each argument is a set of rules by itself; the
files of a directory are one set; - reads stdin.

Exit status: 0 if the rules can be used, 1 if not.`,
		Example: `  penstock rules validate rules.yaml
  penstock rules validate --strict rules.d/
  git show HEAD:rules.yaml | penstock rules validate -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			found := validation{Problems: rules.Problems{}}
			for _, path := range args {
				if err := a.validate(c.Context(), path, &found); err != nil {
					return err
				}
			}
			found.Valid = found.Errors == 0 && (!strict || found.Warnings == 0)
			return a.tellValidation(&found)
		},
	}
	c.Flags().BoolVar(&strict, "strict", false, "warnings make rules invalid too")
	return c
}

func (a *app) validate(ctx context.Context, path string, found *validation) error {
	files, err := a.readRules(ctx, path)
	if err != nil {
		return err
	}
	found.Files += len(files)
	snapshot, warnings, err := rules.CompileFiles(files, rules.Options{})
	mistakes, _ := errors.AsType[rules.Problems](err)
	found.Errors += len(mistakes)
	found.Warnings += len(warnings)
	found.Problems = append(append(found.Problems, mistakes...), warnings...)
	if err == nil {
		found.Rules += len(snapshot.Rules)
	}
	return nil
}

func (a *app) tellValidation(found *validation) error {
	if a.json() {
		if err := a.writeJSON(found); err != nil {
			return err
		}
	} else {
		for _, p := range found.Problems {
			fmt.Fprintln(a.stdout, p)
		}
		summary := fmt.Sprintf("%s in %s", counted(found.Rules, "rule"), counted(found.Files, "file"))
		if found.Errors > 0 || found.Warnings > 0 {
			summary = fmt.Sprintf("%s, %s in %s", counted(found.Errors, "error"), counted(found.Warnings, "warning"), counted(found.Files, "file"))
		}
		fmt.Fprintln(a.stderr, summary)
	}
	if !found.Valid {
		return no(nil)
	}
	return nil
}
