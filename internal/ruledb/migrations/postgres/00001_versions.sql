-- +goose Up
CREATE TABLE rule_versions (
	number   BIGINT PRIMARY KEY CHECK (number > 0),
	at       BIGINT NOT NULL, -- microseconds since 1970
	author   TEXT   NOT NULL,
	message  TEXT   NOT NULL,
	restores BIGINT REFERENCES rule_versions (number), -- whose document this is again
	digest   BYTEA  NOT NULL, -- SHA-256 of the document
	document BYTEA  NOT NULL
);

CREATE TABLE rule_audit (
	number  BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at      BIGINT NOT NULL,
	actor   TEXT   NOT NULL,
	action  TEXT   NOT NULL,
	version BIGINT REFERENCES rule_versions (number),
	detail  TEXT   NOT NULL
);

-- +goose StatementBegin
CREATE FUNCTION rule_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION '% cannot be changed or deleted', TG_TABLE_NAME USING ERRCODE = 'object_not_in_prerequisite_state';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER rule_versions_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON rule_versions
	FOR EACH STATEMENT EXECUTE FUNCTION rule_refuse();
CREATE TRIGGER rule_audit_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON rule_audit
	FOR EACH STATEMENT EXECUTE FUNCTION rule_refuse();

-- Nodes are told when the transaction commits. Where the server does not wait for its disk at a commit, it must at this
-- one: what was acknowledged must survive a crash.
-- +goose StatementBegin
CREATE FUNCTION rule_version_saved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('synchronous_commit') = 'off' THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
	PERFORM pg_notify('penstock_rules', NEW.number::text);
	RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER rule_versions_saved AFTER INSERT ON rule_versions
	FOR EACH ROW EXECUTE FUNCTION rule_version_saved();
