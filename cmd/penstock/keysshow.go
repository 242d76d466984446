package main

import (
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/spelling"
)

func newKeysListCommand(a *app) *cobra.Command {
	var server adminFlags
	var most int
	c := &cobra.Command{
		Use:   "list RULE",
		Short: "List the clients that a rule keeps state of",
		Long: `List the clients that a rule keeps state of. Stores know clients by hash only; names are
shown for those that this node has seen recently.

A listing reads the whole store page by page, without blocking it.`,
		Example: `  penstock keys list search-per-user
  penstock keys list search-per-user --most 10000 -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.ruleNames(&server),
		RunE: func(c *cobra.Command, args []string) error {
			if most < 1 {
				return misused("--most %d must be 1 or more", most)
			}
			client, err := server.client(a)
			if err != nil {
				return err
			}
			found := admin.Keys{Keys: []admin.Key{}}
			for cursor, first := "", true; (first || cursor != "") && len(found.Keys) < most; first = false {
				query := url.Values{"rule": args, "cursor": {cursor}}
				var page admin.Keys
				if err := client.ask(c.Context(), http.MethodGet, "/v1/keys?"+query.Encode(), nil, &page); err != nil {
					return err
				}
				found.Keys, cursor = append(found.Keys, page.Keys...), page.Next
				found.Next = cursor
			}
			return a.tellKeys(&found, most)
		},
	}
	server.add(c)
	c.Flags().IntVar(&most, "most", 1000, "list at most `n`")
	return c
}

func (a *app) tellKeys(found *admin.Keys, most int) error {
	more := len(found.Keys) > most || found.Next != ""
	found.Keys, found.Next = found.Keys[:min(most, len(found.Keys))], ""
	if a.json() {
		return a.writeJSON(found)
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SUBJECT\tKEY")
	for _, k := range found.Keys {
		who := "?"
		if k.Key != nil {
			who = keyText(k.Key)
		}
		fmt.Fprintf(table, "%s\t%s\n", k.Subject, who)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	and := ""
	if more {
		and = ", and there are more: --most"
	}
	fmt.Fprintf(a.stderr, "%s%s\n", spelling.Count(len(found.Keys), "caller"), and)
	return nil
}

func newKeysShowCommand(a *app) *cobra.Command {
	var server adminFlags
	var caller callerFlags
	c := &cobra.Command{
		Use:   "show name=value...",
		Short: "Show what was counted of a caller",
		Long: `Show what was counted of a caller: used, limit, what is left, when it is as if never seen,
bans, strikes and reservations. Nothing is charged. An override with counters of its own is
shown if it has counted something, or if the attributes given select it.

Exit status: 0 if some rule knows the caller, 1 if none does, 3 if the server or its
store did not answer.`,
		Example: `  penstock keys show user=u1
  penstock keys show ip=198.51.100.7 --rule login-per-ip -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			question, err := caller.question(args)
			if err != nil {
				return err
			}
			client, err := server.client(a)
			if err != nil {
				return err
			}
			var found admin.KeyStates
			if err := client.ask(c.Context(), http.MethodPost, "/v1/keys/show", question, &found); err != nil {
				return err
			}
			return a.tellKeyStates(&found)
		},
	}
	server.add(c)
	caller.add(c)
	a.completeRules(c, "rule", &server)
	return c
}

func (a *app) tellKeyStates(found *admin.KeyStates) error {
	if a.json() {
		return a.writeJSON(found)
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RULE\tKEY\tUSED\tLIMIT\tLEFT\tRESETS")
	for i := range found.Keys {
		k := &found.Keys[i]
		for _, l := range k.Limits {
			limit := fmt.Sprint(l.Limit)
			if k.Unlimited {
				limit = "unlimited"
			}
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%d\t%s\n", l.Policy, keyText(k.Key), l.Used, limit, l.Remaining, resets(&l))
		}
		for _, other := range k.Others {
			of := " (rule)"
			if other.Override != nil {
				of = fmt.Sprintf(" (override %d)", *other.Override)
			}
			for _, l := range other.Limits {
				fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%s\n", l.Policy+of, keyText(k.Key), l.Used, l.Limit, l.Remaining, resets(&l))
			}
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for i := range found.Keys {
		a.tellGuards(&found.Keys[i])
	}
	return nil
}

// resets formats when a limit is as if the client had never been seen.
func resets(l *admin.LimitState) string {
	if l.ResetAfter == nil || *l.ResetAfter == 0 {
		return "-"
	}
	return "in " + (time.Duration(*l.ResetAfter) * time.Millisecond).Round(time.Second).String()
}

// tellGuards prints the state besides counters, such as bans, if there is any.
func (a *app) tellGuards(k *admin.KeyState) {
	if k.BannedUntil != nil {
		fmt.Fprintf(a.stdout, "%s: banned until %s\n", k.Rule, k.BannedUntil.Format(time.RFC3339))
	}
	if k.Strikes > 0 || k.Bans > 0 {
		fmt.Fprintf(a.stdout, "%s: %s, %s so far\n", k.Rule, spelling.Count(int(k.Strikes), "strike"), spelling.Count(int(k.Bans), "ban"))
	}
	if k.Reserved > 0 {
		fmt.Fprintf(a.stdout, "%s: %s\n", k.Rule, spelling.Count(int(k.Reserved), "reservation"))
	}
}
