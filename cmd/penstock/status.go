package main

import (
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/spelling"
)

// nodeStatus is the status of a node, and of the nodes that share its limits.
type nodeStatus struct {
	admin.Status
	Nodes []admin.Node `json:"nodes"`
}

func newStatusCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the status of a node: store, circuit breaker, rules, certificates, nodes, upstream servers",
		Long: `Show the status of a running node: its store and circuit breaker, the rules it serves, the
quality of its verdicts, the days left of its certificates, the nodes that share its limits, and its
upstream servers. This uses the admin API (listen.admin); a viewer token is sufficient.

Exit status: 0 ready and connected to its store, 1 not ready or degraded, 3 no response.`,
		Example: `  export PENSTOCK_TOKEN=…
  penstock status
  penstock status --server https://penstock:8091 -o json | jq .store.breaker.state`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			found, err := a.readStatus(c)
			if err != nil {
				return err
			}
			if a.json() {
				err = a.writeJSON(found)
			} else {
				err = a.tellStatus(found)
			}
			if err == nil && (!found.Ready || !found.Store.Connected) {
				err = exitWithNo(nil)
			}
			return err
		},
	}
	addAdminFlags(c)
	return c
}

func (a *app) readStatus(c *cobra.Command) (*nodeStatus, error) {
	client, err := a.adminClient(c)
	if err != nil {
		return nil, err
	}
	var found nodeStatus
	var nodes admin.Nodes
	err = client.fetch(c.Context(), http.MethodGet, "/v1/status", nil, &found.Status)
	if err == nil {
		err = client.fetch(c.Context(), http.MethodGet, "/v1/nodes", nil, &nodes)
	}
	found.Nodes = nodes.Nodes
	return &found, err
}

func (a *app) tellStatus(s *nodeStatus) error {
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, spelling.Printable(fmt.Sprintf(format, args...)))
	}
	row("node", "%s, penstock %s, up %s", s.Node, s.Build.Version, shortDuration(time.Duration(s.Uptime*float64(time.Second))))
	row("ready", "%s", readyText(s.Ready, s.NotReady))
	row("store", "%s", storeText(&s.Store))
	if b := s.Store.Breaker; b != nil {
		row("breaker", "%s since %s, opened %s", b.State, b.Since.UTC().Format(time.RFC3339), times(b.Opened))
	}
	if l := s.Store.Losses; l != nil {
		row("data lost", "%s, last %s: counters and bans started from zero", times(l.Times), l.Last.UTC().Format(time.RFC3339))
	}
	row("rules", "%s", rulesText(&s.Rules))
	for _, n := range s.Nodes {
		if n.Self && n.About != nil {
			row("quality", "%s", qualityText(n.About.Quality, s.Store.SharedCounters))
			row("requests", "%.1f/s, %.1f/s denied", n.About.Calls, n.About.Denied)
		}
	}
	for i := range s.Certificates {
		row("certificate", "%s %s", s.Certificates[i].Listener, s.Certificates[i].Text(time.Now()))
	}
	row("nodes", "%s", spelling.Count(len(s.Nodes), "node"))
	for _, u := range s.Upstreams {
		row("upstream", "%s: %s", u.URL, upstreamText(u.Up, u.Error))
	}
	return table.Flush()
}

// qualityText says that decisions by shared counters are not what the quality says.
func qualityText(quality string, shared int64) string {
	if shared > 0 {
		return fmt.Sprintf("%s, but memory is full: clients share %s, and some are denied because of others; raise store.memory.max_bytes", quality, spelling.Count(int(shared), "counter"))
	}
	return quality
}

func readyText(ready bool, why string) string {
	if ready {
		return "yes"
	}
	return "no: " + why
}

func storeText(s *admin.StoreStatus) string {
	switch {
	case s.Kind == "memory":
		return "memory"
	case s.Connected:
		return s.Kind + ", connected"
	}
	return s.Kind + ", unavailable: " + s.Error
}

func rulesText(r *admin.RulesStatus) string {
	text := fmt.Sprintf("%s from %s, version %d since %s", spelling.Count(r.Rules, "rule"), r.Origin, r.Version, r.Since.UTC().Format(time.RFC3339))
	if r.FromCopy {
		text += ", from the local copy"
	}
	if r.Refused != "" {
		text += "; newer rules refused: " + r.Refused
	}
	if r.Error != "" {
		text += "; cannot read the origin: " + r.Error
	}
	return text
}

func upstreamText(up bool, problem string) string {
	if up {
		return "healthy"
	}
	return "unhealthy: " + problem
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// shortDuration rounds a duration for people.
func shortDuration(d time.Duration) string {
	if d >= time.Hour {
		return spelling.Duration(d.Round(time.Minute))
	}
	return spelling.Duration(d.Round(time.Second))
}

func newNodesCommand(a *app) *cobra.Command {
	return adminCommand(a, &cobra.Command{
		Use:   "nodes",
		Short: "List the nodes that share the limits",
		Long: `List the nodes that share the limits through Redis, as known to the queried node: version,
rules, quality of verdicts, requests per second. With counters in memory there is only one
node.`,
		Example: `  penstock nodes
  penstock nodes -o json | jq '.nodes[] | select(.about.rules != "current")'`,
		Args: cobra.NoArgs,
	}, get("/v1/nodes"), func(found *admin.Nodes) error { return a.tellNodes(found, time.Now()) })
}

func (a *app) tellNodes(found *admin.Nodes, now time.Time) error {
	return a.writeTable("NODE\tVERSION\tUP\tRULES\tQUALITY\tREQUESTS/S\tDENIED/S\tHEARD", func(table io.Writer) {
		for _, n := range found.Nodes {
			heard := fmt.Sprintf("%.0fs ago", n.Heard)
			if n.Self {
				heard = "this node"
			}
			if n.Silent {
				heard += ", silent"
			}
			if n.About == nil {
				fmt.Fprintf(table, "%s\t?\t?\t?\t?\t?\t?\t%s\n", spelling.Printable(n.ID), heard)
				continue
			}
			b := n.About
			fmt.Fprintf(table, "%s\t%s\t%s\t%d, %s\t%s\t%.1f\t%.1f\t%s\n", spelling.Printable(b.Name), spelling.Printable(b.Version), shortDuration(now.Sub(b.Started)),
				b.RulesVersion, b.Rules, b.Quality, b.Calls, b.Denied, heard)
		}
	})
}
