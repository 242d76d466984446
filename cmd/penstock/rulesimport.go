package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/envoyratelimit"
	"github.com/penstock-io/penstock/internal/spelling"
	"github.com/penstock-io/penstock/rules"
)

func newRulesImportCommand(a *app) *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "import",
		Short: "Convert the limits of another program to rules",
	}, newImportEnvoyCommand(a))
}

func newImportEnvoyCommand(a *app) *cobra.Command {
	var merge bool
	c := &cobra.Command{
		Use:   "envoy-ratelimit FILE|DIR",
		Short: "Convert the configuration of envoyproxy/ratelimit to rules",
		Long: `Convert the configuration of envoyproxy/ratelimit to rules, on stdout. Comments at the top
list what rules cannot express. - reads stdin. To serve such a directory unchanged, set
rules.envoy_ratelimit instead.

Rules match entries by key, in any order. They also match a descriptor with an additional
entry whose key is not in the configuration.

Exit status: 0 if the configuration was converted, 1 if it is invalid.`,
		Example: `  penstock rules import envoy-ratelimit config/ > rules.yaml
  penstock rules validate rules.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.importEnvoy(c.Context(), args[0], envoyratelimit.Options{MergeDomains: merge})
		},
	}
	c.Flags().BoolVar(&merge, "merge-domains", false, "allow several files to configure the same domain")
	return c
}

// importResult is what -o json prints.
type importResult struct {
	Document *rules.Document `json:"document"`
	Notes    []string        `json:"notes"`
}

func (a *app) importEnvoy(ctx context.Context, path string, o envoyratelimit.Options) error {
	files, err := a.readRules(ctx, path)
	if err != nil {
		return err
	}
	config, warnings, err := envoyratelimit.Load(files, o)
	for _, w := range warnings {
		fmt.Fprintln(a.stderr, w)
	}
	if mistakes, ok := errors.AsType[rules.Problems](err); ok {
		for _, m := range mistakes {
			fmt.Fprintln(a.stderr, m)
		}
		return exitWithNo(nil)
	}
	if err != nil {
		return err
	}
	doc, notes := config.Convert()
	fmt.Fprintf(a.stderr, "%s, %s\n", spelling.Count(len(doc.Rules), "rule"), spelling.Count(len(notes), "note"))
	if a.json() {
		return a.writeJSON(importResult{doc, append([]string{}, notes...)})
	}
	for _, note := range notes {
		if _, err := fmt.Fprintf(a.stdout, "# %s\n", strings.Join(strings.Fields(note), " ")); err != nil {
			return err
		}
	}
	_, err = a.stdout.Write(doc.YAML())
	return err
}
