package envoy

import (
	"fmt"

	"github.com/penstock-io/penstock/bench/report"
)

const saturation = "saturation" // a figure computed from others

// add writes the results for a traffic, and the goals: clearly ahead of the best peer.
func (b *bench) add(s *report.Section, t traffic, rate float64) {
	most, keys := callers[len(callers)-1], report.Figure(float64(len(b.keysOf(t))))
	columns := []report.Column{{Name: saturation, Unit: "/s", Better: report.More}}
	for _, n := range callers {
		columns = append(columns, report.Column{Name: perSecond(n), Unit: "/s", Better: report.More})
	}
	atSpeed := b.table(t, fmt.Sprintf("Every call %s, of %s keys; callers that ask again at once; processor time and latency with %d", t.name, keys, most), "", append(columns, costs...))
	onTime := b.table(t, fmt.Sprintf("Every call %s, of %s keys; %s/s at fixed instants; latency from the scheduled instant", t.name, keys, report.Figure(rate)), scheduled, costs)
	s.Tables = append(s.Tables, atSpeed, onTime)
	for _, g := range []struct {
		name   string
		table  *report.Table
		figure string
	}{
		{"decisions/s at saturation", &atSpeed, saturation},
		{"server CPU per decision at saturation", &atSpeed, serverCPU},
		{"server CPU per decision at fixed instants", &onTime, serverCPU},
		{"p99 at saturation", &atSpeed, p99},
		{"p99 at fixed instants", &onTime, p99},
	} {
		s.Goals = append(s.Goals, report.Goal{
			Name: fmt.Sprintf("envoy, %s: %s, times better than the best", t.name, g.name), Bound: report.AtLeast, Want: 1.2, Unit: "×",
			Measured: g.table.Ratio(headline, columnOf(g.table, g.figure)),
		})
	}
	s.Goals = append(s.Goals, report.Goal{
		Name: fmt.Sprintf("envoy, %s: server CPU per decision at saturation vs %s", t.name, bareGRPC), Bound: report.AtMost, Want: 1.15, Unit: "×",
		Measured: atSpeed.Value(headline, columnOf(&atSpeed, serverCPU)) / atSpeed.Value(bareGRPC, columnOf(&atSpeed, serverCPU)),
	})
}

var costs = []report.Column{
	{Name: serverCPU, Unit: "µs", Better: report.Less},
	{Name: redisCPU, Unit: "µs", Better: report.Less},
	{Name: p50, Unit: "ms", Better: report.Less},
	{Name: p99, Unit: "ms", Better: report.Less},
}

func (b *bench) table(t traffic, title, prefix string, columns []report.Column) report.Table {
	table := report.Table{Title: title, Columns: append([]report.Column(nil), columns...)}
	for _, r := range b.runners {
		row := report.Row{Name: r.name, Role: r.role}
		for _, c := range columns {
			if c.Name == saturation {
				row.Values = append(row.Values, r.saturation(t.name))
			} else {
				row.Values = append(row.Values, r.Median(t.name, prefix+c.Name))
			}
		}
		table.Rows = append(table.Rows, row)
	}
	table.AgainstBestPeer()
	return table
}

func columnOf(t *report.Table, name string) int {
	for i, c := range t.Columns {
		if c.Name == name {
			return i
		}
	}
	panic("no column " + name)
}
