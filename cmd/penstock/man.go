package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/buildinfo"
	"github.com/penstock-io/penstock/internal/manpage"
)

// newManCommand returns the command that writes the manual, for packagers.
func newManCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write the manual pages of all commands",
		Long: `Write the manual pages of all commands to a directory. Their date is SOURCE_DATE_EPOCH, or that of
the program's commit.`,
		Example: "  penstock man /usr/local/share/man/man1",
		Hidden:  true,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			date, err := a.sourceDate()
			if err != nil {
				return err
			}
			c.Root().InitDefaultCompletionCmd()
			return manpage.Write(c.Root(), args[0], buildinfo.Read().Version, date)
		},
	}
}

// sourceDate returns the date of the manual, zero if unknown.
func (a *app) sourceDate() (time.Time, error) {
	text := a.getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		date, _ := time.Parse(time.RFC3339, buildinfo.Read().Date) // unknown is zero
		return date, nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, misused("%w", fmt.Errorf("SOURCE_DATE_EPOCH: %w", err))
	}
	return time.Unix(seconds, 0), nil
}
