package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/accesslog"
	"github.com/penstock-io/penstock/internal/progress"
	"github.com/penstock-io/penstock/internal/suggest"
)

func newSuggestCommand(a *app) *cobra.Command {
	var logs logFlags
	var o suggest.Options
	var algorithm, denied, keys string
	c := &cobra.Command{
		Use:   "suggest --key ATTRIBUTES LOG...",
		Short: "Suggest a limit from access logs",
		Long: `Find the smallest limit that denies at most a given share of the requests in a log
(--max-denied) or of its keys (--max-keys). The report adds equivalent windows and bursts,
and what smaller and larger limits would deny. The limit is found on the first part of the
log and checked on the last (--hold-out). The result is a rule in shadow mode.

The same engine as in the server decides. The log is read several times, so it cannot be
stdin.

` + logHelp,
		Example: `  penstock suggest --key ip access.log
  penstock suggest --key ip --path /login --method POST --max-keys 1% access.log*
  penstock suggest --key user --field user=uid --algorithm token_bucket --window 1s requests.jsonl
  penstock suggest --key ip --window 1h --max-denied 0.01% --report limit.html access.log.gz`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.Algorithm.UnmarshalText([]byte(algorithm)); err != nil {
				return misused("--algorithm: %v", err)
			}
			var err error
			if o.MaxDenied, err = parseShare("--max-denied", denied, keys == ""); err != nil {
				return err
			}
			if o.MaxKeys, err = parseShare("--max-keys", keys, false); err != nil {
				return err
			}
			for _, path := range args {
				if path == "-" {
					return misused("the log is read several times, so it cannot be stdin: use a file")
				}
			}
			return a.suggest(c, &o, &logs, args)
		},
	}
	c.Flags().StringSliceVar(&o.Key, "key", nil, "`attributes` that identify a client")
	c.Flags().StringVar(&o.Path, "path", "", "only requests with this `path`, as in a rule's match: /api/*")
	c.Flags().StringVar(&o.Method, "method", "", "only requests with this `method`")
	c.Flags().StringVar(&algorithm, "algorithm", penstock.SlidingWindowCounter.String(), "`algorithm` of the limit")
	c.Flags().DurationVar(&o.Window, "window", time.Minute, "window of the limit")
	c.Flags().Float64Var(&o.Burst, "burst", 1, "capacity of a token_bucket as a `multiple` of the count")
	c.Flags().StringVar(&denied, "max-denied", "", "`share` of requests that may be denied; 0.1% if --max-keys is not given")
	c.Flags().StringVar(&keys, "max-keys", "", "`share` of keys that may be denied at least once")
	c.Flags().Float64Var(&o.HoldOut, "hold-out", 0.2, "`share` of the log's time, at its end, on which the limit is checked; 0: none")
	a.addReportFlag(c)
	logs.add(c)
	_ = c.MarkFlagRequired("key") // fails only for unknown flags
	return c
}

func (a *app) suggest(c *cobra.Command, o *suggest.Options, logs *logFlags, paths []string) error {
	bar := progress.New(a.stderr, a.terminal, "requests")
	defer bar.Done()
	o.NewStore = newReplayStore
	o.Open = func(wanted []accesslog.Attribute) (*accesslog.Log, error) { return logs.open(a, paths, wanted) }
	o.Progress = func(pass int, log *accesslog.Log, n int64) {
		bar.Label("pass "+strconv.Itoa(pass)).Set(readShare(log), n)
	}
	result, err := suggest.Find(c.Context(), *o)
	bar.Done()
	if _, coded := errors.AsType[*exit](err); err != nil && !coded {
		err = exitWithNo(fmt.Errorf("suggest: %w", err))
	}
	if err != nil {
		return err
	}
	return a.printReport(result, result.Page())
}

// parseShare reads 0.1% or 0.001. For an empty text it returns 0.1 % if byDefault is set, and otherwise a
// negative value, which means any share.
func parseShare(flag, text string, byDefault bool) (float64, error) {
	if text == "" {
		if byDefault {
			return 0.001, nil
		}
		return -1, nil
	}
	number, isPercent := strings.CutSuffix(strings.TrimSpace(text), "%")
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if isPercent {
		n /= 100
	}
	if err != nil || n < 0 || n >= 1 {
		return 0, misused("%s %q is not a share, for example 0.1%% or 0.001", flag, text)
	}
	return n, nil
}
