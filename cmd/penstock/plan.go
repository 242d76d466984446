package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/backtest"
	"github.com/penstock-io/penstock/internal/plan"
	"github.com/penstock-io/penstock/internal/redisdial"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
)

type planFlags struct {
	amounts   map[string]*string
	types     string
	algorithm string
	window    time.Duration
	limit     int64
	denied    string
	leased    string
	cpu       string
	rules     string
	logs      []string
	log       logFlags
	measure   bool
	redis     string
}

func newPlanCommand(a *app) *cobra.Command {
	f := planFlags{amounts: map[string]*string{}}
	in := plan.Default()
	c := &cobra.Command{
		Use:   "plan",
		Short: "Estimate counters, memory, servers and network",
		Long: `Estimate the capacity that rate limiting your traffic needs: requests, live counters, memory
in process and in Redis, Redis shards, gateway nodes, network, and their cost. Bytes per
counter and CPU time per decision are measured, not assumed; --measure measures them on this
machine, in process and on --redis.

Without flags it plans for a well-known textbook estimate and shows where its arithmetic is off.

With --rules and --log, requests, keys and the peak come from access logs and your own rules,
and flags such as --dau are ignored. Numbers may end in K, M, G (or B) and T, bytes in KB, MB,
GB and TB.`,
		Example: `  penstock plan --dau 20K --requests-per-user 200 --request-types 5
  penstock plan --dau 500M --mau 2G --requests-per-user 100 --request-types 50 --request-bytes 1KB --peak 3
  penstock plan --rules rules.yaml --log access.log
  penstock plan --measure --redis 127.0.0.1:6379
  penstock plan --dau 2M --leased 30% --price-gb 5 --price-core 20 --report plan.html`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.fill(c.Context(), a, &in); err != nil {
				return err
			}
			costs := plan.DefaultCosts()
			if f.measure || f.redis != "" {
				if err := measureCosts(c.Context(), f.redis, &costs); err != nil {
					return failed(fmt.Errorf("measure: %w", err))
				}
			}
			p, err := plan.Make(in, costs)
			if err != nil {
				return misused("%w", err)
			}
			return a.printReport(p, p.Page())
		},
	}
	for _, flag := range f.list(&in) {
		f.amounts[flag.name] = c.Flags().String(flag.name, flag.byDefault, flag.usage)
	}
	c.Flags().StringVar(&f.types, "request-types", "50", "`number` of rules that requests are spread over")
	c.Flags().StringVar(&f.algorithm, "algorithm", penstock.SlidingWindowCounter.String(), "`algorithm` of the limits")
	c.Flags().DurationVar(&f.window, "window", time.Minute, "window of the limits")
	c.Flags().Int64Var(&f.limit, "limit", 100, "`count` of the limits; the number of entries in a sliding_window_log")
	c.Flags().StringVar(&f.denied, "denied", "0%", "`share` of denied requests, which the deny cache answers")
	c.Flags().StringVar(&f.leased, "leased", "0%", "`share` of requests with consistency: leased")
	c.Flags().StringVar(&f.cpu, "cpu", "60%", "maximum CPU `share` of a core at the peak")
	c.Flags().StringVar(&f.rules, "rules", "", "with --log: plan for these rules, a `file or directory`")
	c.Flags().StringArrayVar(&f.logs, "log", nil, "take requests, keys and peak from this access `log`; may be repeated")
	c.Flags().BoolVar(&f.measure, "measure", false, "measure costs on this machine; takes a minute")
	c.Flags().StringVar(&f.redis, "redis", "", "also measure on this Redis `address`; the keys are removed afterwards")
	a.addReportFlag(c)
	f.log.fields, f.log.reorder, f.log.timezone, f.log.prefix = nil, 10*time.Second, "UTC", 64
	c.Flags().StringArrayVar(&f.log.fields, "field", nil, "`name=field` from which an attribute is read, as in penstock backtest")
	c.Flags().StringSliceVar(&f.log.without, "without", nil, "`attributes` that the log does not have")
	c.MarkFlagsRequiredTogether("rules", "log")
	return c
}

type amountFlag struct {
	to                     *float64
	name, byDefault, usage string
}

// list returns the flags that are amounts.
func (f *planFlags) list(in *plan.Input) []amountFlag {
	return []amountFlag{
		{&in.DailyUsers, "dau", "500M", "daily active `users`"},
		{&in.MonthlyUsers, "mau", "2G", "monthly active `users`"},
		{&in.RequestsPerUser, "requests-per-user", "100", "`requests` of a user in a day"},
		{&in.RequestBytes, "request-bytes", "1KB", "`bytes` of a request and its response"},
		{&in.Peak, "peak", "3", "the busiest second as a `multiple` of the average"},
		{&in.LeaseSize, "lease-size", "100", "`requests` that one lease serves"},
		{&in.Cores, "node-cores", "8", "`cores` of a gateway node"},
		{&in.ShardMemory, "shard-memory", "32GB", "`bytes` of memory of a Redis server"},
		{&in.Replicas, "replicas", "1", "`replicas` of each Redis server"},
		{&in.PriceMemory, "price-gb", "0", "`price` of a GB of Redis memory a month"},
		{&in.PriceCore, "price-core", "0", "`price` of a core a month"},
		{&in.PriceNetwork, "price-transfer", "0", "`price` of a GB transferred"},
	}
}

// fill copies the flags to the input.
func (f *planFlags) fill(ctx context.Context, a *app, in *plan.Input) error {
	for _, flag := range f.list(in) {
		n, err := parseAmount(*f.amounts[flag.name], strings.HasSuffix(flag.byDefault, "B"))
		if err != nil {
			return misused("--%s: %v", flag.name, err)
		}
		*flag.to = n
	}
	if in.MonthlyUsers < in.DailyUsers && *f.amounts["mau"] == "2G" {
		in.MonthlyUsers = in.DailyUsers
	}
	var err error
	for _, share := range []struct {
		to         *float64
		name, text string
	}{{&in.Denied, "--denied", f.denied}, {&in.Leased, "--leased", f.leased}, {&in.CPU, "--cpu", f.cpu}} {
		if *share.to, err = parseShare(share.name, share.text, false); err != nil {
			return err
		}
	}
	var algorithm penstock.Algorithm
	if err := algorithm.UnmarshalText([]byte(f.algorithm)); err != nil || algorithm == penstock.Concurrency {
		return misused("--algorithm %q is not one that counts over time: fixed_window, sliding_window_log, sliding_window_counter, token_bucket or leaky_bucket", f.algorithm)
	}
	types, err := parseAmount(f.types, false)
	if err != nil {
		return misused("--request-types: %v", err)
	}
	in.Rules = []plan.RuleInput{in.Types(types, algorithm, f.window, float64(f.limit))}
	if f.rules != "" {
		return f.fromLog(ctx, a, in)
	}
	return nil
}

// fromLog replaces users, requests, peak and rules by those of a log under a document.
func (f *planFlags) fromLog(ctx context.Context, a *app, in *plan.Input) error {
	document, err := a.backtestRules(ctx, f.rules)
	if err != nil {
		return err
	}
	report, err := a.backtest(ctx, []backtest.Document{document}, nil, &f.log, f.logs)
	if err != nil {
		return err
	}
	seconds := report.Log.To.Sub(report.Log.From).Seconds()
	if seconds <= 0 {
		return exitWithNo(fmt.Errorf("the log spans no time: %d requests", report.Log.Requests))
	}
	var most int64
	for _, b := range report.Series.Counts {
		most = max(most, b.Requests)
	}
	requests := float64(report.Log.Requests)
	average := requests / seconds
	in.Peak = max(1, float64(most)/report.Series.Step.Seconds()/average)
	in.DailyUsers, in.MonthlyUsers, in.RequestsPerUser = 1, 0, average*86_400 // of all users together
	in.Denied = float64(report.Documents[0].Denied) / requests
	in.Rules = nil
	for i, r := range document.Rules.Rules {
		counted := &report.Documents[0].Rules[i]
		for _, m := range r.Limits {
			limit := m.Limit()
			if limit.Algorithm == penstock.Concurrency || counted.Requests == 0 {
				continue
			}
			window := limit.Window
			if window == 0 {
				window = 24 * time.Hour // a calendar period
			}
			in.Rules = append(in.Rules, plan.RuleInput{
				Name: r.Name, Count: 1, Share: float64(counted.Requests) / requests, Keys: float64(counted.Keys),
				Algorithm: limit.Algorithm, Window: window, Limit: float64(limit.Count),
			})
			in.DailyUsers = max(in.DailyUsers, float64(counted.Keys))
		}
	}
	in.RequestsPerUser /= in.DailyUsers
	return nil
}

// parseAmount reads 500M, 2G, 1KB, 0.5. A B after digits means bytes if the amount is in bytes, otherwise billions.
func parseAmount(text string, inBytes bool) (float64, error) {
	number, hasB := strings.CutSuffix(strings.ToUpper(strings.ReplaceAll(text, " ", "")), "B")
	scale := 1.0
	if hasB && !inBytes && number != "" && number[len(number)-1] >= '0' && number[len(number)-1] <= '9' {
		scale = 1e9
	}
	if i := strings.IndexAny(number, "KMGT"); i >= 0 && i == len(number)-1 {
		scale = map[byte]float64{'K': 1e3, 'M': 1e6, 'G': 1e9, 'T': 1e12}[number[i]]
		number = number[:i]
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || n < 0 || n*scale > 1e18 {
		return 0, fmt.Errorf("%q is not a number, for example 500, 20K, 500M or 2G", text)
	}
	return n * scale, nil
}

// measureCosts replaces the costs of the stores by those of this machine.
func measureCosts(ctx context.Context, redis string, costs *plan.Costs) error {
	memory, err := memstore.New(memstore.Options{MaxBytes: 64 << 20})
	if err != nil {
		return err
	}
	defer memory.Close()
	used := func(context.Context) (int64, error) { return memory.Stats().Bytes, nil }
	measured, err := plan.Measure(ctx, plan.Target{Store: memory, Keys: 100_000, Used: used})
	if err != nil {
		return err
	}
	costs.Memory, costs.Measured = *measured, true
	if redis == "" {
		return nil
	}
	measured, err = measureRedis(ctx, redis)
	if err == nil {
		costs.Redis = *measured
	}
	return err
}

// measurePrefix is the prefix of the keys that a measurement creates.
const measurePrefix = "penstock-plan:"

func measureRedis(ctx context.Context, address string) (*plan.StoreCosts, error) {
	option := rueidis.ClientOption{InitAddress: []string{address}, ForceSingleClient: true, DisableCache: true}
	client, err := redisdial.NewClient(option, redisdial.Limits{Bytes: 4 << 20, Elements: 256 << 10})
	if err != nil {
		return nil, fmt.Errorf("connect to Redis at %s: %w", address, err)
	}
	defer client.Close()
	store, err := redisstore.Open(redisstore.Options{Addresses: []string{address}, KeyPrefix: measurePrefix, Timeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	defer removeMeasured(client)
	info := func(ctx context.Context, section string, fields ...string) (sum float64, err error) {
		text, err := client.Do(ctx, client.B().Info().Section(section).Build()).ToString()
		if err != nil {
			return 0, fmt.Errorf("ask Redis at %s for INFO %s: %w", address, section, err)
		}
		for _, field := range fields {
			_, value, _ := strings.Cut(text, "\n"+field+":")
			value, _, _ = strings.Cut(value, "\r")
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, fmt.Errorf("INFO %s of Redis at %s has no %s", section, address, field)
			}
			sum += n
		}
		return sum, nil
	}
	return plan.Measure(ctx, plan.Target{
		Store: store, Keys: 20_000,
		Used: func(ctx context.Context) (int64, error) {
			n, err := info(ctx, "memory", "used_memory")
			return int64(n), err
		},
		CPU: func(ctx context.Context) (time.Duration, error) {
			n, err := info(ctx, "cpu", "used_cpu_user", "used_cpu_sys")
			return time.Duration(n * float64(time.Second)), err
		},
		Traffic: func(ctx context.Context) (int64, error) {
			n, err := info(ctx, "stats", "total_net_input_bytes", "total_net_output_bytes")
			return int64(n), err
		},
	})
}

// removeMeasured removes the keys of a measurement. Those that it cannot remove within a minute expire: there may be
// many other keys to look through, and Redis or this machine may be busy.
func removeMeasured(client rueidis.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for cursor := uint64(0); ; {
		page, err := client.Do(ctx, client.B().Scan().Cursor(cursor).Match(measurePrefix+"*").Count(1000).Build()).AsScanEntry()
		if err != nil {
			return
		}
		if len(page.Elements) > 0 {
			if err := client.Do(ctx, client.B().Unlink().Key(page.Elements...).Build()).Error(); err != nil {
				return
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return
		}
	}
}
