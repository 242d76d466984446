package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os/signal"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/spelling"
)

func newTailCommand(a *app) *cobra.Command {
	var rule, node string
	var denied bool
	var most int
	c := &cobra.Command{
		Use:   "tail [name=value]",
		Short: "Print verdicts live",
		Long: `Print the verdicts of all nodes that share the limits, live, until interrupted. The nodes
filter by node, rule, denial or attribute. Under high load, nodes skip some requests and
report how many. Viewer tokens see hashes instead of attribute values.`,
		Example: `  penstock tail --denied
  penstock tail --rule search-per-user user=u1
  penstock tail -n 100 -o json | jq -r .rule | sort | uniq -c`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			query := url.Values{}
			call, err := (&callFlags{}).call(args)
			if err != nil {
				return err
			}
			for _, attribute := range call.Attributes {
				query.Set("attribute", attribute.Name)
				query.Set("value", attribute.Value)
			}
			if most < 0 {
				return misused("--lines %d must not be negative", most)
			}
			for name, value := range map[string]string{"rule": rule, "node": node} {
				if value != "" {
					query.Set(name, value)
				}
			}
			if denied {
				query.Set("denied", "true")
			}
			client, err := a.adminClient(c)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return a.tail(ctx, client, "/v1/events?"+query.Encode(), most)
		},
	}
	addAdminFlags(c)
	c.Flags().StringVar(&rule, "rule", "", "only verdicts of this `rule`")
	a.completeRules(c, "rule")
	c.Flags().StringVar(&node, "node", "", "only verdicts of this `node`, by its name or ID")
	c.Flags().BoolVar(&denied, "denied", false, "only denied requests")
	c.Flags().IntVarP(&most, "lines", "n", 0, "exit after `n` verdicts; 0: run until interrupted")
	return c
}

// errEnough ends a stream early.
var errEnough = errors.New("enough")

// tail prints a stream of verdicts.
func (a *app) tail(ctx context.Context, client *adminClient, path string, most int) error {
	printed := 0
	err := client.stream(ctx, path, func(event string, data []byte) error {
		switch event {
		case "dropped":
			fmt.Fprintf(a.stderr, "penstock: too many to print: %s\n", data)
			return nil
		case "verdict":
		default:
			return nil
		}
		if err := a.tellEvent(data); err != nil {
			return err
		}
		if printed++; printed == most {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) || ctx.Err() != nil {
		return nil
	}
	return err
}

func (a *app) tellEvent(data []byte) error {
	if a.json() {
		_, err := fmt.Fprintf(a.stdout, "%s\n", escapeJSON(data))
		return err
	}
	var e admin.Event
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("invalid event: %w", err)
	}
	_, err := fmt.Fprintln(a.stdout, eventText(&e))
	return err
}

// eventText formats a verdict in one line.
func eventText(e *admin.Event) string {
	parts := []string{e.At.Local().Format("15:04:05.000") + "  " + e.Node, "DENIED "}
	if e.Allowed {
		parts[1] = "ALLOWED"
	}
	if e.Rule != "" {
		parts = append(parts, e.Rule)
	}
	parts = append(parts, e.Reason.String(), keyText(e.Attributes))
	if !e.Allowed && e.RetryAfter != nil {
		parts = append(parts, "retry in "+(time.Duration(*e.RetryAfter)*time.Millisecond).Round(time.Second).String())
	}
	if len(e.Shadow) > 0 {
		parts = append(parts, "shadow: "+strings.Join(e.Shadow, ", "))
	}
	if e.Weight > 1 {
		parts = append(parts, fmt.Sprintf("(1 of %d)", e.Weight))
	}
	return spelling.Printable(strings.Join(parts, "  "))
}

// escapeJSON escapes the characters in a JSON text that a terminal would interpret, such as U+009B and U+202E, which
// encoders leave as they are.
func escapeJSON(data []byte) string {
	var b strings.Builder
	for _, r := range string(data) {
		switch {
		case r < utf8.RuneSelf || unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
