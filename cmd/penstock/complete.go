package main

import (
	"net/http"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/admin"
)

// completeValues offers values for a flag in shell completions.
func completeValues(c *cobra.Command, flag string, values ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // fails only for unknown flags
}

// completeRules offers the names of the rules that a node serves for a flag.
func (a *app) completeRules(c *cobra.Command, flag string, server *adminFlags) {
	_ = c.RegisterFlagCompletionFunc(flag, a.ruleNames(server)) // fails only for unknown flags
}

// ruleNames asks a node for the names of its rules. If the node does not answer, there are no completions.
func (a *app) ruleNames(server *adminFlags) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var found admin.RuleSet
		client, err := server.client(a)
		if err == nil && len(args) == 0 {
			err = client.fetch(c.Context(), http.MethodGet, "/v1/rules", nil, &found)
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []cobra.Completion
		for _, r := range found.Rules {
			names = append(names, r.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
