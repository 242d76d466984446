package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/ruledb"
)

func newRulesCommand(a *app) *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "rules",
		Short: "Check, test, compare and change rules",
		Long: `Check, test, compare and change rules.

Rules are in a file, in a directory whose *.yaml, *.yml and *.json files form one set, or
in a database that keeps every version: sqlite:PATH or postgres://…, set with --database
or PENSTOCK_RULES_DATABASE.`,
		Example: `  penstock rules validate rules.yaml           # every error and its position
  penstock rules test tests/                   # run tests of the rules
  penstock rules diff rules.yaml --database sqlite:penstock.db
  penstock rules apply rules.yaml --database sqlite:penstock.db -m "raise the search limit"
  penstock rules history --database sqlite:penstock.db
  penstock rules rollback 3 --database sqlite:penstock.db`,
	},
		newRulesValidateCommand(a),
		newRulesTestCommand(a),
		newRulesDiffCommand(a),
		newRulesApplyCommand(a),
		newRulesImportCommand(a),
		newRulesExportCommand(a),
		newRulesHistoryCommand(a),
		newRulesRollbackCommand(a),
	)
}

// noSuchCommand rejects arguments, which are misspelt commands.
func noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if meant := c.SuggestionsFor(args[0]); len(meant) > 0 {
		return misused("unknown command %q for %q, did you mean %s?", args[0], c.CommandPath(), strings.Join(meant, " or "))
	}
	return misused("unknown command %q for %q", args[0], c.CommandPath())
}

// answered gives an exit code to an error without one: no, if the input is wrong.
func answered(err error) error {
	if _, coded := errors.AsType[*exit](err); coded {
		return err
	}
	if errors.Is(err, penstock.ErrInvalid) || errors.Is(err, ruledb.ErrNotFound) {
		return exitWithNo(err)
	}
	return err
}
