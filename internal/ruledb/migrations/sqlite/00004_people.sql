-- +goose Up
CREATE TABLE admin_people (
	revision INTEGER NOT NULL -- incremented by every change of users and tokens
) STRICT;
INSERT INTO admin_people (revision) VALUES (0);

CREATE TABLE admin_users (
	id         INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again
	name       TEXT    NOT NULL UNIQUE,
	role       TEXT    NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
	password   TEXT    NOT NULL, -- argon2id, as a PHC string
	version    INTEGER NOT NULL, -- incremented by every change of the user
	epoch      INTEGER NOT NULL, -- incremented by every new password, which ends sessions
	created_at INTEGER NOT NULL, -- microseconds since 1970
	login_at   INTEGER NOT NULL  -- 0: never
) STRICT;

CREATE TABLE admin_tokens (
	id         TEXT    PRIMARY KEY,
	digest     BLOB    NOT NULL UNIQUE, -- SHA-256 of the secret
	name       TEXT    NOT NULL,
	owner      INTEGER REFERENCES admin_users (id) ON DELETE CASCADE, -- NULL: a service
	role       TEXT    NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
	scopes     TEXT    NOT NULL, -- separated by spaces; empty: all
	created_by TEXT    NOT NULL,
	created_at INTEGER NOT NULL,
	expires_at INTEGER NOT NULL, -- 0: never
	used_at    INTEGER NOT NULL  -- 0: never
) STRICT;
CREATE INDEX admin_tokens_owner ON admin_tokens (owner);
