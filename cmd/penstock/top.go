package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/poll"
	"github.com/penstock-io/penstock/internal/spelling"
	"github.com/penstock-io/penstock/rules"
)

// topOrders are the columns by which rules can be sorted.
var topOrders = []string{"denied", "requests", "keys", "rule"}

func newTopCommand(a *app) *cobra.Command {
	var last, order, node string
	c := &cobra.Command{
		Use:   "top",
		Short: "Show the busiest rules, refreshed every second",
		Long: `Show the rules with their requests, percentage denied and most denied clients, refreshed
every second. q quits, s changes the order. If the output is not a terminal, or with -o json,
it prints once and exits.

The numbers cover all nodes that share the limits. The queried node collects them; the first
line says if a node does not respond. --node shows one node.`,
		Example: `  penstock top
  penstock top --last 15m --sort requests
  penstock top --node north
  penstock top -o json | jq '.stats.rules[0]'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !slices.Contains(topOrders, order) {
				return misused("invalid --sort %q: must be one of %s", order, strings.Join(topOrders, ", "))
			}
			if d, err := rules.ParseDuration(last); err != nil || d <= 0 {
				return misused("invalid --last %q, for example 1m", last)
			}
			client, err := a.adminClient(c)
			if err != nil {
				return err
			}
			query := url.Values{"last": {last}}
			if node != "" {
				query.Set("node", node)
			}
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return a.top(ctx, &topScreen{client: client, path: "/v1/overview?" + query.Encode(), view: topView{Last: last, order: order}})
		},
	}
	addAdminFlags(c)
	c.Flags().StringVar(&last, "last", "1m", "`duration` that the numbers cover, up to 1h")
	c.Flags().StringVar(&order, "sort", topOrders[0], "`order` of rules: "+strings.Join(topOrders, ", "))
	c.Flags().StringVar(&node, "node", "", "only this `node`, by its name or ID")
	completeValues(c, "sort", topOrders...)
	completeValues(c, "last", "1m", "5m", "15m", "1h")
	return c
}

// topView is what the screen shows.
type topView struct {
	Last   string        `json:"last"`
	Stats  *admin.Stats  `json:"stats"`
	Status *admin.Status `json:"status"`
	Nodes  *admin.Nodes  `json:"nodes"`

	order   string
	problem error // why there is no new data
}

// update applies an event of the overview. It returns true when all parts of a refresh have arrived.
func (v *topView) update(event string, data []byte) (complete bool, err error) {
	switch event {
	case "stats":
		v.Stats = nil
		return false, json.Unmarshal(data, &v.Stats)
	case "status":
		v.Status = nil
		return false, json.Unmarshal(data, &v.Status)
	case "nodes":
		v.Nodes, v.problem = nil, nil
		return true, json.Unmarshal(data, &v.Nodes)
	}
	return false, nil
}

// seconds returns the period that the numbers cover.
func (v *topView) seconds() float64 {
	return max(1, min(v.Stats.To.Sub(v.Stats.From).Seconds(), v.Status.Uptime))
}

// sorted returns the rules in the chosen order.
func (v *topView) sorted() []admin.RuleStats {
	all := slices.Clone(v.Stats.Rules)
	slices.SortStableFunc(all, func(a, b admin.RuleStats) int {
		switch v.order {
		case "requests":
			return cmp.Compare(b.Total.Allowed+b.Total.Denied, a.Total.Allowed+a.Total.Denied)
		case "keys":
			return cmp.Compare(b.DistinctKeys, a.DistinctKeys)
		case "rule":
			return strings.Compare(a.Rule, b.Rule)
		}
		return cmp.Compare(b.Total.Denied, a.Total.Denied)
	})
	return all
}

// lines renders the view, with no line wider than the width.
func (v *topView) lines(width, height int) []string {
	s, seconds := v.Status, v.seconds()
	breaker := ""
	if s.Store.Breaker != nil {
		breaker = ", circuit breaker " + s.Store.Breaker.State
	}
	total := v.Stats.Total
	lines := []string{
		fmt.Sprintf("penstock top  %s  store %s%s  rules version %d  %s", s.Node, storeText(&s.Store), breaker, s.Rules.Version, nodesText(v.Stats.Nodes)),
		fmt.Sprintf("last %s: %.1f requests/s  %.1f denied/s (%s)  p50 %v  p99 %v", v.Last, float64(total.Allowed+total.Denied)/seconds, float64(total.Denied)/seconds,
			share(total.Denied, total.Allowed), time.Duration(v.Stats.Latency.P50)*time.Microsecond, time.Duration(v.Stats.Latency.P99)*time.Microsecond),
		"",
		fmt.Sprintf("%-32s %12s %10s %8s %8s  %s", "RULE", "REQUESTS/S", "DENIED/S", "DENIED", "KEYS", "MOST DENIED"),
	}
	for _, r := range v.sorted() {
		key := ""
		if len(r.Top) > 0 && r.Top[0].Denied > 0 {
			key = fmt.Sprintf("%s (%d)", keyText(r.Top[0].Key), r.Top[0].Denied)
		}
		lines = append(lines, fmt.Sprintf("%-32s %12.1f %10.1f %8s %8d  %s", r.Rule, float64(r.Total.Allowed+r.Total.Denied)/seconds, float64(r.Total.Denied)/seconds,
			share(r.Total.Denied, r.Total.Allowed), r.DistinctKeys, key))
	}
	footer := "q quit  s sort: " + v.order
	if v.problem != nil {
		footer = "disconnected, retrying: " + v.problem.Error()
	}
	lines = append(lines[:min(len(lines), max(4, height-1))], footer)
	for i := range lines {
		lines[i] = cut(spelling.Printable(lines[i]), width)
	}
	return lines
}

// nodesText says how many nodes the numbers are of, and which are missing.
func nodesText(asked []admin.AskedNode) string {
	answered, missing := 0, []string{}
	for _, n := range asked {
		if n.Answered {
			answered++
		} else {
			missing = append(missing, n.Name)
		}
	}
	text := spelling.Count(answered, "node")
	if len(missing) > 0 {
		text += fmt.Sprintf(" of %d, no answer from %s", len(asked), strings.Join(missing, ", "))
	}
	return text
}

func share(denied, allowed int64) string {
	if denied+allowed == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(denied)/float64(denied+allowed))
}

// cut shortens a line to a width.
func cut(line string, width int) string {
	if text := []rune(line); len(text) > width {
		return string(text[:max(0, width)])
	}
	return line
}

// topScreen follows the overview of a node.
type topScreen struct {
	client *adminClient
	path   string
	view   topView
}

// top shows the overview on a terminal until the user quits, or else prints it once.
func (a *app) top(ctx context.Context, s *topScreen) error {
	in, inOK := a.stdin.(*os.File)
	out, outOK := a.stdout.(*os.File)
	if a.json() || !inOK || !outOK || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return a.topOnce(ctx, s)
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("prepare the terminal: %w", err)
	}
	fmt.Fprint(out, "\x1b[?1049h\x1b[?25l") // another screen, without a cursor
	defer func() {
		fmt.Fprint(out, "\x1b[?25h\x1b[?1049l")
		_ = term.Restore(int(in.Fd()), before) // the program ends anyway
	}()
	return s.run(ctx, in, out)
}

// topOnce prints the first refresh.
func (a *app) topOnce(ctx context.Context, s *topScreen) error {
	err := s.client.stream(ctx, s.path, func(event string, data []byte) error {
		complete, err := s.view.update(event, data)
		if complete && err == nil {
			err = errEnough
		}
		return err
	})
	if !errors.Is(err, errEnough) {
		return err
	}
	if a.json() {
		return a.writeJSON(&s.view)
	}
	lines := s.view.lines(1<<10, 1<<10)
	_, err = fmt.Fprintln(a.stdout, strings.Join(lines[:len(lines)-1], "\n"))
	return err
}

// topUpdate is an event of the overview, or the error that ended the stream.
type topUpdate struct {
	event string
	data  []byte
	err   error
}

// run renders every refresh and handles keys until q.
func (s *topScreen) run(ctx context.Context, in io.Reader, out *os.File) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	updates, keys := make(chan topUpdate), make(chan byte)
	go s.follow(ctx, updates)
	go readKeys(ctx, in, keys)
	for {
		select {
		case <-ctx.Done():
			return nil
		case u := <-updates:
			complete, err := s.view.update(u.event, u.data)
			if err = errors.Join(u.err, err); err != nil && s.view.Nodes == nil {
				return err
			}
			s.view.problem = cmp.Or(err, s.view.problem)
			if complete || err != nil {
				s.draw(out)
			}
		case key := <-keys:
			if s.handleKey(key) {
				return nil
			}
			s.draw(out)
		}
	}
}

// follow sends the events of the overview until the context ends. It reopens a stream that breaks.
func (s *topScreen) follow(ctx context.Context, updates chan<- topUpdate) {
	send := func(u topUpdate) error {
		select {
		case updates <- u:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for {
		err := s.client.stream(ctx, s.path, func(event string, data []byte) error {
			return send(topUpdate{event: event, data: slices.Clone(data)})
		})
		if send(topUpdate{err: err}) != nil || poll.Pause(ctx, time.Second) != nil {
			return
		}
	}
}

// readKeys sends typed keys until the context ends.
func readKeys(ctx context.Context, in io.Reader, keys chan<- byte) {
	for key := make([]byte, 1); ; {
		if n, err := in.Read(key); err != nil || n == 0 {
			return
		}
		select {
		case keys <- key[0]:
		case <-ctx.Done():
			return
		}
	}
}

// handleKey handles a key. It returns true for those that quit.
func (s *topScreen) handleKey(key byte) (quit bool) {
	const interrupt = 3 // Ctrl-C
	switch key {
	case 'q', 'Q', interrupt:
		return true
	case 's':
		s.view.order = topOrders[(slices.Index(topOrders, s.view.order)+1)%len(topOrders)]
	}
	return false
}

func (s *topScreen) draw(out *os.File) {
	if s.view.Stats == nil || s.view.Status == nil || s.view.Nodes == nil {
		return
	}
	width, height, err := term.GetSize(int(out.Fd()))
	if err != nil {
		width, height = 80, 24
	}
	fmt.Fprintf(out, "\x1b[H%s\x1b[K\x1b[J", strings.Join(s.view.lines(width, height), "\x1b[K\r\n"))
}
