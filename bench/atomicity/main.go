// Command atomicity races the usual ways of keeping a limit in Redis against
// each other and shows which of them hold it. See --help.
//
// It lives in the benchmark module because it starts a server of its own, which
// the product never does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/bench/race"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	command := race.Command{Name: "atomicity", Stdout: os.Stdout, Stderr: os.Stderr, Extra: []race.Way{ours}, Launch: launch}
	err := command.Run(ctx, os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "atomicity:", err)
		os.Exit(1)
	}
}

func launch(ctx context.Context) (string, func() error, error) {
	server, err := redistest.Launch(ctx)
	if err != nil {
		return "", nil, err
	}
	return server.Addr, server.Close, nil
}

var ours = race.Store(func(addr string) (penstock.Store, func(), error) {
	store, err := redisstore.Open(redisstore.Options{Addresses: []string{addr}, Timeout: 10 * time.Second})
	if err != nil {
		return nil, nil, err
	}
	return store, func() { store.Close() }, nil
})
