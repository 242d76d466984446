package ruleservice

import (
	"context"
	"fmt"

	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/rules"
)

// A Publisher carries rules to nodes that have no database.
type Publisher interface {
	Publish(context.Context, *rules.Text) error
	String() string
}

// Service changes the rules. Its methods may be called from several goroutines.
type Service struct {
	Database  *ruledb.Origin
	Publisher Publisher     // nil: nodes read the database
	Compile   rules.Options // Version is the change's
}

// Applied is a change that was saved.
type Applied struct {
	Version  ruledb.Version
	Warnings rules.Problems

	// PublishErr is why it is not published yet. It is saved all the same, and [Service.Run] tries again.
	PublishErr error
}

// Apply saves a document as the next version and publishes it. file is what problems call the document.
//
// A document that does not compile is not saved; the error is of type [rules.Problems]. Warnings are returned either
// way. Other errors are those of [ruledb.DB.Save].
func (s *Service) Apply(ctx context.Context, file string, change ruledb.Change) (Applied, error) {
	warnings, err := s.check(ctx, file, change.Base+1, change.Document)
	if err != nil {
		return Applied{Warnings: warnings}, err
	}
	db, err := s.Database.DB(ctx)
	if err != nil {
		return Applied{Warnings: warnings}, err
	}
	saved, err := db.Save(ctx, change)
	if err != nil {
		return Applied{Warnings: warnings}, err
	}
	return Applied{saved, warnings, s.publish(ctx, saved.Text())}, nil
}

// Rollback saves the document of an older version as the next one and publishes it. One that no longer compiles, for
// what was right then may be a mistake today, is refused.
func (s *Service) Rollback(ctx context.Context, to int64, change ruledb.Change) (Applied, error) {
	db, err := s.Database.DB(ctx)
	if err != nil {
		return Applied{}, err
	}
	old, err := db.Version(ctx, to)
	if err != nil {
		return Applied{}, fmt.Errorf("roll back to version %d: %w", to, err)
	}
	warnings, err := s.check(ctx, fmt.Sprint("version ", to), change.Base+1, old.Document)
	if err != nil {
		return Applied{Warnings: warnings}, err
	}
	saved, err := db.Rollback(ctx, to, change)
	if err != nil {
		return Applied{Warnings: warnings}, err
	}
	return Applied{saved, warnings, s.publish(ctx, saved.Text())}, nil
}

// check compiles a document.
func (s *Service) check(ctx context.Context, file string, version int64, document []byte) (rules.Problems, error) {
	o := s.Compile
	o.Version = version
	_, warnings, err := rules.CompileContext(ctx, []rules.File{{Name: file, Data: document}}, o)
	return warnings, err
}

func (s *Service) publish(ctx context.Context, text *rules.Text) error {
	if s.Publisher == nil {
		return nil
	}
	return s.Publisher.Publish(ctx, text)
}
