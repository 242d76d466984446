package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/spelling"
	"github.com/penstock-io/penstock/rules"
)

func newExplainCommand(a *app) *cobra.Command {
	var origin originFlags
	var flags callFlags
	var at string
	c := &cobra.Command{
		Use:   "explain [--server URL | --config FILE | --rules FILE|DIR | --database SOURCE] name=value...",
		Short: "Explain which rules apply to a request, and whether its client is over a limit or banned",
		Long: `Explain which rules apply to a request, with which key and limits, and why the others do
not. Nothing is charged.

A running server also says whether the client is over its limit or banned, and until when;
this uses the admin API with the token in PENSTOCK_TOKEN. With --config, --rules or
--database no server is needed, and only the rules are explained.

Describe the request by its attributes: method, path, host, ip, and those that the rules
read from headers, cookies and so on, under the names in the rules.`,
		Example: `  penstock explain method=POST path=/login ip=198.51.100.7
  penstock explain --server https://penstock:8091 user=u1 -o json
  penstock explain --config penstock.yaml path=/search user=u1 plan=gold
  penstock explain --rules rules.yaml --at 2027-01-01T00:00:00Z path=/ -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			call, err := flags.call(args)
			if err != nil {
				return err
			}
			now := time.Now()
			if at != "" {
				if now, err = time.Parse(time.RFC3339, at); err != nil {
					return misused("invalid --at %q, for example 2027-01-01T00:00:00Z", at)
				}
			}
			if !origin.areSet() {
				found, err := a.explainByServer(c, call, now, at != "")
				if err != nil {
					return err
				}
				return a.tellExplained(found)
			}
			snapshot, err := origin.compile(c.Context(), a)
			if err != nil {
				return err
			}
			return a.tellExplained(&explainResult{Explanation: admin.Explain(snapshot, call, penstock.InstantOf(now), nil)})
		},
	}
	flags.add(c)
	addAdminFlags(c)
	origin.add(c)
	c.MarkFlagsMutuallyExclusive("server", "rules", "database", "database-file", "config")
	c.Flags().StringVar(&at, "at", "", "the `time` of the request, for rules that expire; default now")
	return c
}

func (a *app) tellExplained(e *explainResult) error {
	if a.json() {
		return a.writeJSON(e)
	}
	if e.Block != nil {
		fmt.Fprintf(a.stdout, "An operator has blocked this client until %s: %s. Without the block:\n", e.Block.Until.Format(time.RFC3339), spelling.Printable(e.Block.Reason))
	}
	if e.List != "" {
		fmt.Fprintf(a.stdout, "The %s list decides, with entry %d. Without it:\n", e.List, e.Entry)
	}
	table := newTable(a.stdout, "RULE\tAPPLIES\tWHY")
	applying := 0
	for i := range e.Rules {
		r := &e.Rules[i]
		answer := "no"
		if r.Applies {
			answer = "yes"
			applying++
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", r.Rule, answer, reasons(r))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for i := range e.Now {
		fmt.Fprintln(a.stdout, e.Now[i].text())
	}
	verb := "apply"
	if applying == 1 {
		verb = "applies"
	}
	fmt.Fprintf(a.stderr, "%d of %s %s\n", applying, spelling.Count(len(e.Rules), "rule"), verb)
	return nil
}

// reasons returns the line of a rule: why it does not match, or what it does.
func reasons(r *admin.RuleExplanation) string {
	if !r.Applies {
		return r.Why
	}
	var parts []string
	if r.Mode == rules.Shadow.String() {
		parts = append(parts, "only tried (shadow)")
	}
	parts = append(parts, "key "+keyText(r.Key))
	if r.Override != nil {
		override := fmt.Sprintf("override %d", *r.Override)
		if r.Own {
			override += ", with its own counters"
		}
		parts = append(parts, override)
	}
	if r.Unlimited {
		parts = append(parts, "unlimited")
	}
	for i, limit := range r.Limits {
		if i < len(r.Numbers) {
			limit += originText(&r.Numbers[i])
		}
		parts = append(parts, limit)
	}
	parts = append(parts, r.Response...)
	return strings.Join(append(parts, r.Failures...), "; ")
}

// originText says where the number of a limit comes from, unless it is simply the document's.
func originText(n *admin.Number) string {
	text := ""
	switch {
	case n.Reason != "":
		text = "default: " + n.Why
	case n.Source != "":
		text = fmt.Sprintf("from the %s %s, value %.64q", n.Origin, n.Source, n.Value)
	}
	if n.Until != nil {
		text = strings.TrimSpace(text + " until " + n.Until.Format(time.RFC3339))
	}
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// explainResult is how rules treat a request and, if a server was asked, the current state of its client.
type explainResult struct {
	*admin.Explanation
	Now []clientState `json:"now,omitempty"`
}

// States of a client.
const (
	withinLimit = "within_limit"
	overLimit   = "over_limit"
	banned      = "banned"
)

// clientState is the state of a client under one rule that applies.
type clientState struct {
	Rule   string     `json:"rule"`
	State  string     `json:"state"`
	Until  *time.Time `json:"until,omitempty"`  // the end of the ban, or the latest time at which the limit has reset
	Policy string     `json:"policy,omitempty"` // the limit with the least remaining
	Used   int64      `json:"used"`
	Limit  int64      `json:"limit"`
}

func (s *clientState) text() string {
	until := ""
	if s.Until != nil {
		until = s.Until.Format(time.RFC3339)
	}
	switch {
	case s.State == banned:
		return fmt.Sprintf("%s: banned until %s", s.Rule, until)
	case s.State == overLimit && until != "":
		return fmt.Sprintf("%s: over its limit, %d of %d used (%s); reset by %s", s.Rule, s.Used, s.Limit, s.Policy, until)
	case s.State == overLimit:
		return fmt.Sprintf("%s: over its limit, %d of %d used (%s)", s.Rule, s.Used, s.Limit, s.Policy)
	}
	return fmt.Sprintf("%s: within its limit, %d of %d used (%s)", s.Rule, s.Used, s.Limit, s.Policy)
}

// explainByServer asks a node how its rules treat a request and, unless other is set, for the state of the
// client.
func (a *app) explainByServer(c *cobra.Command, call *penstock.Call, now time.Time, other bool) (*explainResult, error) {
	client, err := a.adminClient(c)
	if err != nil {
		return nil, err
	}
	question := struct {
		callerQuestion
		At time.Time `json:"at"`
	}{callerQuestion{Domain: call.Domain, Attributes: map[string]string{}}, now}
	for _, attribute := range call.Attributes {
		question.Attributes[attribute.Name] = attribute.Value
	}
	found := &explainResult{}
	if err := client.fetch(c.Context(), http.MethodPost, "/v1/explain", question, &found.Explanation); err != nil || other {
		return found, err
	}
	for _, r := range found.Rules {
		if !r.Applies || r.Unlimited || len(r.Limits) == 0 {
			continue
		}
		question.Rule = r.Rule
		var states admin.KeyStates
		if err := client.fetch(c.Context(), http.MethodPost, "/v1/keys/show", question.callerQuestion, &states); err != nil {
			return nil, err
		}
		for i := range states.Keys {
			found.Now = append(found.Now, stateOf(&states.Keys[i], now))
		}
	}
	return found, nil
}

// stateOf sums up the state of a client under a rule.
func stateOf(k *admin.KeyState, now time.Time) clientState {
	s := clientState{Rule: k.Rule, State: withinLimit}
	for i, l := range k.Limits {
		if i > 0 && l.Remaining >= s.Limit-s.Used {
			continue
		}
		s.Policy, s.Used, s.Limit, s.Until = l.Policy, l.Used, l.Limit, nil
		if s.State = withinLimit; l.Remaining > 0 {
			continue
		}
		if s.State = overLimit; l.ResetAfter != nil {
			s.Until = new(now.Add(time.Duration(*l.ResetAfter) * time.Millisecond).UTC().Round(time.Second))
		}
	}
	if k.BannedUntil != nil {
		s.State, s.Until = banned, k.BannedUntil
	}
	return s
}
