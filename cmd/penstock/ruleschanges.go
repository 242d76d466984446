package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/penstock-io/penstock/internal/rulediff"
)

var opMarks = map[string]string{rulediff.Add: "+", rulediff.Alter: "~", rulediff.Remove: "-"}

// writeChanges writes one line for each change, and their number.
func writeChanges(w io.Writer, changes []rulediff.Change) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	counts := map[string]int{}
	for _, c := range changes {
		counts[c.Op]++
		name := c.Name
		if c.Kind != "rule" {
			name = strings.TrimSpace(c.Kind + " " + name)
		}
		if len(c.Fields) == 0 {
			fmt.Fprintf(table, "%s %s\t%s\n", opMarks[c.Op], name, c.Value)
		}
		for i, f := range c.Fields {
			start := opMarks[c.Op] + " " + name
			if i > 0 {
				start = ""
			}
			fmt.Fprintf(table, "%s\t%s %s → %s\n", start, f.Field, cmp.Or(f.From, "(none)"), cmp.Or(f.To, "(none)"))
		}
	}
	table.Flush()
	fmt.Fprintf(w, "%d to add, %d to change, %d to remove\n", counts[rulediff.Add], counts[rulediff.Alter], counts[rulediff.Remove])
}
