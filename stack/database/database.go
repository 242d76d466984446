// Package database reads rules from SQLite or PostgreSQL, as penstock serve stores them, for [stack.Config].
//
// It is separate from package stack so that programs with rules in files do not link SQL.
package database

import (
	"context"
	"fmt"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/entitlement"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/rules/live"
)

// An Origin is a rules database. Close it after the stack.
type Origin interface {
	live.Origin
	Close() error
}

// Open returns the rules in a database: postgres://USER:PASSWORD@HOST/DATABASE, or sqlite:PATH. It does not
// connect yet.
func Open(source string) (Origin, error) { return ruledb.NewOrigin(source, ruledb.Options{}) }

// Entitlements are the numbers of limits that a rules database has for tenants or plans. Close them before the origin.
type Entitlements interface {
	rules.Entitlements
	Close()
}

// Follow reads the entitlements in a database that Open returned, and follows their changes, for [stack.Config]. While
// the database does not answer, the rows of the last read stay. The context bounds the first read.
func Follow(ctx context.Context, o Origin) (Entitlements, error) {
	origin, ok := o.(*ruledb.Origin)
	if !ok {
		return nil, fmt.Errorf("follow entitlements: %w: %T is not from Open", penstock.ErrInvalid, o)
	}
	return entitlement.Follow(ctx, origin, entitlement.Options{})
}
