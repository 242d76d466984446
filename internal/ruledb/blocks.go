package ruledb

import (
	"context"
	"database/sql"

	"github.com/penstock-io/penstock/engine/blocklist"
	"github.com/penstock-io/penstock/internal/blocks"
)

// Blocks are the blocked keys in the database of an Origin.
type Blocks struct{ Origin *Origin }

// Blocks returns the blocked keys in the database.
func (o *Origin) Blocks() blocks.Place { return &Blocks{Origin: o} }

// String returns the name of the database, without a password.
func (b *Blocks) String() string { return b.Origin.String() }

// What is read: nodes write fewer blocks, and shorter ones.
const (
	maxBlocks = 10_000
	maxBlock  = 32 << 10 // bytes of all texts of a block
)

// Read returns all blocks. Rows that no node could have written because they are too long are not read.
func (b *Blocks) Read(ctx context.Context) ([]blocklist.Block, error) {
	db, err := b.Origin.DB(ctx)
	if err != nil {
		return nil, err
	}
	return readAll(ctx, db, "read the blocks from", `
			SELECT id, domain, attribute, value, reason, author, begins, ends, lifted_by FROM rule_blocks
			WHERE octet_length(id) + octet_length(domain) + octet_length(attribute) + octet_length(value) + octet_length(reason) +
				octet_length(author) + octet_length(lifted_by) <= $1
			ORDER BY ends DESC LIMIT $2`, []any{maxBlock, maxBlocks},
		func(b *blocklist.Block) []any {
			return []any{&b.ID, &b.Domain, &b.Attribute, &b.Value, &b.Reason, &b.Author, timeColumn(&b.From), timeColumn(&b.Until), &b.LiftedBy}
		})
}

// Write adds blocks that are not there, marks those that are lifted, and deletes others, in one transaction.
func (b *Blocks) Write(ctx context.Context, put []blocklist.Block, drop []string) error {
	db, err := b.Origin.DB(ctx)
	if err != nil {
		return err
	}
	return db.inTransaction(ctx, "write blocks to", func(tx *sql.Tx) error {
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
		return nil
	})
}
