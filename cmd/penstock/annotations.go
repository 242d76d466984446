package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/spelling"
)

func newAnnotationsCommand(a *app) *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "annotations",
		Short: "Annotate the charts with what you did or found",
		Long: `Annotate the charts of the console: what you did or found, at which instant. All nodes show
it beside changes of rules, restarts and outages, for two days. Viewers see it, so name no
clients.`,
		Example: `  penstock annotations add "blocked scraper, ticket 123"
  penstock annotations list
  penstock annotations delete RIQ4P7MVXZ3A`,
	}, newAnnotationsAddCommand(a), newAnnotationsListCommand(a), newAnnotationsDeleteCommand(a))
}

// A newAnnotation is the request to annotate.
type newAnnotation struct {
	At   string `json:"at,omitempty"`
	Rule string `json:"rule,omitempty"`
	Text string `json:"text"`
}

func newAnnotationsAddCommand(a *app) *cobra.Command {
	var n newAnnotation
	c := adminCommand(a, &cobra.Command{
		Use:   "add TEXT",
		Short: "Annotate an instant",
		Example: `  penstock annotations add "blocked scraper, ticket 123"
  penstock annotations add --at 2026-01-31T03:12:00Z --rule per-ip "limit raised for the sale"`,
		Args: cobra.MinimumNArgs(1),
	}, func(args []string) (adminRequest, error) {
		n.Text = strings.Join(args, " ")
		return adminRequest{http.MethodPost, "/v1/annotations", n}, nil
	}, func(told *admin.Annotation) error {
		fmt.Fprintf(a.stdout, "annotated  %s  %s\n", told.At.UTC().Format(time.RFC3339), told.ID)
		return nil
	})
	c.Flags().StringVar(&n.At, "at", "", "`time` within the last two days, as 2026-01-31T03:12:00Z (default now)")
	c.Flags().StringVar(&n.Rule, "rule", "", "the rule that it is about (default all rules)")
	return c
}

func newAnnotationsListCommand(a *app) *cobra.Command {
	var last, rule string
	c := adminCommand(a, &cobra.Command{
		Use:   "list",
		Short: "List the annotations",
		Example: `  penstock annotations list --last 12h
  penstock annotations list -o json | jq -r '.annotations[] | [.at, .text] | @tsv'`,
		Args: cobra.NoArgs,
	}, func([]string) (adminRequest, error) {
		query := url.Values{"last": {last}, "rule": {rule}}
		return adminRequest{http.MethodGet, "/v1/annotations?" + query.Encode(), nil}, nil
	}, func(found *admin.Annotations) error {
		return a.writeTable("ID\tAT\tRULE\tAUTHOR\tTEXT", func(table io.Writer) {
			for _, n := range found.Annotations {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", n.ID, n.At.UTC().Format(time.RFC3339),
					spelling.Printable(n.Rule), spelling.Printable(n.Author), spelling.Printable(string(n.Text)))
			}
		})
	}, func(found *admin.Annotations) {
		if found.Problem != "" {
			a.warn(found.Problem)
		}
	})
	c.Flags().StringVar(&last, "last", "48h", "how far back")
	c.Flags().StringVar(&rule, "rule", "", "only what is about this rule or about all rules")
	completeValues(c, "last", "1h", "12h", "24h", "48h")
	return c
}

func newAnnotationsDeleteCommand(a *app) *cobra.Command {
	return adminCommand(a, &cobra.Command{
		Use:     "delete ID",
		Short:   "Delete an annotation",
		Example: `  penstock annotations delete RIQ4P7MVXZ3A`,
		Args:    cobra.ExactArgs(1),
	}, func(args []string) (adminRequest, error) {
		return adminRequest{http.MethodDelete, "/v1/annotations/" + url.PathEscape(args[0]), nil}, nil
	}, func(told *admin.DeletedAnnotation) error {
		fmt.Fprintf(a.stdout, "deleted  %s\n", told.ID)
		return nil
	})
}
