// Package database reads rules from SQLite or PostgreSQL, as penstock serve stores them, for [stack.Config].
//
// It is separate from package stack so that programs with rules in files do not link SQL.
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

// Open returns the rules in a database: postgres://USER:PASSWORD@HOST/DATABASE, or sqlite:PATH. It does not
// connect yet.
func Open(source string) (Origin, error) { return ruledb.NewOrigin(source, ruledb.Options{}) }
