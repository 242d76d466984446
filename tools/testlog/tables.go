package main

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// The tables have at most this many packages and tests, and as many names of tests for each reason.
const (
	maxRows  = 15
	maxNames = 3
)

// printTables prints what took longest, what was skipped and why, and what failed.
func printTables(out io.Writer, all []result) {
	slices.SortStableFunc(all, func(a, b result) int { return cmp.Compare(b.Seconds, a.Seconds) })
	fmt.Fprintln(out, "slowest packages:")
	for _, r := range all[:min(maxRows, len(all))] {
		verdict := "ok  "
		if r.Failed {
			verdict = "FAIL"
		}
		fmt.Fprintf(out, "%s\t%s\t%.3fs\t(%s)\n", verdict, r.Package, r.Seconds, r.part)
	}
	printSlowest(out, all)
	printSkipped(out, all)
	first := true
	for _, r := range all {
		if r.Failed && first {
			fmt.Fprintln(out, "failed:")
			first = false
		}
		if r.Failed {
			fmt.Fprintf(out, "FAIL\t%s\t(%s) %s\n", r.Package, r.part, strings.Join(r.Broken, " "))
		}
	}
}

func printSlowest(out io.Writer, all []result) {
	type row struct {
		testTime
		where string
	}
	var rows []row
	for _, r := range all {
		for _, t := range r.Tests {
			rows = append(rows, row{t, fmt.Sprintf("%s (%s)", r.Package, r.part)})
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.Seconds, a.Seconds) })
	fmt.Fprintln(out, "slowest tests:")
	for _, r := range rows[:min(maxRows, len(rows))] {
		fmt.Fprintf(out, "%8.2fs  %s  %s\n", r.Seconds, r.Test, r.where)
	}
}

func printSkipped(out io.Writer, all []result) {
	byReason := map[string][]string{}
	total := 0
	for _, r := range all {
		for _, s := range r.Skipped {
			byReason[s.Reason] = append(byReason[s.Reason], fmt.Sprintf("%s.%s (%s)", path.Base(r.Package), s.Test, r.part))
			total++
		}
	}
	reasons := make([]string, 0, len(byReason))
	for reason := range byReason {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(byReason[b]), len(byReason[a])), strings.Compare(a, b))
	})
	fmt.Fprintf(out, "skipped: %d\n", total)
	for _, reason := range reasons {
		tests := byReason[reason]
		names := strings.Join(tests[:min(maxNames, len(tests))], ", ")
		if len(tests) > maxNames {
			names += ", …"
		}
		fmt.Fprintf(out, "%6d  %s: %s\n", len(tests), reason, names)
	}
}
