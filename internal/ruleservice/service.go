package ruleservice

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/rules/live"
)

// A Publisher sends rules to nodes that have no database.
type Publisher interface {
	Publish(context.Context, *live.Text) error
	String() string
}

// Service changes the rules. Its methods may be called from several goroutines.
type Service struct {
	Database  *ruledb.Origin
	Publisher Publisher     // nil: nodes read the database
	Compile   rules.Options // Version is set from the change
}

// ApplyResult is a change that was saved.
type ApplyResult struct {
	Version  ruledb.Version
	Snapshot *rules.Snapshot // of the version
	Warnings rules.Problems

	// PublishErr is why it is not published yet. It is saved nevertheless, and [Service.Run] tries again.
	PublishErr error
}

// Apply saves a document as the next version and publishes it. file is the name that problems use for the
// document.
//
// A document that does not compile is not saved, and the error is of type [rules.Problems]. Warnings are returned
// either way. Other errors are those of [ruledb.DB.Save].
func (s *Service) Apply(ctx context.Context, file string, change ruledb.Change) (ApplyResult, error) {
	return s.save(ctx, file, change.Base, change.Document, func(db *ruledb.DB) (ruledb.Version, error) { return db.Save(ctx, change) })
}

// Rollback saves the document of an older version as the next one and publishes it. It rejects a document that no
// longer compiles, because a newer Penstock may reject what an older one accepted.
func (s *Service) Rollback(ctx context.Context, to int64, change ruledb.Change) (ApplyResult, error) {
	db, err := s.Database.DB(ctx)
	if err != nil {
		return ApplyResult{}, err
	}
	old, err := db.Version(ctx, to)
	if err != nil {
		return ApplyResult{}, fmt.Errorf("roll back to version %d: %w", to, err)
	}
	return s.save(ctx, fmt.Sprint("version ", to), change.Base, old.Document, func(db *ruledb.DB) (ruledb.Version, error) { return db.Rollback(ctx, to, change) })
}

// save compiles a document, saves it by write and publishes it. The database passes the compiled text on to this
// node.
func (s *Service) save(ctx context.Context, file string, base int64, document []byte, write func(*ruledb.DB) (ruledb.Version, error)) (ApplyResult, error) {
	text := ruledb.TextOf(base+1, document)
	snapshot, warnings, err := text.Compile(ctx, s.Compile)
	applied := ApplyResult{Snapshot: snapshot, Warnings: in(file, warnings)}
	if mistakes, ok := errors.AsType[rules.Problems](err); ok {
		return applied, in(file, mistakes)
	}
	if err != nil {
		return applied, err
	}
	db, err := s.Database.DB(ctx)
	if err != nil {
		return applied, err
	}
	s.Database.Offer(text)
	if applied.Version, err = write(db); err != nil {
		s.Database.Offer(nil)
		return applied, err
	}
	applied.PublishErr = s.publish(ctx, applied.Version.Text())
	return applied, nil
}

// in returns the problems of a text with the name of a file.
func in(file string, problems rules.Problems) rules.Problems {
	problems = slices.Clone(problems)
	for i := range problems {
		problems[i].File = file
	}
	return problems
}

func (s *Service) publish(ctx context.Context, text *live.Text) error {
	if s.Publisher == nil {
		return nil
	}
	return s.Publisher.Publish(ctx, text)
}
