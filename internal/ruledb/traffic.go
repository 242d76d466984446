package ruledb

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
)

// A TrafficMinute is what one node counted in one minute. This package does not read the counts.
type TrafficMinute struct {
	Minute int64 // since 1970
	Node   string
	Name   string // of the node, for people
	Counts []byte
}

// Bounds of a TrafficMinute.
const (
	maxTrafficNode   = 64
	maxTrafficCounts = 256 << 10
)

// SaveTraffic saves what a node counted, instead of what was saved of the same minutes before.
func (db *DB) SaveTraffic(ctx context.Context, minutes ...TrafficMinute) error {
	for _, m := range minutes {
		if m.Node == "" || len(m.Node) > maxTrafficNode || len(m.Name) > maxTrafficNode || len(m.Counts) > maxTrafficCounts {
			return fmt.Errorf("save traffic: %w: a node of %d bytes with a name of %d and counts of %d, must be at most %d, %d and %d",
				penstock.ErrInvalid, len(m.Node), len(m.Name), len(m.Counts), maxTrafficNode, maxTrafficNode, maxTrafficCounts)
		}
	}
	return db.inTransaction(ctx, "save traffic in", func(tx *sql.Tx) error {
		for _, m := range minutes {
			if _, err := tx.ExecContext(ctx, `INSERT INTO traffic_minutes (minute, node, name, counts) VALUES ($1, $2, $3, $4)
				ON CONFLICT (minute, node) DO UPDATE SET counts = excluded.counts`, m.Minute, m.Node, m.Name, m.Counts); err != nil {
				return err
			}
		}
		return nil
	})
}

// Traffic calls each with what all nodes counted from one minute to before another, in order of time. It stops at an
// error of each.
func (db *DB) Traffic(ctx context.Context, from, to int64, each func(TrafficMinute) error) error {
	var refused error
	err := eachRow(ctx, db.sql, `SELECT minute, node, name, counts FROM traffic_minutes WHERE minute >= $1 AND minute < $2 ORDER BY minute, node`, []any{from, to},
		func(m *TrafficMinute) []any { return []any{&m.Minute, &m.Node, &m.Name, &m.Counts} },
		func(m TrafficMinute) error {
			refused = each(m)
			return refused
		})
	return cmp.Or(refused, db.failed("read traffic of", err))
}

// ForgetTraffic deletes what was counted before a time, and the annotations of that time.
func (db *DB) ForgetTraffic(ctx context.Context, before time.Time) error {
	if _, err := db.sql.ExecContext(ctx, `DELETE FROM traffic_minutes WHERE minute < $1`, before.Unix()/60); err != nil {
		return db.failed("prune traffic of", err)
	}
	_, err := db.sql.ExecContext(ctx, `DELETE FROM traffic_annotations WHERE at < $1`, before.UnixMicro())
	return db.failed("prune annotations of", err)
}
