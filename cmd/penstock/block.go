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

func newBlockCommand(a *app) *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "block",
		Short: "Block a key on all nodes for a limited time",
		Long: `Block a key on all nodes for a limited time: an address or network, a user, an API key, or
any other attribute value. Its requests are denied before lists and rules are checked, even
while Redis is unavailable. Unlike a ban, a block does not need a rule with a penalty.

The client is told that it is blocked and until when. Only operators see the reason.`,
		Example: `  penstock block add ip=198.51.100.0/24 --for 1h --reason "scraper, ticket 4711"
  penstock block list
  penstock block lift ip=198.51.100.0/24`,
	}, newBlockAddCommand(a), newBlockListCommand(a), newBlockLiftCommand(a))
}

// A blockQuestion is a request about a block.
type blockQuestion struct {
	ID         string            `json:"id,omitempty"`
	Domain     string            `json:"domain,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Duration   string            `json:"duration,omitempty"`
	Reason     string            `json:"reason,omitempty"`
	Preview    bool              `json:"preview,omitempty"`
}

// blockKey reads one name=value.
func blockKey(args []string) (map[string]string, error) {
	call, err := (&callFlags{}).call(args)
	if err != nil {
		return nil, err
	}
	if len(call.Attributes) != 1 {
		return nil, misused("a block takes one attribute, for example ip=198.51.100.7, got %d", len(call.Attributes))
	}
	return map[string]string{call.Attributes[0].Name: call.Attributes[0].Value}, nil
}

func newBlockAddCommand(a *app) *cobra.Command {
	var q blockQuestion
	c := adminCommand(a, &cobra.Command{
		Use:   "add name=value --for DURATION --reason TEXT",
		Short: "Block a key for a limited time",
		Long: `Block a key for a limited time. Blocking a key again replaces the earlier block, so use this
to extend or shorten one. Every node enforces it within a second. If the database or Redis
is unavailable, this node enforces it immediately and the others as soon as possible.

At most 1,000 keys can be blocked, each for at most 30 days. To deny a client for longer,
use the deny list of the rules.`,
		Example: `  penstock block add ip=198.51.100.7 --for 1h --reason scraper
  penstock block add user=u1 --for 30m --reason "stolen token" --dry-run`,
	}, func(args []string) (_ adminRequest, err error) {
		if q.Attributes, err = blockKey(args); err != nil {
			return adminRequest{}, err
		}
		if length, err := rules.ParseDuration(q.Duration); err != nil || length <= 0 {
			return adminRequest{}, misused("invalid --for %q, for example 1h", q.Duration)
		}
		return adminRequest{http.MethodPost, "/v1/blocks", q}, nil
	}, func(told *admin.Blocked) error {
		verb := "blocked"
		if q.Preview {
			verb = "would block"
		}
		fmt.Fprintf(a.stdout, "%s  %s  until %s\n", verb, spelling.Printable(keyText(told.Key)), told.Until.Format(time.RFC3339))
		fmt.Fprintf(a.stderr, "%d of %s are denied by it, %d of these were allowed\n",
			told.Recent.Denied, spelling.Count(told.Recent.Calls, "recent request"), told.Recent.Allowed)
		return nil
	}, func(told *admin.Blocked) {
		a.warn(told.Warnings...)
		a.warn(told.Unshared...)
	})
	c.Flags().StringVar(&q.Duration, "for", "", "`duration` from now, for example 30m, 1h or 2d")
	c.Flags().StringVar(&q.Reason, "reason", "", "`text` for other operators")
	c.Flags().StringVar(&q.Domain, "domain", "", "only requests of this domain")
	c.Flags().BoolVar(&q.Preview, "dry-run", false, "do not block; report how many recent requests the block would deny")
	_ = c.MarkFlagRequired("for")    // cannot fail: the flag exists
	_ = c.MarkFlagRequired("reason") // as above
	completeValues(c, "for", "10m", "1h", "1d", "7d")
	return c
}

func newBlockListCommand(a *app) *cobra.Command {
	return adminCommand(a, &cobra.Command{
		Use:     "list",
		Short:   "List active blocks",
		Example: `  penstock block list -o json | jq -r '.blocks[] | [.id, .until] | @tsv'`,
		Args:    cobra.NoArgs,
	}, get("/v1/blocks"), func(found *admin.Blocks) error {
		return a.writeTable("ID\tKEY\tUNTIL\tAUTHOR\tREASON", func(table io.Writer) {
			for _, b := range found.Blocks {
				key := keyText(b.Key)
				if b.Domain != "" {
					key += " domain=" + b.Domain
				}
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", b.ID, spelling.Printable(key), b.Until.UTC().Format(time.RFC3339), spelling.Printable(b.Author), spelling.Printable(b.Reason))
			}
		})
	})
}

func newBlockLiftCommand(a *app) *cobra.Command {
	var q blockQuestion
	c := adminCommand(a, &cobra.Command{
		Use:   "lift {name=value | --id ID}",
		Short: "Lift a block",
		Example: `  penstock block lift ip=198.51.100.7
  penstock block lift --id RIQ4P7MVXZ3A`,
	}, func(args []string) (_ adminRequest, err error) {
		if q.ID == "" || len(args) > 0 {
			q.Attributes, err = blockKey(args)
		}
		return adminRequest{http.MethodDelete, "/v1/blocks", q}, err
	}, func(told *admin.Lifted) error {
		for _, b := range told.Blocks {
			fmt.Fprintf(a.stdout, "lifted  %s\n", spelling.Printable(keyText(b.Key)))
		}
		return nil
	}, func(told *admin.Lifted) { a.warn(told.Unshared...) })
	c.Flags().StringVar(&q.ID, "id", "", "`ID` of the block, from penstock block list")
	c.Flags().StringVar(&q.Domain, "domain", "", "lift the block of this domain")
	return c
}
