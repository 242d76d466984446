package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/accesslog"
	"github.com/penstock-io/penstock/internal/backtest"
	"github.com/penstock-io/penstock/internal/progress"
	"github.com/penstock-io/penstock/internal/simulator/replay"
	"github.com/penstock-io/penstock/internal/toolreport"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

func newBacktestCommand(a *app) *cobra.Command {
	var logs logFlags
	var document, against, entitlements string
	c := &cobra.Command{
		Use:   "backtest --rules FILE LOG...",
		Short: "Replay access logs against rules and report what would be denied",
		Long: `Replay access logs against rules before you deploy them, and report how many requests
each rule would deny, of how many keys, which keys, and when. The same engine as in the
server decides, in virtual time, so a month takes seconds. --against compares with a
second set of rules.

` + logHelp + `

Exit status: 0 if the logs were replayed, whatever the rules deny.`,
		Example: `  penstock backtest --rules rules.yaml /var/log/nginx/access.log*
  penstock backtest --rules new.yaml --against rules.yaml access.log.gz
  penstock backtest --rules rules.yaml --field user=uid --report backtest.html requests.jsonl
  zcat logs/*.gz | penstock backtest --rules rules.yaml -o json -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var documents []backtest.Document
			for _, path := range []string{against, document} { // the old rules first
				if path == "" {
					continue
				}
				d, err := a.backtestRules(c.Context(), path)
				if err != nil {
					return err
				}
				documents = append(documents, d)
			}
			table, err := a.entitlementFile(entitlements)
			if err != nil {
				return err
			}
			result, err := a.backtest(c.Context(), documents, table, &logs, args)
			if err != nil {
				return err
			}
			return a.printReport(result, result.Page())
		},
	}
	c.Flags().StringVar(&document, "rules", "", "the rules: a `file or directory`")
	c.Flags().StringVar(&against, "against", "", "compare with these rules: a `file or directory`")
	addEntitlementsFlag(c, &entitlements)
	a.addReportFlag(c)
	logs.add(c)
	_ = c.MarkFlagRequired("rules") // fails only for unknown flags
	return c
}

func (a *app) backtestRules(ctx context.Context, path string) (backtest.Document, error) {
	snapshot, err := a.compileRules(ctx, path)
	return backtest.Document{Name: path, Rules: snapshot}, err
}

// An entitlementMap is numbers of limits by attribute, value and name.
type entitlementMap map[[3]string]rules.Entitlement

// Entitlement implements [rules.Entitlements].
func (m entitlementMap) Entitlement(attribute, value, name string) (rules.Entitlement, bool) {
	e, ok := m[[3]string{attribute, value, name}]
	return e, ok
}

// addEntitlementsFlag adds a flag for the numbers that rules take from the entitlements table.
func addEntitlementsFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "entitlements", "", "numbers of limits from this CSV `file`, as of penstock entitlements export")
}

// entitlementFile reads entitlements from a file; nil if none is given.
func (a *app) entitlementFile(path string) (rules.Entitlements, error) {
	if path == "" {
		return nil, nil
	}
	if path == "-" {
		return nil, misused("--entitlements cannot be stdin: give a file")
	}
	rows, err := a.readEntitlements(path)
	if err != nil {
		return nil, exitWithNo(fmt.Errorf("read %s: %w", path, err))
	}
	table := make(entitlementMap, len(rows))
	for i := range rows {
		r := &rows[i]
		e := rules.Entitlement{Number: *r.Number}
		if r.Until != nil {
			e.Until = penstock.InstantOf(*r.Until)
		}
		table[r.key()] = e
	}
	return table, nil
}

func (a *app) backtest(ctx context.Context, documents []backtest.Document, table rules.Entitlements, flags *logFlags, paths []string) (*backtest.Report, error) {
	var wanted []accesslog.Attribute
	for _, d := range documents {
		wanted = append(wanted, backtest.Attributes(d.Rules, flags.domain)...)
	}
	log, err := flags.open(a, paths, wanted)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	bar := progress.New(a.stderr, a.terminal, "requests")
	defer bar.Done()
	result, err := backtest.Run(ctx, log, backtest.Options{
		Documents: documents, Domain: flags.domain, Entitlements: table, NewStore: newReplayStore,
		Progress: func(n int64) { bar.Set(readShare(log), n) },
	})
	if err != nil {
		return nil, exitWithNo(fmt.Errorf("backtest: %w", err))
	}
	return result, nil
}

func newReplayStore() (replay.Store, error) { return memstore.New(memstore.Options{}) }

// readShare returns how much of the logs was read.
func readShare(log *accesslog.Log) float64 {
	read, of := log.Progress()
	if of == 0 {
		return -1
	}
	return float64(read) / float64(of)
}

// printReport writes a result in the format of -o, and the report of --report.
func (a *app) printReport(result any, page *toolreport.Page) error {
	if a.report != "" {
		if err := page.WriteFile(a.report); err != nil {
			return err
		}
	}
	if a.json() {
		return a.writeJSON(result)
	}
	return page.WriteText(a.stdout)
}

// addReportFlag adds the flag for the file of printReport. A bad name ends the command before its work, which may take
// long.
func (a *app) addReportFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.report, "report", "", "write a report with charts to this `file`: .html, or .svg for the charts alone")
	c.PreRunE = func(*cobra.Command, []string) error {
		if a.report == "" {
			return nil
		}
		if err := toolreport.CheckName(a.report); err != nil {
			return misused("--report: %v", err)
		}
		return nil
	}
}

// logFlags configure how access logs are read.
type logFlags struct {
	format   string
	fields   []string
	without  []string
	reorder  time.Duration
	timezone string
	prefix   int
	domain   string
}

const logHelp = `Logs are read as a stream, plain or compressed with gzip or zstd; several are merged by
time; - is stdin. The format is detected: nginx and Apache (combined), Caddy and Envoy
(JSON), HAProxy, AWS ALB, CloudFront, other JSON lines (jsonl) and CSV with a line of
column names. Lines that cannot be parsed are counted, shown and skipped.

A log may have an attribute under another name: --field user=uid reads the attribute
user from the field uid; a.b is the field b in a. In formats without field names, extra1
is the first field after the standard ones. time, duration, ip, method, host and path
can be mapped the same way. --without user replays although the log has no user.`

func (f *logFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.format, "format", "", "`format` of the logs; default: detected")
	c.Flags().StringArrayVar(&f.fields, "field", nil, "`name=field` from which an attribute is read; may be repeated")
	c.Flags().StringSliceVar(&f.without, "without", nil, "`attributes` that rules read but the log does not have")
	c.Flags().DurationVar(&f.reorder, "reorder", accesslog.DefaultWindow, "maximum time by which lines may be out of order")
	c.Flags().StringVar(&f.timezone, "timezone", "UTC", "time `zone` of times without one, for example Europe/Berlin")
	c.Flags().IntVar(&f.prefix, "ipv6-prefix", 64, "prefix length in `bits` of IPv6 networks that count as one client, like client_ip.ipv6_prefix")
	c.Flags().StringVar(&f.domain, "domain", "", "`domain` of the requests, as in penstock check")
	var names []string
	for _, format := range accesslog.Formats() {
		names = append(names, format.Name+"\t"+format.Help)
	}
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)) // fails only for unknown flags
}

func (f *logFlags) open(a *app, paths []string, wanted []accesslog.Attribute) (*accesslog.Log, error) {
	o := accesslog.Options{Format: f.format, Fields: map[string]string{}, Attributes: wanted, Without: f.without, Window: f.reorder, IPv6Prefix: f.prefix, Stdin: a.stdin}
	if f.prefix < 1 || f.prefix > 128 {
		return nil, misused("--ipv6-prefix %d is not from 1 to 128", f.prefix)
	}
	var err error
	if o.Location, err = time.LoadLocation(f.timezone); err != nil {
		return nil, misused("--timezone: %v", err)
	}
	for _, field := range f.fields {
		name, from, ok := strings.Cut(field, "=")
		if !ok || name == "" || from == "" {
			return nil, misused("--field %q is not name=field, for example user=uid", field)
		}
		o.Fields[name] = from
	}
	log, err := accesslog.Open(paths, o)
	if err != nil {
		return nil, misused("%w", err)
	}
	return log, nil
}
