package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/admin"
)

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
