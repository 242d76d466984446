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

// newBansCommand says what has become of an earlier command.
func newBansCommand() *cobra.Command {
	return &cobra.Command{
		Use: "bans", Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return misused("penstock bans list is now penstock keys list --banned")
		},
	}
}

// listBans is penstock keys list --banned.
func (a *app) listBans(c *cobra.Command) error {
	most, err := c.Flags().GetInt("most")
	if err != nil {
		return err
	}
	return listPages(a, c, most, "/v1/bans", url.Values{}, func(page *admin.Bans) ([]admin.Ban, string) {
		return page.Bans, page.Next
	}, func(all []admin.Ban, note string) error { return a.tellBans(&admin.Bans{Bans: all}, note) })
}

// bannedKey returns the key of a ban, or its hash if the node has not seen the client recently.
func bannedKey(b *admin.Ban) string {
	if b.Key != nil {
		return keyText(b.Key)
	}
	return b.Subject
}

func (a *app) tellBans(found *admin.Bans, note string) error {
	return a.tellPages(found, "RULE\tKEY\tUNTIL\tBANS\tAUTHOR\tREASON", spelling.Count(len(found.Bans), "ban")+note, func(table io.Writer) {
		for _, b := range found.Bans {
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", b.Rule, spelling.Printable(bannedKey(&b)), b.Until.UTC().Format(time.RFC3339), b.Bans,
				spelling.Printable(cmp.Or(b.Author, "-")), spelling.Printable(cmp.Or(b.Reason, "-")))
		}
	})
}
