package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/spelling"
)

func newKeysListCommand(a *app) *cobra.Command {
	var banned bool
	c := listCommand(a, &cobra.Command{
		Use:   "list RULE | list --banned",
		Short: "List the clients with counters of a rule, or the banned ones",
		Long: `List the clients with counters of a rule. Stores contain only hashes of keys; the node shows
the keys of clients that it has seen recently. With --banned, list the active bans of all
rules with a penalty: penstock keys lift lifts them, also by their hash.

The command scans the whole store page by page, without blocking it.`,
		Example: `  penstock keys list search-per-user
  penstock keys list search-per-user --most 10000 -o json
  penstock keys list --banned
  penstock keys list --banned -o json | jq -r '.bans[] | [.rule, .until] | @tsv'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeRuleNames,
	}, "/v1/keys", func(args []string, _ int) url.Values { return url.Values{"rule": args} },
		func(page *admin.Keys) ([]admin.Key, string) { return page.Keys, page.Next }, a.tellKeys)
	c.Flags().BoolVar(&banned, "banned", false, "list the active bans, of all rules")
	listKeys := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case banned && len(args) > 0:
			return misused("--banned lists the bans of all rules: leave out %q", args[0])
		case !banned && len(args) == 0:
			return misused("no rule given; to list the bans of all rules, use --banned")
		case !banned:
			return listKeys(c, args)
		}
		return a.listBans(c)
	}
	return c
}

func (a *app) tellKeys(keys []admin.Key, note string) error {
	return a.tellPages(admin.Keys{Keys: keys}, "SUBJECT\tKEY", spelling.Count(len(keys), "key")+note, func(table io.Writer) {
		for _, k := range keys {
			who := "?"
			if k.Key != nil {
				who = keyText(k.Key)
			}
			fmt.Fprintf(table, "%s\t%s\n", k.Subject, who)
		}
	})
}

func newKeysShowCommand(a *app) *cobra.Command {
	var caller callerFlags
	c := adminCommand(a, &cobra.Command{
		Use:   "show name=value...",
		Short: "Show the state of a client",
		Long: `Show the state of a client: used, limit, remaining, reset time, bans, strikes and
reservations. Nothing is charged. An override with its own counters is shown if they are not
empty or if the given attributes select it.

Exit status: 0 if a rule has state of the client, 1 if none has, 3 if the server or its
store did not respond.`,
		Example: `  penstock keys show user=u1
  penstock keys show ip=198.51.100.7 --rule login-per-ip -o json`,
	}, func(args []string) (adminRequest, error) {
		question, err := caller.question(args)
		return adminRequest{http.MethodPost, "/v1/keys/show", question}, err
	}, a.tellKeyStates)
	caller.add(c)
	a.completeRules(c, "rule")
	return c
}

func (a *app) tellKeyStates(found *admin.KeyStates) error {
	table := newTable(a.stdout, "RULE\tKEY\tUSED\tLIMIT\tLEFT\tRESETS")
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
