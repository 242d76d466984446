package ruledb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/bounds"
)

// Bounds of entitlements.
const (
	MaxEntitlements      = 5_000_000 // rows
	MaxEntitlementChange = 10_000    // rows in one change
	MaxEntitlementPage   = 10_000
	maxEntitlementValue  = 255 // bytes
	maxEntitlementName   = 64  // bytes
)

// ActionEntitlements is the action of an audit entry about entitlements.
const ActionEntitlements = "set-entitlements"

// An EntitlementKey names a row: the limit called Name of clients whose Attribute has the Value.
type EntitlementKey struct {
	Attribute, Value, Name string
}

func (k EntitlementKey) String() string { return fmt.Sprintf("%s=%q %s", k.Attribute, k.Value, k.Name) }

func (k EntitlementKey) compare(other EntitlementKey) int {
	return cmp.Or(strings.Compare(k.Attribute, other.Attribute), strings.Compare(k.Value, other.Value), strings.Compare(k.Name, other.Name))
}

// An Entitlement is the number of a limit for clients whose attribute has a value.
type Entitlement struct {
	EntitlementKey
	Number int64
	Until  time.Time // when it stops to apply; zero: never

	At     time.Time // of the last change
	Author string
}

// An EntitlementChange sets and deletes rows together or not at all.
type EntitlementChange struct {
	Set    []Entitlement // At and Author are set by SaveEntitlements
	Delete []EntitlementKey
	Author string
	Note   string // for the audit log; may be empty
}

// An EntitlementResult says what a change did.
type EntitlementResult struct {
	Added, Changed, Deleted, Unchanged int
}

func (r EntitlementResult) writes() int { return r.Added + r.Changed + r.Deleted }

// SaveEntitlements changes rows and returns when that is on disk. Rows that already have the number stay as they are.
func (db *DB) SaveEntitlements(ctx context.Context, c EntitlementChange) (EntitlementResult, error) {
	if err := c.validate(); err != nil {
		return EntitlementResult{}, fmt.Errorf("save entitlements: %w: %w", penstock.ErrInvalid, err)
	}
	w := entitlementWriter{now: time.Now(), change: &c}
	var refusal error
	err := db.inTransaction(ctx, "save entitlements in", func(tx *sql.Tx) error {
		w.tx = tx
		err := w.run(ctx)
		if errors.Is(err, penstock.ErrInvalid) {
			refusal = err
		}
		return err
	})
	if err != nil {
		return EntitlementResult{}, cmp.Or(refusal, err)
	}
	if w.result.writes() > 0 {
		db.watchers.wake()
	}
	return w.result, nil
}

// run writes the change, and that there is one.
func (w *entitlementWriter) run(ctx context.Context) error {
	// Locks the row until the commit.
	row := w.tx.QueryRowContext(ctx, `UPDATE entitlement_changes SET stored = stored WHERE id = 1 RETURNING change, stored, purged`)
	if err := row.Scan(&w.last, &w.stored, &w.purged); err != nil {
		return err
	}
	if err := w.write(ctx); err != nil || w.result.writes() == 0 {
		return err
	}
	if w.stored > MaxEntitlements {
		return fmt.Errorf("save entitlements: %w: there would be %d rows, at most %d", penstock.ErrInvalid, w.stored, MaxEntitlements)
	}
	if err := w.purge(ctx); err != nil {
		return err
	}
	if _, err := w.tx.ExecContext(ctx, `UPDATE entitlement_changes SET change = $1, stored = $2, purged = $3 WHERE id = 1`, w.last, w.stored, w.purged); err != nil {
		return err
	}
	return record(ctx, w.tx, Event{At: w.now, Actor: w.change.Author, Action: ActionEntitlements, Detail: w.detail()})
}

// An entitlementWriter writes one change.
type entitlementWriter struct {
	tx     *sql.Tx
	now    time.Time
	change *EntitlementChange

	last, stored, purged int64
	result               EntitlementResult
	told                 []string // what changed, for the audit log
}

// A storedNumber is a row before a change. Number is -1 if it is deleted.
type storedNumber struct{ number, until int64 }

// entitlementBatch is how many rows one statement reads or writes. SQLite takes longer for many parameters.
const entitlementBatch = 100

func (w *entitlementWriter) write(ctx context.Context) error {
	rows := slices.Clone(w.change.Set)
	for _, k := range w.change.Delete {
		rows = append(rows, Entitlement{EntitlementKey: k, Number: -1})
	}
	slices.SortFunc(rows, func(a, b Entitlement) int { return a.compare(b.EntitlementKey) })
	for batch := range slices.Chunk(rows, entitlementBatch) {
		before, err := w.read(ctx, batch)
		if err != nil {
			return err
		}
		changed := slices.DeleteFunc(batch, func(e Entitlement) bool { return !w.differs(&e, before) })
		if err := w.upsert(ctx, changed); err != nil {
			return err
		}
	}
	return nil
}

// read returns the rows of a batch that exist.
func (w *entitlementWriter) read(ctx context.Context, batch []Entitlement) (map[EntitlementKey]storedNumber, error) {
	var args []any
	for i := range batch {
		args = append(args, batch[i].Attribute, batch[i].Value, batch[i].Name)
	}
	found := map[EntitlementKey]storedNumber{}
	type row struct {
		key EntitlementKey
		storedNumber
	}
	// SQLite reads the first table of a cross join first, and looks up its rows in the second.
	err := eachRow(ctx, w.tx, `WITH asked (attribute, value, name) AS (VALUES `+keyPlaceholders(len(batch))+`)
		SELECT e.attribute, e.value, e.name, coalesce(e.number, -1), coalesce(e.until, 0) FROM asked CROSS JOIN entitlements e
		WHERE e.attribute = asked.attribute AND e.value = asked.value AND e.name = asked.name`, args,
		func(r *row) []any { return []any{&r.key.Attribute, &r.key.Value, &r.key.Name, &r.number, &r.until} },
		func(r row) error {
			found[r.key] = r.storedNumber
			return nil
		})
	return found, err
}

// keyPlaceholders returns ($1, $2, $3), ($4, $5, $6) and so on.
func keyPlaceholders(rows int) string {
	texts := make([]string, rows)
	for i := range texts {
		texts[i] = fmt.Sprintf("($%d, $%d, $%d)", 3*i+1, 3*i+2, 3*i+3)
	}
	return strings.Join(texts, ", ")
}

// differs reports whether a row must be written, and counts what happens to it.
func (w *entitlementWriter) differs(e *Entitlement, before map[EntitlementKey]storedNumber) bool {
	old, exists := before[e.EntitlementKey]
	exists = exists && old.number >= 0
	now := storedNumber{e.Number, micros(e.Until)}
	switch {
	case !exists && e.Number < 0 || exists && now == old:
		w.result.Unchanged++
		return false
	case e.Number < 0:
		w.result.Deleted++
		w.stored--
	case exists:
		w.result.Changed++
	default:
		w.result.Added++
		w.stored++
	}
	if len(w.told) < maxToldRows {
		w.told = append(w.told, fmt.Sprintf("%v: %s → %s", e.EntitlementKey, old.text(exists), now.text(e.Number >= 0)))
	}
	return true
}

// maxToldRows is how many changed rows an audit entry lists.
const maxToldRows = 12

func (s storedNumber) text(exists bool) string {
	switch {
	case !exists:
		return "none"
	case s.until != 0:
		return fmt.Sprintf("%d until %s", s.number, time.UnixMicro(s.until).UTC().Format(time.RFC3339))
	}
	return fmt.Sprint(s.number)
}

// upsert writes rows, each with the number of its own change.
func (w *entitlementWriter) upsert(ctx context.Context, rows []Entitlement) error {
	if len(rows) == 0 {
		return nil
	}
	args, values := []any{w.change.Author}, make([]string, len(rows))
	for i := range rows {
		e := &rows[i]
		w.last++
		args = append(args, e.Attribute, e.Value, e.Name)
		values[i] = fmt.Sprintf("($%d, $%d, $%d, %s, %s, %d, %d, $1)", len(args)-2, len(args)-1, len(args),
			literal(e.Number, e.Number >= 0), literal(micros(e.Until), !e.Until.IsZero()), w.last, w.now.UnixMicro())
	}
	_, err := w.tx.ExecContext(ctx, `INSERT INTO entitlements (attribute, value, name, number, until, change, at, author)
		VALUES `+strings.Join(values, ", ")+`
		ON CONFLICT (attribute, value, name) DO UPDATE SET number = excluded.number, until = excluded.until,
			change = excluded.change, at = excluded.at, author = excluded.author`, args...)
	return err
}

func literal(number int64, valid bool) string {
	if !valid {
		return "NULL"
	}
	return fmt.Sprint(number)
}

// keepDeleted is how long a deleted row is kept for nodes that do not know of it yet.
const keepDeleted = 30 * 24 * time.Hour

// purge removes rows that were deleted long ago.
func (w *entitlementWriter) purge(ctx context.Context) error {
	before := w.now.Add(-keepDeleted).UnixMicro()
	row := w.tx.QueryRowContext(ctx, `SELECT coalesce(max(change), 0) FROM entitlements WHERE number IS NULL AND at < $1`, before)
	var last int64
	if err := row.Scan(&last); err != nil || last == 0 {
		return err
	}
	w.purged = max(w.purged, last)
	_, err := w.tx.ExecContext(ctx, `DELETE FROM entitlements WHERE number IS NULL AND at < $1`, before)
	return err
}

// detail returns what changed, for the audit log.
func (w *entitlementWriter) detail() string {
	text := strings.Join(w.told, "; ")
	if more := w.result.writes() - len(w.told); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	if w.change.Note != "" {
		text = w.change.Note + ": " + text
	}
	return strings.ToValidUTF8(text[:min(len(text), MaxMessage)], "")
}

// validate reports every error in a change, up to a few.
func (c *EntitlementChange) validate() error {
	errs := []error{validateName("author", c.Author), validateText("note", c.Note)}
	if n := len(c.Set) + len(c.Delete); n > MaxEntitlementChange {
		return fmt.Errorf("%d rows; at most %d in one change", n, MaxEntitlementChange)
	}
	seen := map[EntitlementKey]bool{}
	check := func(k EntitlementKey, err error) {
		if err == nil && seen[k] {
			err = fmt.Errorf("%v is there twice", k)
		}
		seen[k] = true
		if err != nil && len(errs) < maxToldRows {
			errs = append(errs, err)
		}
	}
	for i := range c.Set {
		check(c.Set[i].EntitlementKey, c.Set[i].Validate())
	}
	for _, k := range c.Delete {
		check(k, k.validate())
	}
	return errors.Join(errs...)
}

// Validate reports every error in a row.
func (e *Entitlement) Validate() error {
	err := e.validate()
	if e.Number < 0 || e.Number > algorithm.MaxCount {
		err = errors.Join(err, fmt.Errorf("number %d of %v must be from 0 to %d", e.Number, e.EntitlementKey, int64(algorithm.MaxCount)))
	}
	if !e.Until.IsZero() && (e.Until.Before(time.Unix(1, 0)) || e.Until.After(algorithm.MaxInstant.Time())) {
		err = errors.Join(err, fmt.Errorf("until %s of %v must be from 1970 to %d", e.Until.Format(time.RFC3339), e.EntitlementKey, algorithm.MaxInstant.Time().Year()-1))
	}
	return err
}

func (k EntitlementKey) validate() error {
	var errs []error
	check := func(what, name string, most int) {
		if !isName(name) || len(name) > most {
			errs = append(errs, fmt.Errorf("invalid %s %.80q: must be 1 to %d letters, digits, - and _", what, name, most))
		}
	}
	check("attribute", k.Attribute, bounds.AttributeName)
	check("limit", k.Name, maxEntitlementName)
	if k.Value == "" || len(k.Value) > maxEntitlementValue || !utf8.ValidString(k.Value) || strings.ContainsFunc(k.Value, unicode.IsControl) {
		errs = append(errs, fmt.Errorf("invalid value %.80q: must be 1 to %d bytes of UTF-8 without control characters", k.Value, maxEntitlementValue))
	}
	return errors.Join(errs...)
}

func isName(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// An EntitlementQuery selects rows. Empty fields select all.
type EntitlementQuery struct {
	Attribute string
	Value     string
	Prefix    string         // of the value
	After     EntitlementKey // only rows that follow this one
	Limit     int            // at most MaxEntitlementPage
}

// Entitlements returns rows ordered by attribute, value and name.
func (db *DB) Entitlements(ctx context.Context, q EntitlementQuery) ([]Entitlement, error) {
	if q.Limit < 1 || q.Limit > MaxEntitlementPage {
		return nil, fmt.Errorf("read entitlements: %w: limit must be from 1 to %d, got %d", penstock.ErrInvalid, MaxEntitlementPage, q.Limit)
	}
	conditions, args := q.conditions()
	return readAll(ctx, db, "read entitlements from", `SELECT attribute, value, name, number, coalesce(until, 0), at, author FROM entitlements
		WHERE number IS NOT NULL `+conditions+` ORDER BY attribute, value, name LIMIT `+fmt.Sprint(q.Limit), args,
		func(e *Entitlement) []any {
			return []any{&e.Attribute, &e.Value, &e.Name, &e.Number, timeColumn(&e.Until), timeColumn(&e.At), &e.Author}
		})
}

// conditions returns the conditions that the query needs and no others, so that a database can use the table's key.
func (q *EntitlementQuery) conditions() (text string, args []any) {
	add := func(condition string, values ...any) {
		for _, v := range values {
			args = append(args, v)
			condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(args)), 1)
		}
		text += " AND " + condition
	}
	if q.After != (EntitlementKey{}) {
		add("(attribute, value, name) > (?, ?, ?)", q.After.Attribute, q.After.Value, q.After.Name)
	}
	if q.Attribute != "" {
		add("attribute = ?", q.Attribute)
	}
	if q.Value != "" {
		add("value = ?", q.Value)
	}
	if q.Prefix != "" {
		add("value >= ? AND value < ?", q.Prefix, q.Prefix+string(utf8.MaxRune))
	}
	return text, args
}

// EntitlementChanges are changed rows in the order of their changes.
type EntitlementChanges struct {
	Rows  []ChangedEntitlement
	Last  int64 // number of the last change in Rows, or the one they were read after
	More  bool  // there are further changes
	Reset bool  // the rows to start with were lost: drop what is known and read from 0
}

// A ChangedEntitlement is a row that was set or deleted.
type ChangedEntitlement struct {
	EntitlementKey
	Number  int64
	Until   int64 // microseconds since 1970; 0: never
	Deleted bool
}

// EntitlementsSince returns the rows that changed after a change, at most limit. After 0 it returns all rows.
func (db *DB) EntitlementsSince(ctx context.Context, after int64, limit int) (EntitlementChanges, error) {
	c := EntitlementChanges{Last: after}
	var last, purged int64
	if err := db.sql.QueryRowContext(ctx, `SELECT change, purged FROM entitlement_changes WHERE id = 1`).Scan(&last, &purged); err != nil {
		return c, db.failed("ask for changed entitlements in", err)
	}
	// A database that was restored from a backup may know less than a node.
	if c.Reset = after > last || after != 0 && after < purged; c.Reset || last == after {
		return c, nil
	}
	var err error
	c.Rows, err = readAll(ctx, db, "read changed entitlements from", `SELECT attribute, value, name, coalesce(number, -1), coalesce(until, 0), change FROM entitlements
		WHERE change > $1 ORDER BY change LIMIT $2`, []any{after, limit},
		func(e *ChangedEntitlement) []any {
			number := column[int64](func(n int64) { e.Number, e.Deleted = n, n < 0 })
			return []any{&e.Attribute, &e.Value, &e.Name, number, &e.Until, &c.Last}
		})
	if err != nil {
		return c, err
	}
	if c.More = len(c.Rows) == limit; !c.More {
		c.Last = max(c.Last, last)
	}
	return c, nil
}

// NotifyEntitlements calls changed whenever entitlements may have changed, until ctx ends. It waits until the database
// is open.
func (o *Origin) NotifyEntitlements(ctx context.Context, changed func()) {
	select {
	case <-ctx.Done():
		return
	case <-o.opened:
	}
	o.db.watchers.follow(ctx, changed, nil, nil)
}
