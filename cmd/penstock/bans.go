package main

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/spelling"
)

func newBansCommand(a *app) *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "bans",
		Short: "List active bans",
		Long: `List active bans, imposed by a penalty or by an operator. To ban a client or lift a ban,
see penstock keys. To deny clients of rules without a penalty, see penstock block.`,
		Example: `  penstock bans list`,
	}, newBansListCommand(a))
}

func newBansListCommand(a *app) *cobra.Command {
	var found admin.Bans
	return listCommand(a, &cobra.Command{
		Use:   "list",
		Short: "List active bans",
		Long: `List the active bans of all rules with a penalty. The node scans the store page by page. It
shows the key of clients that it has seen recently and the hash of others. A store in memory
keeps only the first characters of a hash: clients that the node has not seen recently are
counted as unknown.`,
		Example: `  penstock bans list
  penstock bans list -o json | jq -r '.bans[] | [.rule, .until] | @tsv'`,
		Args: cobra.NoArgs,
	}, "/v1/bans", func([]string, int) url.Values { return url.Values{} }, func(page *admin.Bans) ([]admin.Ban, string) {
		found.Unknown += page.Unknown
		return page.Bans, page.Next
	}, func(all []admin.Ban, note string) error {
		found.Bans = all
		return a.tellBans(&found, note)
	})
}

func (a *app) tellBans(found *admin.Bans, note string) error {
	counted := spelling.Count(len(found.Bans), "ban")
	if found.Unknown > 0 {
		counted += fmt.Sprintf(", %s not checked: the store keeps only the beginning of the hash", spelling.Count(found.Unknown, "unknown client"))
	}
	return a.tellPages(found, "RULE\tKEY\tUNTIL\tBANS\tAUTHOR\tREASON", counted+note, func(table io.Writer) {
		for _, b := range found.Bans {
			key := b.Subject
			if b.Key != nil {
				key = keyText(b.Key)
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", b.Rule, spelling.Printable(key), b.Until.UTC().Format(time.RFC3339), b.Bans,
				spelling.Printable(cmp.Or(b.Author, "-")), spelling.Printable(cmp.Or(b.Reason, "-")))
		}
	})
}
