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
func (a *app) completeRules(c *cobra.Command, flag string) {
	_ = c.RegisterFlagCompletionFunc(flag, a.completeRuleNames) // fails only for unknown flags
}

// completeRuleNames asks a node for the names of its rules. If the node does not answer, there are no completions.
func (a *app) completeRuleNames(c *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		found, err := fetch[admin.RuleSet](a, c, adminRequest{http.MethodGet, "/v1/rules", nil})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, r := range found.Rules {
			names = append(names, r.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
