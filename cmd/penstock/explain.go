package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/spelling"
	"github.com/penstock-io/penstock/rules"
)

func newExplainCommand(a *app) *cobra.Command {
	var origin originFlags
	var flags callFlags
	var at string
	c := &cobra.Command{
		Use:   "explain (--rules FILE|DIR | --database SOURCE) name=value...",
		Short: "Tell which rules apply to a call, and why the others do not",
		Long: `Tell which rules apply to a call, by which key and with which limits, and what keeps
the others from applying. Nothing is charged and no server is asked.

The call is given by its attributes: method, path, host, ip, and those that rules take
from headers, cookies and the like, by the names that the rules give them.`,
		Example: `  penstock explain --rules rules.yaml method=POST path=/login ip=198.51.100.7
  penstock explain --database sqlite:penstock.db path=/search user=u1 plan=gold
  penstock explain --rules rules.yaml --at 2027-01-01T00:00:00Z path=/ -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			call, err := flags.call(args)
			if err != nil {
				return err
			}
			now := time.Now()
			if at != "" {
				if now, err = time.Parse(time.RFC3339, at); err != nil {
					return misused("invalid --at %q, for example 2027-01-01T00:00:00Z", at)
				}
			}
			snapshot, err := origin.compile(c.Context(), a)
			if err != nil {
				return err
			}
			return a.tellExplained(admin.Explain(snapshot, call, penstock.InstantOf(now)))
		},
	}
	origin.add(c)
	flags.add(c)
	c.Flags().StringVar(&at, "at", "", "the `time` of the call, for rules that expire; default now")
	c.MarkFlagsOneRequired("rules", "database", "database-file")
	return c
}

func (a *app) tellExplained(e *admin.Explanation) error {
	if a.json() {
		return a.writeJSON(e)
	}
	if e.List != "" {
		fmt.Fprintf(a.stdout, "The %s list decides, by its entry %d. Without it:\n", e.List, e.Entry)
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RULE\tAPPLIES\tWHY")
	applying := 0
	for i := range e.Rules {
		r := &e.Rules[i]
		answer := "no"
		if r.Applies {
			answer = "yes"
			applying++
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", r.Rule, answer, reasons(r))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "%d of %s apply\n", applying, spelling.Count(len(e.Rules), "rule"))
	return nil
}

// reasons is the line of a rule: what stands in its way, or what it does.
func reasons(r *admin.Considered) string {
	if !r.Applies {
		return r.Why
	}
	var parts []string
	if r.Mode == rules.Shadow.String() {
		parts = append(parts, "only tried (shadow)")
	}
	parts = append(parts, "key "+keyText(r.Key))
	if r.Override != nil {
		override := fmt.Sprintf("override %d", *r.Override)
		if r.Own {
			override += ", with counters of its own"
		}
		parts = append(parts, override)
	}
	if r.Unlimited {
		parts = append(parts, "unlimited")
	}
	parts = append(parts, r.Limits...)
	return strings.Join(append(parts, r.Failures...), "; ")
}
