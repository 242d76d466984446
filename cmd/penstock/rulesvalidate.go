package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/spelling"
	"github.com/penstock-io/penstock/rules"
)

// A validation is what was found in some sets of rules.
type validation struct {
	Valid    bool           `json:"valid"`
	Rules    int            `json:"rules"` // in the sets without errors
	Files    int            `json:"files"`
	Errors   int            `json:"errors"`
	Warnings int            `json:"warnings"`
	Problems rules.Problems `json:"problems"`
}

func newRulesValidateCommand(a *app) *cobra.Command {
	var strict bool
	var config string
	c := &cobra.Command{
		Use:   "validate FILE|DIR...",
		Short: "Validate rules",
		Long: `Report every error in rules with its file, line, column and a suggested fix, and warn about
likely mistakes. Each argument is a separate set of rules; the files of a directory form one
set; - reads stdin.

Exit status: 0 if the rules are valid, 1 if not.`,
		Example: `  penstock rules validate rules.yaml
  penstock rules validate --strict rules.d/
  penstock rules validate --config penstock.yaml rules.yaml
  git show HEAD:rules.yaml | penstock rules validate -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			maxDelay, err := a.maxDelay(config)
			if err != nil {
				return err
			}
			found := validation{Problems: rules.Problems{}}
			for _, path := range args {
				if err := a.validate(c.Context(), path, rules.Options{MaxDelay: maxDelay}, &found); err != nil {
					return err
				}
			}
			found.Valid = found.Errors == 0 && (!strict || found.Warnings == 0)
			return a.tellValidation(&found)
		},
	}
	addMaxDelayFlag(c.Flags(), &config)
	c.Flags().BoolVar(&strict, "strict", false, "treat warnings as errors")
	return c
}

// addMaxDelayFlag adds the flag that says how long the gateway holds requests.
func addMaxDelayFlag(flags *pflag.FlagSet, config *string) {
	flags.StringVar(config, "config", "", "configuration `file` of the server, for gateway.max_delay; default PENSTOCK_CONFIG")
}

// maxDelay returns how long the gateway holds requests by its configuration; 0: as long as the rule's queue
// takes.
func (a *app) maxDelay(file string) (time.Duration, error) {
	conf, err := config.Read(config.Sources{File: file, Env: a.env})
	if file != "" && err != nil {
		return 0, exitWithNo(err)
	}
	return conf.Gateway.MaxDelay, nil
}

func (a *app) validate(ctx context.Context, path string, o rules.Options, found *validation) error {
	files, err := a.readRules(ctx, path)
	if err != nil {
		return err
	}
	found.Files += len(files)
	snapshot, warnings, err := rules.CompileFiles(files, o)
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
		summary := fmt.Sprintf("ok: %s in %s", spelling.Count(found.Rules, "rule"), spelling.Count(found.Files, "file"))
		if found.Errors > 0 || found.Warnings > 0 {
			summary = fmt.Sprintf("%s, %s in %s", spelling.Count(found.Errors, "error"), spelling.Count(found.Warnings, "warning"), spelling.Count(found.Files, "file"))
		}
		fmt.Fprintln(a.stderr, summary)
	}
	return exitWith(found.Valid)
}
