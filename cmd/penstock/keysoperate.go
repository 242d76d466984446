package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/rules"
)

func newKeysResetCommand(a *app) *cobra.Command {
	var o operation
	c := &cobra.Command{
		Use:   "reset name=value...",
		Short: "Reset the state of a client",
		Long: `Delete the counters, strikes, bans and reservations of a client, for all rules whose key
the attributes complete, or for one rule. Other nodes may keep denying for up to a second.

Rules with one counter for all clients are reset only if named with --rule.`,
		Example: `  penstock keys reset user=u1
  penstock keys reset user=u1 --rule search-per-user
  penstock keys reset --rule whole-site          # one counter for all`,
		RunE: func(c *cobra.Command, args []string) error {
			return o.run(c.Context(), a, args, http.MethodPost, "/v1/keys/reset", "reset")
		},
	}
	o.add(c)
	a.completeRules(c, "rule", &o.server)
	return c
}

func newKeysBanCommand(a *app) *cobra.Command {
	var o operation
	c := &cobra.Command{
		Use:   "ban name=value... --for DURATION",
		Short: "Ban a client for a limited time",
		Long: `Ban a client for a limited time, whatever its limits. Only rules with a penalty can ban; use
penstock block for clients of other rules.`,
		Example: `  penstock keys ban ip=198.51.100.7 --for 1h
  penstock keys ban user=u1 --for 2d --rule login-per-user`,
		RunE: func(c *cobra.Command, args []string) error {
			if length, err := rules.ParseDuration(o.length); err != nil || length <= 0 {
				return misused("invalid --for %q, for example 1h", o.length)
			}
			return o.run(c.Context(), a, args, http.MethodPost, "/v1/bans", "banned")
		},
	}
	o.add(c)
	a.completeRules(c, "rule", &o.server)
	c.Flags().StringVar(&o.length, "for", "", "`duration` from now, for example 30m, 1h or 2d")
	c.Flags().StringVar(&o.reason, "reason", "", "`text` for other operators")
	_ = c.MarkFlagRequired("for") // cannot fail: the flag exists
	completeValues(c, "for", "10m", "1h", "1d", "7d")
	return c
}

func newKeysLiftCommand(a *app) *cobra.Command {
	var o operation
	c := &cobra.Command{
		Use:   "lift name=value...",
		Short: "Lift a ban",
		Long: `Lift a ban, whether by an operator or by a penalty, and delete the client's strikes. Counters
keep their state; penstock keys reset deletes them too.`,
		Example: `  penstock keys lift ip=198.51.100.7`,
		RunE: func(c *cobra.Command, args []string) error {
			return o.run(c.Context(), a, args, http.MethodDelete, "/v1/bans", "lifted")
		},
	}
	o.add(c)
	a.completeRules(c, "rule", &o.server)
	return c
}

// An operation changes the state of a client.
type operation struct {
	server adminFlags
	caller callerFlags
	length string // of a ban
	reason string // for a ban
}

func (o *operation) add(c *cobra.Command) {
	o.server.add(c)
	o.caller.add(c)
}

func (o *operation) run(ctx context.Context, a *app, args []string, method, path, done string) error {
	question, err := o.caller.question(args)
	if err != nil {
		return err
	}
	question.Duration, question.Reason = o.length, o.reason
	told, err := fetch[admin.ChangeResult](ctx, a, &o.server, method, path, question)
	if err != nil {
		return err
	}
	if a.json() {
		return a.writeJSON(told)
	}
	for _, k := range told.Keys {
		until := ""
		if k.BannedUntil != nil {
			until = " until " + k.BannedUntil.Format(time.RFC3339)
		}
		fmt.Fprintf(a.stdout, "%s  %s  %s%s\n", done, k.Rule, keyText(k.Key), until)
	}
	return nil
}
