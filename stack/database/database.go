// Package database has rules in SQLite or PostgreSQL, as penstock serve keeps them, for [stack.Config].
//
// It is separate from package stack so that programs with rules in files link no SQL.
package database

import (
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/rules/live"
)

// An Origin is a rules database. Close it after the stack.
type Origin interface {
	live.Origin
	Close() error
}

// Open returns the rules in a database: postgres://USER:PASSWORD@HOST/DATABASE, or sqlite:PATH. It does not look
// at the database yet.
func Open(source string) (Origin, error) { return ruledb.NewOrigin(source, ruledb.Options{}) }
