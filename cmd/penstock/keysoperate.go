package main

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/spelling"
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
	var hash string
	var all, dryRun bool
	c := operateCommand(a, &cobra.Command{
		Use:   "lift name=value...",
		Short: "Lift bans",
		Long: `Lift the ban of a client, whether by an operator or by a penalty, and delete its strikes.
Counters keep their state; penstock keys reset deletes them too.

Without a client, --rule lifts every ban of a rule that was a mistake, --hash that of one
key as penstock keys list --banned shows it, and --all those of all rules. With --dry-run
nothing is lifted, and the bans are listed and counted.`,
		Example: `  penstock keys lift ip=198.51.100.7
  penstock keys lift --rule login-per-user --dry-run
  penstock keys lift --rule login-per-user
  penstock keys lift --hash QJuDx-0lcJBgLnQ31G2lDA
  penstock keys lift --all`,
	}, http.MethodDelete, "/v1/bans", "lifted", nil)
	liftOne := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		rule, domain := c.Flag("rule").Value.String(), c.Flag("domain").Value.String()
		switch {
		case len(args) > 0 && (hash != "" || all || dryRun):
			return misused("--hash, --all and --dry-run are for bans of many clients: leave out %q", args[0])
		case len(args) > 0:
			return liftOne(c, args)
		case rule == "" && hash == "" && !all:
			return misused("no client given: identify one by an attribute, for example user=u1, or use --rule, --hash or --all")
		case domain != "":
			return misused("--domain is only for a client given by its attributes")
		}
		return a.liftBans(c, bansToLift{Rule: rule, Hash: hash, All: all, DryRun: dryRun})
	}
	c.Flags().StringVar(&hash, "hash", "", "lift the ban of the key with this `hash`")
	c.Flags().BoolVar(&all, "all", false, "lift every ban of every rule")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only list and count what would be lifted")
	c.MarkFlagsMutuallyExclusive("rule", "hash", "all")
	return c
}

// bansToLift is a request to lift the bans of many clients.
type bansToLift struct {
	Rule   string `json:"rule,omitempty"`
	Hash   string `json:"hash,omitempty"`
	All    bool   `json:"all,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// liftBans lifts page after page.
func (a *app) liftBans(c *cobra.Command, asked bansToLift) error {
	done, verb := admin.LiftedBans{Bans: []admin.Ban{}}, "lifted"
	if asked.DryRun {
		verb = "would be lifted"
	}
	for {
		page, err := fetch[admin.LiftedBans](a, c, adminRequest{http.MethodPost, "/v1/bans/lift", asked})
		if err != nil {
			if len(done.Bans) > 0 {
				fmt.Fprintf(a.stderr, "%s %s before this failed\n", spelling.Count(len(done.Bans), "ban"), verb)
			}
			return err
		}
		done.Bans = append(done.Bans, page.Bans...)
		if asked.Cursor = page.Next; asked.Cursor == "" {
			break
		}
	}
	if a.json() {
		return a.writeJSON(done)
	}
	if err := a.writeTable("RULE\tKEY\tUNTIL\tBANS", func(table io.Writer) {
		for _, b := range done.Bans {
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\n", b.Rule, spelling.Printable(bannedKey(&b)), b.Until.UTC().Format(time.RFC3339), b.Bans)
		}
	}); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "%s %s\n", spelling.Count(len(done.Bans), "ban"), verb)
	return nil
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
