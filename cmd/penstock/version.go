package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/buildinfo"
	"github.com/penstock-io/penstock/internal/console"
)

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, commit, date and Go version of this program",
		Example: `  penstock version
  penstock version -o json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.json() {
				return a.writeJSON(struct {
					buildinfo.Info
					Console bool `json:"console"`
				}{buildinfo.Read(), console.Built()})
			}
			_, err := fmt.Fprintf(a.stdout, "penstock %s\n", describe(buildinfo.Read()))
			return err
		},
	}
}

// describe formats the version. It also says if the console is missing, as after go install.
func describe(b buildinfo.Info) string {
	if console.Built() {
		return b.String()
	}
	return b.String() + " without the console"
}
