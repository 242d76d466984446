// Command atomicity compares the usual ways of keeping a limit in Redis under contention and shows which of them
// enforce it. See --help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/penstock-io/penstock/bench/race"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := race.Main(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "atomicity:", err)
		stop()
		os.Exit(1)
	}
}
