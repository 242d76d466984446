// Command compare sends the same random requests to Penstock and to envoyproxy/ratelimit, under several
// configurations, and prints every difference between their answers.
//
//	go run ./envoy/compare -requests 50000
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/penstock-io/penstock/bench/envoy"
	"github.com/penstock-io/penstock/bench/lab"
)

func main() {
	requests := flag.Int("requests", 50_000, "how many, of all settings")
	seed := flag.Uint64("seed", 1, "of the random requests")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	done, err := lab.Run(lab.Bench{Context: ctx, Name: "compare", Stderr: os.Stderr}, func(b *lab.Bench) *envoy.Comparison { return envoy.Compare(b, *requests, *seed) })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%d requests with %d statuses: %d denied, %d refused; %d metrics compared; %d differences\n",
		done.Requests, done.Statuses, done.Denied, done.Refused, done.Metrics, len(done.Differences))
	for _, d := range done.Differences {
		fmt.Println(d)
	}
	if len(done.Differences) > 0 {
		os.Exit(1)
	}
}
