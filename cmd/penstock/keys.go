package main

import (
	"github.com/spf13/cobra"
)

func newKeysCommand(a *app) *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "keys",
		Short: "Inspect, reset and ban individual clients",
		Long: `Inspect the counters of individual clients of a running server, reset them, ban clients and
lift bans.

Identify a client by the attributes in the keys of rules: user=u1, ip=198.51.100.7. The
command covers all rules whose key these attributes complete, regardless of their other
conditions; --rule selects one of them.

These commands use the admin API (listen.admin) with admin.token or an API token. With
admin.viewer_token only list works, with hashes instead of keys. Set the token in
PENSTOCK_TOKEN rather than with --token, which is visible in the process list.`,
		Example: `  export PENSTOCK_TOKEN=…                      # a server without admin.token prints one on first start
  penstock keys list search-per-user            # clients with counters
  penstock keys show user=u1                    # used, limit, when it resets, bans
  penstock keys reset user=u1 --rule search-per-user
  penstock keys ban ip=198.51.100.7 --for 1h
  penstock keys lift ip=198.51.100.7`,
	}, newKeysListCommand(a), newKeysShowCommand(a), newKeysResetCommand(a), newKeysBanCommand(a), newKeysLiftCommand(a))
}

// callerFlags identify a client.
type callerFlags struct{ rule, domain string }

func (f *callerFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.rule, "rule", "", "only this `rule`")
	c.Flags().StringVar(&f.domain, "domain", "", "only rules of this domain")
}

// A callerQuestion is a request about one client.
type callerQuestion struct {
	Rule       string            `json:"rule,omitempty"`
	Domain     string            `json:"domain,omitempty"`
	Attributes map[string]string `json:"attributes"`
	Duration   string            `json:"duration,omitempty"`
	Reason     string            `json:"reason,omitempty"`
}

// question builds a callerQuestion from name=value arguments.
func (f *callerFlags) question(args []string) (*callerQuestion, error) {
	call, err := (&callFlags{}).call(args)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 && f.rule == "" {
		return nil, misused("no client given: identify one by an attribute, for example user=u1")
	}
	q := &callerQuestion{Rule: f.rule, Domain: f.domain, Attributes: map[string]string{}}
	for _, attribute := range call.Attributes {
		q.Attributes[attribute.Name] = attribute.Value
	}
	return q, nil
}
