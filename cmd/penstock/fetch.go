package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// groupCommand completes a command that only groups others.
func groupCommand(c *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	c.Args, c.SuggestionsMinimumDistance = noSuchCommand, 2
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(commands...)
	return c
}

// An adminRequest is one request to the admin API.
type adminRequest struct {
	method, path string
	body         any
}

// get returns the request of a command that has no arguments.
func get(path string) func([]string) (adminRequest, error) {
	return func([]string) (adminRequest, error) { return adminRequest{http.MethodGet, path, nil}, nil }
}

// adminCommand completes a command that sends one request to the admin API and prints the response: as JSON, or with
// tell. ask returns the request for the arguments. warn prints to stderr first what concerns both formats.
func adminCommand[T any](a *app, c *cobra.Command, ask func(args []string) (adminRequest, error), tell func(*T) error, warn ...func(*T)) *cobra.Command {
	addAdminFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		request, err := ask(args)
		if err != nil {
			return err
		}
		found, err := fetch[T](a, c, request)
		if err != nil {
			return err
		}
		for _, print := range warn {
			print(found)
		}
		if a.json() {
			return a.writeJSON(found)
		}
		return tell(found)
	}
	return c
}

// fetch sends one request to the admin API and reads the response.
func fetch[T any](a *app, c *cobra.Command, q adminRequest) (*T, error) {
	client, err := a.adminClient(c)
	if err != nil {
		return nil, err
	}
	into := new(T)
	if err := client.fetch(c.Context(), q.method, q.path, q.body, into); err != nil {
		return nil, err
	}
	return into, nil
}

// newTable returns a writer of columns separated by tabs, with their names written.
func newTable(w io.Writer, columns string) *tabwriter.Writer {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, columns)
	return table
}

// writeTable prints a table whose rows the function writes.
func (a *app) writeTable(columns string, rows func(table io.Writer)) error {
	table := newTable(a.stdout, columns)
	rows(table)
	return table.Flush()
}

// listCommand completes a command that reads pages of a list from the admin API until there are enough items. query
// returns the parameters for the arguments and --most. tell gets the items, and a note if there are more.
func listCommand[P, T any](a *app, c *cobra.Command, path string, query func(args []string, most int) url.Values, itemsOf func(*P) (items []T, next string), tell func(all []T, note string) error) *cobra.Command {
	addAdminFlags(c)
	most := c.Flags().Int("most", 1000, "list at most `n`")
	c.RunE = func(c *cobra.Command, args []string) error {
		return listPages(a, c, *most, path, query(args, *most), itemsOf, tell)
	}
	return c
}

// listPages reads pages of a list until there are enough items.
func listPages[P, T any](a *app, c *cobra.Command, most int, path string, q url.Values, itemsOf func(*P) (items []T, next string), tell func(all []T, note string) error) error {
	if most < 1 {
		return misused("--most %d must be 1 or more", most)
	}
	client, err := a.adminClient(c)
	if err != nil {
		return err
	}
	all, cursor := []T{}, ""
	for more := true; more && len(all) < most; more = cursor != "" {
		q.Set("cursor", cursor)
		var page P
		if err := client.fetch(c.Context(), http.MethodGet, path+"?"+q.Encode(), nil, &page); err != nil {
			return err
		}
		var items []T
		items, cursor = itemsOf(&page)
		all = append(all, items...)
	}
	note := ""
	if cursor != "" || len(all) > most {
		note = ", and there are more: --most"
	}
	return tell(all[:min(most, len(all))], note)
}

// tellPages prints the list of a listCommand: as JSON, or as a table with the number of its rows.
func (a *app) tellPages(list any, columns, counted string, rows func(table io.Writer)) error {
	if a.json() {
		return a.writeJSON(list)
	}
	if err := a.writeTable(columns, rows); err != nil {
		return err
	}
	fmt.Fprintln(a.stderr, counted)
	return nil
}
