// Package entitlements measures the table of entitlements: how long a node takes to load it, what a row costs in
// memory, how long a lookup takes, and how long it takes from a saved row until three nodes decide by it.
//
// It is separate because it has no peers.
package entitlements

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/internal/entitlement"
	"github.com/penstock-io/penstock/internal/pgtest"
	"github.com/penstock-io/penstock/internal/poll"
	"github.com/penstock-io/penstock/internal/ruledb"
)

// Options configure how much is measured.
type Options struct {
	Rows    int
	Changes int
	Stderr  *os.File // for progress
}

// Columns of the table.
const (
	importing = iota
	loading
	heap
	lookup
	worst
	columns
)

// target is how long a change may take until three nodes decide by it.
const target = time.Second

// Measure runs the benchmark.
func Measure(ctx context.Context, o Options) (s report.Section, err error) {
	progress := report.Begin(o.Stderr, "entitlements", 2)
	defer progress.End()
	postgres, err := pgtest.Launch(ctx, "fsync=on")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, postgres.Close()) }()
	shared, err := postgres.Database(ctx)
	if err != nil {
		return s, err
	}
	dir, err := os.MkdirTemp("", "penstock-bench-")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	s = report.Section{Name: "entitlements", Title: fmt.Sprintf("A table of %d entitlements", o.Rows)}
	table := report.Table{Title: "From the database to three nodes", Columns: []report.Column{
		importing: {Name: "import", Unit: "s", Better: report.Less},
		loading:   {Name: "load", Unit: "s", Better: report.Less},
		heap:      {Name: "memory", Unit: "B/row", Better: report.Less},
		lookup:    {Name: "lookup", Unit: "ns", Better: report.Less},
		worst:     {Name: "slowest change", Unit: "ms", Better: report.Less},
	}}
	for _, database := range []struct{ name, source string }{{"SQLite", "sqlite:" + filepath.Join(dir, "rules.db")}, {"PostgreSQL", shared}} {
		progress.Step("%s", database.name)
		values, err := measure(ctx, database.source, o)
		if err != nil {
			return s, fmt.Errorf("%s: %w", database.name, err)
		}
		table.Rows = append(table.Rows, report.Row{Name: database.name, Role: report.Ours, Values: values})
		fmt.Fprintf(os.Stderr, "entitlements: %s: %d rows, %.1f bytes a row\n", database.name, o.Rows, values[heap])
	}
	s.Tables = append(s.Tables, table)
	s.Notes = append(s.Notes, fmt.Sprintf("A change should reach three nodes within %v. Memory is that of one node.", target))
	return s, nil
}

func measure(ctx context.Context, source string, o Options) ([]float64, error) {
	values := make([]float64, columns)
	writer, err := ruledb.NewOrigin(source, ruledb.Options{})
	if err != nil {
		return nil, err
	}
	defer writer.Close()
	start := time.Now()
	if err := fill(ctx, writer, o.Rows); err != nil {
		return nil, err
	}
	values[importing] = time.Since(start).Seconds()

	var nodes []*entitlement.Entitlements
	for range 3 {
		origin, err := ruledb.NewOrigin(source, ruledb.Options{})
		if err != nil {
			return nil, err
		}
		defer origin.Close()
		before := heapBytes()
		start := time.Now()
		node, err := entitlement.Follow(ctx, origin, entitlement.Options{Timeout: time.Hour})
		if err != nil {
			return nil, err
		}
		defer node.Close()
		values[loading] = time.Since(start).Seconds()
		if status := node.Status(); status.Err != nil || status.Rows != o.Rows {
			return nil, fmt.Errorf("a node has %d of %d rows: %w", status.Rows, o.Rows, status.Err)
		}
		values[heap] = float64(heapBytes()-before) / float64(o.Rows)
		nodes = append(nodes, node)
	}
	const lookups = 1_000_000
	start = time.Now()
	for range lookups {
		nodes[0].Entitlement("tenant", "tenant-7", "requests")
	}
	values[lookup] = float64(time.Since(start).Nanoseconds()) / lookups
	values[worst], err = change(ctx, writer, nodes, o.Changes)
	return values, err
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func row(tenant int, number int64) ruledb.Entitlement {
	return ruledb.Entitlement{EntitlementKey: ruledb.EntitlementKey{Attribute: "tenant", Value: fmt.Sprint("tenant-", tenant), Name: "requests"}, Number: number}
}

func fill(ctx context.Context, origin *ruledb.Origin, rows int) error {
	db, err := origin.DB(ctx)
	if err != nil {
		return err
	}
	all := make([]ruledb.Entitlement, rows)
	for i := range all {
		all[i] = row(i, int64(i))
	}
	for part := range slices.Chunk(all, ruledb.MaxEntitlementChange) {
		if _, err := db.SaveEntitlements(ctx, ruledb.EntitlementChange{Set: part, Author: "bench"}); err != nil {
			return err
		}
	}
	return nil
}

// change saves rows one by one, and returns how many milliseconds the slowest took from its acknowledgement until all
// nodes had it.
func change(ctx context.Context, origin *ruledb.Origin, nodes []*entitlement.Entitlements, changes int) (slowest float64, err error) {
	db, err := origin.DB(ctx)
	if err != nil {
		return 0, err
	}
	for i := range changes {
		number := int64(1_000_000 + i)
		if _, err := db.SaveEntitlements(ctx, ruledb.EntitlementChange{Set: []ruledb.Entitlement{row(7, number)}, Author: "bench"}); err != nil {
			return 0, err
		}
		start := time.Now()
		behind := func(n *entitlement.Entitlements) bool {
			e, _ := n.Entitlement("tenant", "tenant-7", "requests")
			return e.Number != number
		}
		for slices.ContainsFunc(nodes, behind) {
			if err := poll.Pause(ctx, time.Millisecond); err != nil {
				return 0, err
			}
		}
		slowest = max(slowest, float64(time.Since(start).Microseconds())/1000)
	}
	return slowest, nil
}
