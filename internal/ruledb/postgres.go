package ruledb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/penstock-io/penstock/internal/urlform"
)

// channel is the PostgreSQL channel on which a trigger of the migrations announces new versions.
const channel = "penstock_rules"

// migrationLock keeps two nodes that start together from migrating at the same time. It can be any number that
// nothing else uses.
const migrationLock = 0x70656e73746f636b // "penstock"

// postgresEngine is a database shared by several nodes.
type postgresEngine struct {
	config  *pgx.ConnConfig
	options Options
}

func newPostgres(source string, options Options) (engine, error) {
	config, err := pgx.ParseConfig(source)
	if err != nil {
		return nil, parseError(source, err)
	}
	if strings.Contains(config.Host+config.Database, "@") {
		return nil, parseError(source, nil)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = options.Patience
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "penstock"
	}
	return &postgresEngine{config, options}, nil
}

// parseError says what is wrong with a source. pgx hides passwords in its errors, but can only guess where a
// password ends if the URL is malformed.
func parseError(source string, err error) error {
	if err != nil && urlform.WellFormed(source) {
		return err
	}
	return fmt.Errorf("invalid URL %q: must be postgres://USER:PASSWORD@HOST:PORT/DATABASE, with @ : / ? # and %% of a password percent-encoded", urlform.Redact(source))
}

func (e *postgresEngine) String() string {
	return fmt.Sprintf("postgres://%s@%s:%d/%s", e.config.User, e.config.Host, e.config.Port, e.config.Database)
}

func (e *postgresEngine) open() (*sql.DB, error) {
	// A connection may have died unnoticed, with the server or because an administrator closed it. Queries are rare
	// enough to ping first, so that an edit after a restart of the server does not fail.
	db := stdlib.OpenDB(*e.config, stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return true }))
	db.SetMaxOpenConns(4)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return db, nil
}

// begin sets options for each transaction, because behind a connection pool a session may lose them. A stricter
// isolation level would turn conflicts into errors.
func (e *postgresEngine) begin(ctx context.Context, db *sql.DB) (*sql.Tx, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprint("SET LOCAL lock_timeout = ", max(1, e.options.Patience.Milliseconds()))); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return tx, nil
}

func (e *postgresEngine) migrations() (fs.FS, goose.Dialect, []goose.ProviderOption, error) {
	files, err := fs.Sub(migrationFiles, "migrations/postgres")
	if err != nil {
		return nil, "", nil, err
	}
	const everySecond, times = 1, 300
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrationLock), lock.WithLockTimeout(everySecond, times))
	if err != nil {
		return nil, "", nil, err
	}
	return files, goose.DialectPostgres, []goose.ProviderOption{goose.WithSessionLocker(locker)}, nil
}

// listen has its own connection: the pool would lend one of its connections to others between two notifications.
func (e *postgresEngine) listen(ctx context.Context, wake func()) error {
	conn, err := pgx.ConnectConfig(ctx, e.config.Copy())
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.options.Patience)
		defer cancel()
		_ = conn.Close(ctx) // it is not used again either way
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	for {
		wake() // for versions saved before the LISTEN
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}

func (e *postgresEngine) advise(err error) string {
	failed, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return "check that PostgreSQL is running and accepts connections from this machine, then try again"
	}
	switch code := failed.Code; {
	case code == "53100":
		return "nothing was changed; free disk space on the server and try again"
	case code == "57014":
		return "the server cancelled the statement: try again, and raise its statement_timeout if that is too short"
	case code == "55P03":
		return fmt.Sprintf("nothing was changed; another transaction has held its lock for %v: try again, or end that transaction", e.options.Patience)
	case code == "53300":
		return "raise max_connections, or put a connection pooler in front of the server"
	case code == "25006":
		return "the server is read-only: connect to the primary, not to a standby"
	case code == "3D000":
		return fmt.Sprintf("create it: CREATE DATABASE %q", e.config.Database)
	case code == "42501":
		return fmt.Sprintf("grant %q the right to use the rule tables, and to create them if this is the first start", e.config.User)
	case strings.HasPrefix(code, "28"):
		return "check the user and the password"
	case strings.HasPrefix(code, "57P"):
		return "the server is stopping or starting: try again in a moment"
	case strings.HasPrefix(code, "XX"):
		return "the server reports corruption: check its log, and restore a backup if it says so"
	}
	return ""
}
