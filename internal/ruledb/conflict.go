package ruledb

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Conflict says that a change was based on a version that is no longer the current one. Nothing was saved.
type Conflict struct {
	Base    Version // the version the change was based on; only the number if it does not exist
	Current Version // the version it would have overwritten
}

func (c *Conflict) Error() string {
	if c.Base.Number > c.Current.Number {
		return fmt.Sprintf("save the rules: the change was made from version %d, which does not exist; the current version is %d: read it and make the change again",
			c.Base.Number, c.Current.Number)
	}
	text := fmt.Sprintf("save the rules: the change was made from version %d, but %s saved version %d at %s",
		c.Base.Number, c.Current.Author, c.Current.Number, c.Current.At.Format(time.RFC3339))
	if c.Current.Message != "" {
		text += fmt.Sprintf(" (%q)", c.Current.Message)
	}
	return text + ": review the changes and make yours again"
}

// Diff returns what others changed between the base of the change and the current version.
func (c *Conflict) Diff() string { return Diff(c.Base, c.Current) }

// conflict reads the versions with which a rejected change conflicts. Versions never change, so reading them one
// after the other is safe.
func (db *DB) conflict(ctx context.Context, base int64) error {
	c := &Conflict{Base: Version{Number: base}}
	var err error
	if c.Current, err = db.Current(ctx); err != nil {
		return err
	}
	if base == 0 {
		return c
	}
	v, err := db.Version(ctx, base)
	if err == nil {
		c.Base = v
	} else if !errors.Is(err, ErrNotFound) {
		return err
	}
	return c
}
