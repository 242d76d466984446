-- +goose Up
CREATE TABLE rule_versions (
	number   INTEGER PRIMARY KEY CHECK (number > 0),
	at       INTEGER NOT NULL, -- microseconds since 1970
	author   TEXT    NOT NULL,
	message  TEXT    NOT NULL,
	restores INTEGER REFERENCES rule_versions (number), -- whose document this is again
	digest   BLOB    NOT NULL, -- SHA-256 of the document
	document BLOB    NOT NULL  -- last: what is before it can be read without it
) STRICT;

CREATE TABLE rule_audit (
	number  INTEGER PRIMARY KEY AUTOINCREMENT,
	at      INTEGER NOT NULL,
	actor   TEXT    NOT NULL,
	action  TEXT    NOT NULL,
	version INTEGER REFERENCES rule_versions (number),
	detail  TEXT    NOT NULL
) STRICT;

-- Also against INSERT OR REPLACE, which deletes without asking the triggers of a deletion.
-- +goose StatementBegin
CREATE TRIGGER rule_versions_insert BEFORE INSERT ON rule_versions
WHEN NEW.number <> (SELECT coalesce(max(number), 0) + 1 FROM rule_versions)
BEGIN
	SELECT raise(ABORT, 'rule versions follow each other without a gap');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER rule_versions_update BEFORE UPDATE ON rule_versions
BEGIN
	SELECT raise(ABORT, 'rule versions cannot be changed');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER rule_versions_delete BEFORE DELETE ON rule_versions
BEGIN
	SELECT raise(ABORT, 'rule versions cannot be deleted');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER rule_audit_insert BEFORE INSERT ON rule_audit
WHEN EXISTS (SELECT 1 FROM rule_audit WHERE number = NEW.number)
BEGIN
	SELECT raise(ABORT, 'the audit cannot be changed');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER rule_audit_update BEFORE UPDATE ON rule_audit
BEGIN
	SELECT raise(ABORT, 'the audit cannot be changed');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER rule_audit_delete BEFORE DELETE ON rule_audit
BEGIN
	SELECT raise(ABORT, 'the audit cannot be deleted');
END;
-- +goose StatementEnd
