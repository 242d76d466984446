package main

import (
	"errors"
	"flag"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/race"
	"github.com/penstock-io/penstock/redisstore"
)

func newRaceCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "race",
		Short: "Race the usual ways of keeping a limit in Redis, and count what each admits",
		Example: `  penstock race --redis 127.0.0.1:6379
  penstock race --help                         # the ways, and how to read the table`,
		DisableFlagParsing: true, // the race has its own, which its help explains
		RunE: func(c *cobra.Command, args []string) error {
			command := race.Command{Name: "penstock race", Stdout: a.stdout, Stderr: a.stderr, Extra: []race.Way{ownWay()}}
			err := command.Run(c.Context(), args)
			switch {
			case errors.Is(err, flag.ErrHelp):
				return nil
			case errors.Is(err, race.ErrUsage):
				return misused("%w", err)
			}
			return err
		},
	}
}

// ownWay enters the store that nodes share.
func ownWay() race.Way {
	return race.Store(func(addr string) (penstock.Store, func(), error) {
		store, err := redisstore.Open(redisstore.Options{Addresses: []string{addr}, Timeout: 10 * time.Second})
		if err != nil {
			return nil, nil, err
		}
		return store, func() { store.Close() }, nil
	})
}
