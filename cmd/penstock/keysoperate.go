package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/rules"
)

func newKeysResetCommand(a *app) *cobra.Command {
	return operateCommand(a, &cobra.Command{
		Use:   "reset name=value...",
		Short: "Reset the state of a client",
		Long: `Delete the counters, strikes, bans and reservations of a client, for all rules whose key
the attributes complete, or for one rule. Other nodes may keep denying for up to a second.

Rules with one counter for all clients are reset only if named with --rule.`,
		Example: `  penstock keys reset user=u1
  penstock keys reset user=u1 --rule search-per-user
  penstock keys reset --rule whole-site          # one counter for all`,
	}, http.MethodPost, "/v1/keys/reset", "reset", nil)
}

func newKeysBanCommand(a *app) *cobra.Command {
	var length, reason string
	c := operateCommand(a, &cobra.Command{
		Use:   "ban name=value... --for DURATION",
		Short: "Ban a client for a limited time",
		Long: `Ban a client for a limited time, whatever its limits. Only rules with a penalty can ban; use
penstock block for clients of other rules.`,
		Example: `  penstock keys ban ip=198.51.100.7 --for 1h
  penstock keys ban user=u1 --for 2d --rule login-per-user`,
	}, http.MethodPost, "/v1/bans", "banned", func(q *callerQuestion) error {
		q.Duration, q.Reason = length, reason
		if length, err := rules.ParseDuration(length); err != nil || length <= 0 {
			return misused("invalid --for %q, for example 1h", q.Duration)
		}
		return nil
	})
	c.Flags().StringVar(&length, "for", "", "`duration` from now, for example 30m, 1h or 2d")
	c.Flags().StringVar(&reason, "reason", "", "`text` for other operators")
	_ = c.MarkFlagRequired("for") // cannot fail: the flag exists
	completeValues(c, "for", "10m", "1h", "1d", "7d")
	return c
}

func newKeysLiftCommand(a *app) *cobra.Command {
	return operateCommand(a, &cobra.Command{
		Use:   "lift name=value...",
		Short: "Lift a ban",
		Long: `Lift a ban, whether by an operator or by a penalty, and delete the client's strikes. Counters
keep their state; penstock keys reset deletes them too.`,
		Example: `  penstock keys lift ip=198.51.100.7`,
	}, http.MethodDelete, "/v1/bans", "lifted", nil)
}

// operateCommand completes a command that changes the state of a client. fill adds to the question; it may be nil.
func operateCommand(a *app, c *cobra.Command, method, path, done string, fill func(*callerQuestion) error) *cobra.Command {
	var caller callerFlags
	c = adminCommand(a, c, func(args []string) (adminRequest, error) {
		question, err := caller.question(args)
		if err == nil && fill != nil {
			err = fill(question)
		}
		return adminRequest{method, path, question}, err
	}, func(told *admin.ChangeResult) error {
		for _, k := range told.Keys {
			until := ""
			if k.BannedUntil != nil {
				until = " until " + k.BannedUntil.Format(time.RFC3339)
			}
			fmt.Fprintf(a.stdout, "%s  %s  %s%s\n", done, k.Rule, keyText(k.Key), until)
		}
		return nil
	})
	caller.add(c)
	a.completeRules(c, "rule")
	return c
}
