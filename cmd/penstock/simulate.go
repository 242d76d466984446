package main

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/progress"
	"github.com/penstock-io/penstock/internal/simulate"
	"github.com/penstock-io/penstock/memstore"
)

func newSimulateCommand(a *app) *cobra.Command {
	s := simulate.Simulation{NewStore: newSimulationStore, Bytes: func(s simulate.Store) int64 { return s.(*memstore.Store).Stats().Bytes }}
	var requests, sharing string
	var algorithms []string
	var limit limitFlags
	c := &cobra.Command{
		Use:   "simulate",
		Short: "Simulate traffic and count the wrong decisions of algorithms",
		Long: `Send simulated traffic through limits of several algorithms and compare every decision with
an exact count of the same stream: how many requests are allowed, denied and wrong, by how
much the limit is exceeded in the worst trailing window, and the memory needed. The same
engine as in the server decides, in virtual time. The same seed gives the same result.

Traffic is poisson, bursty, diurnal, attack (one client sends as much as all others) or
retries (denied clients try again). Several nodes use one store (shared), with leases for
busy keys (leased), or separate counters (apart). During an outage they have no store.`,
		Example: `  penstock simulate --requests 1M
  penstock simulate --traffic attack --limit 20 --window 10s --algorithm fixed_window,sliding_window_log
  penstock simulate --nodes 4 --sharing apart --requests 100K
  penstock simulate --nodes 3 --outage-from 1m --outage 30s --on-store-error local
  penstock simulate trace overlap
  penstock simulate study --requests 400M --state study.json`,
		Args:                       noSuchCommand,
		SuggestionsMinimumDistance: 2,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if s.Requests, err = parseWhole("--requests", requests); err != nil {
				return err
			}
			if s.Sharing = simulate.Sharing(sharing); s.Sharing != simulate.Shared && s.Sharing != simulate.Leased && s.Sharing != simulate.Apart {
				return misused("--sharing %q is not shared, leased or apart", sharing)
			}
			if s.Limits, err = limit.parseAll(algorithms); err != nil {
				return err
			}
			if err := s.Validate(); err != nil {
				return misused("%w", err)
			}
			bar := progress.New(a.stderr, a.terminal, "requests")
			total := float64(s.Requests) * float64(len(s.Limits))
			s.Progress = func(n int64) { bar.Set(float64(n)/total, n) }
			results, err := s.Run(c.Context())
			bar.Done()
			if err != nil {
				return err
			}
			return a.printReport(results, s.Page(results))
		},
	}
	addTrafficFlags(c, &s.Traffic, simulate.Traffic{Model: simulate.Poisson, Rate: 100, Keys: 1000, Zipf: 1.1, Shift: 10, Seed: 1})
	c.Flags().StringVar(&requests, "requests", "100K", "`number` of requests")
	c.Flags().StringSliceVar(&algorithms, "algorithm", []string{"fixed_window", "sliding_window_log", "sliding_window_counter", "token_bucket"}, "`algorithms` to compare")
	limit.add(c, 100)
	c.Flags().IntVar(&s.Nodes, "nodes", 1, "`number` of nodes that requests are spread over")
	c.Flags().StringVar(&sharing, "sharing", "shared", "counters of the nodes: shared, leased or apart")
	c.Flags().DurationVar(&s.Outage.From, "outage-from", time.Minute, "start of the outage of the store")
	c.Flags().DurationVar(&s.Outage.For, "outage", 0, "length of the outage; 0: none")
	c.Flags().StringVar(&s.Outage.Policy, "on-store-error", "local", "`fallback` of the rule during the outage: local, divided, allow or deny")
	a.addReportFlag(c)
	c.AddCommand(newTraceCommand(a), newStudyCommand(a))
	return c
}

func newSimulationStore() (simulate.Store, error) { return memstore.New(memstore.Options{}) }

func addTrafficFlags(c *cobra.Command, t *simulate.Traffic, byDefault simulate.Traffic) {
	c.Flags().StringVar(&t.Model, "traffic", byDefault.Model, "`model`: "+strings.Join(simulate.Models, ", "))
	c.Flags().Float64Var(&t.Rate, "rate", byDefault.Rate, "average `requests` per second of all clients")
	c.Flags().IntVar(&t.Keys, "keys", byDefault.Keys, "`number` of clients")
	c.Flags().Float64Var(&t.Zipf, "zipf", byDefault.Zipf, "Zipf `exponent` of the distribution of requests over clients, above 1; 0: uniform")
	c.Flags().Float64Var(&t.Shift, "zipf-shift", byDefault.Shift, "Zipf `shift`: the share of the k-th client is proportional to (shift+k)^-zipf")
	c.Flags().Uint64Var(&t.Seed, "seed", byDefault.Seed, "`seed` of the random generator")
}

// limitFlags are the numbers that limits of all algorithms have.
type limitFlags struct{ simulate.LimitShape }

func (f *limitFlags) add(c *cobra.Command, count int64) {
	c.Flags().Int64Var(&f.Count, "limit", count, "`count` of the limit")
	c.Flags().DurationVar(&f.Window, "window", time.Minute, "window of the limit")
	c.Flags().Int64Var(&f.Burst, "burst", 0, "`capacity` of a token_bucket; 0: the limit")
	c.Flags().Int64Var(&f.Queue, "queue", 0, "`number` of requests that can wait in a leaky_bucket")
	c.Flags().BoolVar(&f.CountDenied, "count-denied", false, "count denied requests too (windows only)")
}

func (f *limitFlags) parseAll(algorithms []string) (limits []penstock.Limit, err error) {
	for _, name := range algorithms {
		var algorithm penstock.Algorithm
		if err := algorithm.UnmarshalText([]byte(name)); err != nil {
			return nil, misused("--algorithm: %v", err)
		}
		limits = append(limits, f.Limit(algorithm))
	}
	return limits, nil
}

func parseWhole(flag, text string) (int64, error) {
	n, err := parseAmount(text, false)
	if err == nil && n != float64(int64(n)) {
		err = fmt.Errorf("%q is not a whole number", text)
	}
	if err != nil {
		return 0, misused("%s: %v", flag, err)
	}
	return int64(n), nil
}

func newTraceCommand(a *app) *cobra.Command {
	var names []string
	var help strings.Builder
	for _, t := range simulate.Traces {
		names = append(names, t.Name+"\t"+t.Help)
		fmt.Fprintf(&help, "  %-9s %s\n", t.Name, t.Help)
	}
	c := &cobra.Command{
		Use:               "trace NAME",
		Short:             "Show where algorithms differ, request by request",
		Long:              "Show the decisions of several algorithms, request by request:\n\n" + help.String(),
		Example:           "  penstock simulate trace overlap",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp),
		RunE: func(c *cobra.Command, args []string) error {
			result, err := simulate.RunTrace(c.Context(), args[0], newSimulationStore)
			if err != nil {
				return misused("%w", err)
			}
			return a.printReport(result, result.Page())
		},
	}
	a.addReportFlag(c)
	return c
}

func newStudyCommand(a *app) *cobra.Command {
	s := simulate.DefaultStudy()
	s.NewStore = newSimulationStore
	var requests, slice string
	c := &cobra.Command{
		Use:   "study",
		Short: "Measure how often the sliding window counter is wrong",
		Long: `Measure how often the sliding window counter differs from an exact count of the same
stream: once counting only allowed requests, as Penstock does, and once counting all
requests, as in Cloudflare's published figure (0.003 % of 400 million requests).

The study is divided into slices, each with its own seed. --state names a file that records
the finished slices: to resume after an interruption, run the same command again. At the
end, stderr says how long 400 million requests would take.`,
		Example: `  penstock simulate study --requests 1M --slice 250K
  penstock simulate study --state study.json --report study.html`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if s.Requests, err = parseWhole("--requests", requests); err != nil {
				return err
			}
			if s.Slice, err = parseWhole("--slice", slice); err != nil {
				return err
			}
			s.Slice = min(s.Slice, s.Requests)
			if err := errors.Join(s.Traffic.Validate(), s.Limit.Validate()); err != nil {
				return misused("%w", err)
			}
			bar := progress.New(a.stderr, a.terminal, "requests")
			s.Progress = func(n int64) { bar.Set(float64(n)/float64(s.Requests), n) }
			began := time.Now()
			result, err := s.Run(c.Context())
			bar.Done()
			if err != nil {
				return err
			}
			if now := result.Admitted.Compared - result.Resumed; now > 0 {
				fmt.Fprintf(a.stderr, "%s requests in %v; 400 million would take %v here\n", progress.Grouped(now), time.Since(began).Round(time.Second), simulate.Predict(400_000_000, now, time.Since(began)))
			}
			return a.printReport(result, result.Page())
		},
	}
	addTrafficFlags(c, &s.Traffic, s.Traffic)
	c.Flags().StringVar(&requests, "requests", "400M", "`number` of requests")
	c.Flags().StringVar(&slice, "slice", "2M", "`number` of requests per slice")
	c.Flags().Int64Var(&s.Limit.Count, "limit", s.Limit.Count, "`count` of the limit")
	c.Flags().DurationVar(&s.Limit.Window, "window", s.Limit.Window, "window of the limit")
	c.Flags().StringVar(&s.State, "state", "", "`file` that records the finished slices")
	c.Flags().IntVar(&s.Workers, "workers", runtime.NumCPU(), "number of concurrent slices")
	a.addReportFlag(c)
	return c
}
