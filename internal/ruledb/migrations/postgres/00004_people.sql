-- +goose Up
CREATE TABLE admin_people (
	revision BIGINT NOT NULL -- incremented by every change of users and tokens
);
INSERT INTO admin_people (revision) VALUES (0);

CREATE TABLE admin_users (
	id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- never used again
	name       TEXT   NOT NULL UNIQUE,
	role       TEXT   NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
	password   TEXT   NOT NULL, -- argon2id, as a PHC string
	version    BIGINT NOT NULL, -- incremented by every change of the user
	epoch      BIGINT NOT NULL, -- incremented by every new password, which ends sessions
	created_at BIGINT NOT NULL, -- microseconds since 1970
	login_at   BIGINT NOT NULL  -- 0: never
);

CREATE TABLE admin_tokens (
	id         TEXT   PRIMARY KEY,
	digest     BYTEA  NOT NULL UNIQUE, -- SHA-256 of the secret
	name       TEXT   NOT NULL,
	owner      BIGINT REFERENCES admin_users (id) ON DELETE CASCADE, -- NULL: a service
	role       TEXT   NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
	scopes     TEXT   NOT NULL, -- separated by spaces; empty: all
	created_by TEXT   NOT NULL,
	created_at BIGINT NOT NULL,
	expires_at BIGINT NOT NULL, -- 0: never
	used_at    BIGINT NOT NULL  -- 0: never
);
CREATE INDEX admin_tokens_owner ON admin_tokens (owner);

-- A user who was removed must not come back after a crash of a server that does not wait for its disk at a commit.
-- +goose StatementBegin
CREATE FUNCTION admin_people_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('synchronous_commit') = 'off' THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
	RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER admin_people_changed AFTER UPDATE ON admin_people
	FOR EACH ROW EXECUTE FUNCTION admin_people_changed();
