package ruledb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteEngine is a database in one file, shared by the processes of one machine.
type sqliteEngine struct {
	path    string // absolute
	options Options
}

func newSQLite(path string, options Options) (engine, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return &sqliteEngine{path, options}, nil
}

func (e *sqliteEngine) String() string { return "sqlite:" + e.path }

func (e *sqliteEngine) open() (*sql.DB, error) {
	// The operating system reports better than SQLite why a file cannot be opened. Only the owner may read the file.
	file, err := os.OpenFile(e.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", e.dsn())
	if err != nil {
		return nil, err
	}
	const readers = 4 // in addition to one writer; more would wait for the same disk
	db.SetMaxOpenConns(readers + 1)
	return db, nil
}

func (e *sqliteEngine) dsn() string {
	query := url.Values{
		"_busy_timeout": {fmt.Sprint(max(1, e.options.Patience.Milliseconds()))},
		"_journal_mode": {"WAL"},  // readers do not wait for a writer
		"_synchronous":  {"FULL"}, // a commit returns when it is on disk
		"_foreign_keys": {"on"},
		"_txlock":       {"immediate"}, // a transaction that writes takes the lock at its start and cannot fail to get it later
		"_dqs":          {"false"},
		"_defensive":    {"true"},
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(e.path), RawQuery: query.Encode()}).String()
}

func (e *sqliteEngine) begin(ctx context.Context, db *sql.DB) (*sql.Tx, error) {
	return db.BeginTx(ctx, nil)
}

func (e *sqliteEngine) migrations() (fs.FS, goose.Dialect, []goose.ProviderOption, error) {
	files, err := fs.Sub(migrationFiles, "migrations/sqlite")
	return files, goose.DialectSQLite3, nil, err
}

func (e *sqliteEngine) listen(context.Context, func()) error { return nil }

// isBusy reports whether an error says that the file is locked. While a connection switches the file to WAL, or cleans
// up as the last one, SQLite says so to others without waiting for as long as it was told.
func isBusy(err error) bool {
	var failed *sqlite.Error
	return errors.As(err, &failed) && failed.Code()&0xff == sqlite3.SQLITE_BUSY
}

func (e *sqliteEngine) advise(err error) string {
	failed, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			return "create the directory and let this user write to it"
		}
		return ""
	}
	switch failed.Code() & 0xff { // the low byte is the kind, the rest a detail
	case sqlite3.SQLITE_FULL:
		return "nothing was changed; free disk space and try again"
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fmt.Sprintf("nothing was changed; another process has held the file locked for %v: try again, or end that process", e.options.Patience)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return "the file is damaged or not a rules database: restore it from a backup, or move it and its -wal and -shm files away and save the rules again"
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return "let this user write to the file, its -wal and -shm files and their directory"
	case sqlite3.SQLITE_IOERR:
		return "the disk failed or is full: check the system log, then try again"
	}
	return ""
}
