package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/client"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/wire"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

// maxTimes bounds how often one command may send a request.
const maxTimes = 1_000_000

func newCheckCommand(a *app) *cobra.Command {
	var origin originFlags
	var flags callFlags
	var server, entitlements string
	var times int
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "check [--server URL | --config FILE | --rules FILE|DIR | --database SOURCE] name=value...",
		Short: "Decide a request",
		Long: `Ask a running server to decide a request and charge it. With --config, --rules or
--database no server is needed: the rules decide in memory, starting with empty counters.

Exit status: 0 allowed, 1 denied, 3 the server did not respond.`,
		Example: `  penstock check path=/login method=POST ip=198.51.100.7
  penstock check --cost 0 path=/search user=u1               # charge nothing
  penstock check --server http://penstock:8090 user=u1 -o json
  penstock check --rules rules.yaml --times 11 path=/ method=GET ip=192.0.2.1`,
		RunE: func(c *cobra.Command, args []string) error {
			call, err := flags.call(args)
			if err != nil {
				return err
			}
			if times < 1 || times > maxTimes {
				return misused("--times %d is not from 1 to %d", times, maxTimes)
			}
			decider, end, err := a.decider(c.Context(), server, timeout, &origin, entitlements)
			if err != nil {
				return err
			}
			defer end()
			return a.decideTimes(c.Context(), decider, call, times)
		},
	}
	flags.add(c)
	c.Flags().StringVar(&server, "server", "", "`URL` of the decision API; default PENSTOCK_SERVER, or http://127.0.0.1:8090")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "timeout of a request")
	c.Flags().IntVar(&times, "times", 1, "send the request `n` times")
	addEntitlementsFlag(c, &entitlements)
	origin.add(c)
	c.MarkFlagsMutuallyExclusive("server", "rules", "database", "database-file", "config")
	return c
}

// decider returns the decider to ask, and a function that closes it.
func (a *app) decider(ctx context.Context, server string, timeout time.Duration, origin *originFlags, entitlements string) (penstock.Decider, func(), error) {
	if !origin.areSet() {
		if entitlements != "" {
			return nil, nil, misused("--entitlements needs --rules, --config or --database: a server has its own table")
		}
		server = cmp.Or(server, a.getenv("PENSTOCK_SERVER"), "http://127.0.0.1:8090")
		remote, err := client.NewHTTP(server, client.Options{Timeout: timeout, OnError: client.Deny})
		if err != nil {
			return nil, nil, misused("%w", err)
		}
		return remote, func() {}, nil
	}
	snapshot, err := origin.compile(ctx, a)
	if err != nil {
		return nil, nil, err
	}
	table, err := a.entitlementFile(entitlements)
	if err != nil {
		return nil, nil, err
	}
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		return nil, nil, err
	}
	e, err := engine.New(engine.Options{Store: store, Rules: engine.Fixed(snapshot), Entitlements: table})
	return e, func() { store.Close() }, err
}

// decideTimes sends the request the given number of times and prints each verdict.
func (a *app) decideTimes(ctx context.Context, d penstock.Decider, call *penstock.Call, times int) error {
	denied := false
	for range times {
		var v penstock.Verdict
		if err := d.Decide(ctx, call, &v); errors.Is(err, penstock.ErrInvalid) {
			return misused("%w", err)
		} else if err != nil {
			return failed(err)
		}
		if err := a.tellVerdict(&v); err != nil {
			return err
		}
		denied = denied || !v.Allowed
	}
	return exitWith(!denied)
}

func (a *app) tellVerdict(v *penstock.Verdict) error {
	if a.json() {
		var line bytes.Buffer
		if err := json.Compact(&line, wire.AppendVerdict(nil, v)); err != nil {
			return err
		}
		_, err := fmt.Fprintln(a.stdout, line.String())
		return err
	}
	_, err := fmt.Fprintln(a.stdout, verdictText(v))
	return err
}

// limitText formats a limit as rules do: 100 per 1m, and the capacity of a bucket.
func limitText(l *penstock.LimitVerdict) string {
	window := rules.Duration(l.Window)
	switch {
	case l.Algorithm == penstock.Concurrency:
		return fmt.Sprintf("%d at the same time", l.Limit)
	case l.Algorithm == penstock.LeakyBucket && l.Count > 0:
		return fmt.Sprintf("%d per %v, queue of %d", l.Count, window, l.Limit-1)
	case l.Algorithm == penstock.TokenBucket && l.Count > 0 && l.Count != l.Limit:
		return fmt.Sprintf("%d per %v, burst of %d", l.Count, window, l.Limit)
	}
	return fmt.Sprintf("%d per %v", l.Limit, window)
}

func verdictText(v *penstock.Verdict) string {
	parts := []string{"DENIED"}
	if v.Allowed {
		parts[0] = "ALLOWED"
	}
	if v.Rule == "" || v.Reason != penstock.ReasonOK && v.Reason != penstock.ReasonOverLimit {
		parts = append(parts, v.Reason.String())
	}
	if v.Rule != "" {
		parts = append(parts, v.Rule)
	}
	for _, l := range v.Limits {
		if l.Rule == v.Rule && l.Limit == v.Decision.Limit && l.Remaining == v.Decision.Remaining {
			parts = append(parts, limitText(&l), fmt.Sprintf("remaining %d", l.Remaining))
			break
		}
	}
	switch wait := v.Decision.RetryAfter; {
	case v.Allowed && v.Delay > 0:
		parts = append(parts, fmt.Sprintf("after %v", v.Delay.Round(time.Millisecond)))
	case v.Allowed:
	case wait == penstock.Never:
		parts = append(parts, "waiting does not help")
	case wait > 0:
		parts = append(parts, fmt.Sprintf("retry in %ds", int64((wait+time.Second-1)/time.Second)))
	}
	return strings.Join(parts, "  ")
}

// keyText formats a key, sorted by name.
func keyText(key map[string]string) string {
	if len(key) == 0 {
		return "[] (one for all)"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(key)) {
		shown := name
		if strings.ContainsFunc(name, isOddInName) {
			shown = strconv.Quote(name)
		}
		parts = append(parts, fmt.Sprintf("%s=%q", shown, key[name]))
	}
	return strings.Join(parts, " ")
}

// isOddInName reports whether the name of an attribute is quoted because of a character: clients of the decision API
// choose names freely, and could imitate other fields of a line.
func isOddInName(r rune) bool {
	return r <= ' ' || r == '=' || r == '"' || r >= unicode.MaxLatin1 || !unicode.IsPrint(r)
}
