package ruledb

import (
	"context"
	"time"

	"github.com/penstock-io/penstock/engine/blocklist"
	"github.com/penstock-io/penstock/internal/blocks"
)

// Blocks are the blocked keys in the database of an Origin.
type Blocks struct{ Origin *Origin }

// Blocks returns the blocked keys in the database.
func (o *Origin) Blocks() blocks.Place { return &Blocks{Origin: o} }

// String returns the name of the database, without a password.
func (b *Blocks) String() string { return b.Origin.String() }

// Read returns all blocks.
func (b *Blocks) Read(ctx context.Context) (found []blocklist.Block, err error) {
	const attempt = "read the blocks from"
	db, err := b.Origin.DB(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := db.sql.QueryContext(ctx, `SELECT id, domain, attribute, value, reason, author, begins, ends, lifted_by FROM rule_blocks`)
	if err != nil {
		return nil, db.failed(attempt, err)
	}
	defer rows.Close()
	for rows.Next() {
		var one blocklist.Block
		var begins, ends int64
		if err := rows.Scan(&one.ID, &one.Domain, &one.Attribute, &one.Value, &one.Reason, &one.Author, &begins, &ends, &one.LiftedBy); err != nil {
			return nil, db.failed(attempt, err)
		}
		one.From, one.Until = time.UnixMicro(begins).UTC(), time.UnixMicro(ends).UTC()
		found = append(found, one)
	}
	if err := rows.Err(); err != nil {
		return nil, db.failed(attempt, err)
	}
	return found, nil
}

// Write adds blocks that are not there, marks those that are lifted, and deletes others, in one transaction.
func (b *Blocks) Write(ctx context.Context, put []blocklist.Block, drop []string) error {
	db, err := b.Origin.DB(ctx)
	if err != nil {
		return err
	}
	if err := db.writeBlocks(ctx, put, drop); err != nil {
		return db.failed("write blocks to", err)
	}
	return nil
}

func (db *DB) writeBlocks(ctx context.Context, put []blocklist.Block, drop []string) error {
	tx, err := db.engine.begin(ctx, db.sql)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no-op after a commit
	for i := range put {
		p := &put[i]
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO rule_blocks (id, domain, attribute, value, reason, author, begins, ends, lifted_by)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
			ON CONFLICT (id) DO UPDATE SET lifted_by = excluded.lifted_by WHERE rule_blocks.lifted_by = ''`,
			p.ID, p.Domain, p.Attribute, p.Value, p.Reason, p.Author, p.From.UnixMicro(), p.Until.UnixMicro(), p.LiftedBy); err != nil {
			return err
		}
	}
	for _, id := range drop {
		if _, err := tx.ExecContext(ctx, `DELETE FROM rule_blocks WHERE id = $1`, id); err != nil {
			return err
		}
	}
	return tx.Commit()
}
