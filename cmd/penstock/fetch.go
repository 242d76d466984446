package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// fetch sends one request to the admin API and reads the response.
func fetch[T any](ctx context.Context, a *app, server *adminFlags, method, path string, body any) (*T, error) {
	client, err := server.client(a)
	if err != nil {
		return nil, err
	}
	into := new(T)
	if err := client.fetch(ctx, method, path, body, into); err != nil {
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

// show prints a value: as JSON, or as a table whose rows the function writes, and then the note for people.
func (a *app) show(value any, columns, note string, rows func(table io.Writer)) error {
	if a.json() {
		return a.writeJSON(value)
	}
	table := newTable(a.stdout, columns)
	rows(table)
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprint(a.stderr, note)
	return nil
}

// listFlags are those of a command that lists page by page.
type listFlags struct {
	adminFlags
	most int
}

func (f *listFlags) add(c *cobra.Command) {
	f.adminFlags.add(c)
	c.Flags().IntVar(&f.most, "most", 1000, "list at most `n`")
}

// readPages reads pages of a list until there are enough items. It returns a note if there are more.
func readPages[T any](a *app, f *listFlags, page func(client *adminClient, cursor string) ([]T, string, error)) (all []T, note string, err error) {
	if f.most < 1 {
		return nil, "", misused("--most %d must be 1 or more", f.most)
	}
	client, err := f.client(a)
	if err != nil {
		return nil, "", err
	}
	all = []T{}
	for cursor, more := "", true; more && len(all) < f.most; more = cursor != "" {
		var items []T
		if items, cursor, err = page(client, cursor); err != nil {
			return nil, "", err
		}
		all = append(all, items...)
		if cursor != "" || len(all) > f.most {
			note = ", and there are more: --most"
		} else {
			note = ""
		}
	}
	return all[:min(f.most, len(all))], note, nil
}
